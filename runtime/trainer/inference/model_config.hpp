// Owns what config.json says of a model: its family and its sizes. Free of libtorch.
#pragma once

#include <cstdint>
#include <string_view>

#include "messages/result.hpp"

namespace prime::trainer {

/// Llama: RMSNorm, rotary positions, SwiGLU, grouped keys, no biases. GPT-2: LayerNorm, learned positions, GELU, biases everywhere.
enum class Family : std::uint8_t { Llama, Gpt2 };

struct ModelConfig {
  Family family = Family::Llama;
  std::uint32_t layers = 0;    ///< decoder blocks
  std::uint32_t dim = 0;       ///< width of the residual stream; a multiple of `heads`
  std::uint32_t heads = 0;     ///< query heads; of a Llama dim / heads is even (RoPE turns pairs)
  std::uint32_t kv_heads = 0;  ///< key and value heads; divides `heads`, and is `heads` in GPT-2
  std::uint32_t ffn = 0;       ///< inner width
  std::uint32_t vocab = 0;     ///< token ids
  std::uint32_t context = 0;   ///< positions
  double norm_epsilon = 0;
  bool tie_embeddings = false;  ///< the output layer is the embedding, transposed
  double rope_theta = 10000;    ///< Llama: base of the rotary frequencies
  bool exact_gelu = false;      ///< GPT-2: by the error function, not by tanh
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// config.json as Hugging Face writes it for LlamaForCausalLM (`llama`; without biases, scaled rotations or quantization) and
/// GPT2LMHeadModel (`gpt2`; attention as in the original). ModelUnsupported names what is not accepted, CheckpointCorrupt what is no
/// configuration.
Result<ModelConfig> parse_model_config(std::string_view text);

}  // namespace prime::trainer
