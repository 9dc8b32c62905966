// Owns which models of others are read, by their config.json.
#pragma once

#include <string_view>

#include "messages/result.hpp"
#include "runtime/models/architecture.hpp"

namespace prime::trainer {

using models::ModelConfig;

/// config.json as Hugging Face writes it for LlamaForCausalLM (`llama`) and GPT2LMHeadModel (`gpt2`; attention as in the original), not
/// quantized. ModelUnsupported names what is not accepted, CheckpointCorrupt what is no configuration.
Result<ModelConfig> parse_model_config(std::string_view text);

}  // namespace prime::trainer
