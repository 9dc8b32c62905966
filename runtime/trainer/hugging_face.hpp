// Owns the small files that make a checkpoint directory one that Hugging Face transformers loads as it is.
#pragma once

#include <string>

#include "runtime/manifest/manifest.hpp"

namespace prime::trainer {

/// config.json: a LlamaConfig.
std::string config_json(const manifest::Model& model);
/// generation_config.json.
std::string generation_config_json();

}  // namespace prime::trainer
