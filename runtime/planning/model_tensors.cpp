#include "runtime/planning/model_tensors.hpp"

#include <string>

namespace prime::planning {

std::vector<TensorShape> model_tensors(const manifest::Model& model) {
  const std::int64_t dim = model.dim, ffn = model.ffn, vocab = model.vocab;
  const std::int64_t kv_rows = model.kv_heads * (dim / model.heads);
  std::vector<TensorShape> tensors{{"model.embed_tokens.weight", {vocab, dim}}};
  for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    const std::string attention = prefix + "self_attn.", mlp = prefix + "mlp.";
    tensors.push_back({attention + "q_proj.weight", {dim, dim}});
    tensors.push_back({attention + "k_proj.weight", {kv_rows, dim}});
    tensors.push_back({attention + "v_proj.weight", {kv_rows, dim}});
    tensors.push_back({attention + "o_proj.weight", {dim, dim}});
    tensors.push_back({mlp + "gate_proj.weight", {ffn, dim}});
    tensors.push_back({mlp + "up_proj.weight", {ffn, dim}});
    tensors.push_back({mlp + "down_proj.weight", {dim, ffn}});
    tensors.push_back({prefix + "input_layernorm.weight", {dim}});
    tensors.push_back({prefix + "post_attention_layernorm.weight", {dim}});
  }
  tensors.push_back({"model.norm.weight", {dim}});
  if (!model.tie_embeddings) tensors.push_back({"lm_head.weight", {vocab, dim}});
  return tensors;
}

}  // namespace prime::planning
