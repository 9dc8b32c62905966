// Owns the small files that make a checkpoint directory one that Hugging Face transformers loads as it is.
#pragma once

#include <map>
#include <string>

#include "runtime/manifest/manifest.hpp"
#include "runtime/trainer/data/tokenizer.hpp"

namespace prime::trainer {

/// config.json: the model's, and which tokens play which part.
std::string config_json(const manifest::Model& model, const data::Tokenizer& tokenizer);
/// generation_config.json.
std::string generation_config_json(const data::Tokenizer& tokenizer);
/// tokenizer_config.json: what AutoTokenizer wants to know beside the tokenizer's file.
std::string tokenizer_config_json(const manifest::Model& model, const data::Tokenizer& tokenizer);

/// All that stands beside model.safetensors, by name. The tokenizer is among it unless the data was tokens already, of which nobody knows
/// what they mean.
std::map<std::string, std::string> files_beside_weights(const manifest::Shared& run, const data::Tokenizer& tokenizer);

}  // namespace prime::trainer
