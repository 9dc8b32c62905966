// Owns the decoder as tensors: its parameters, in blocks that multiply fast, and the way from token ids to logits.
//
// Query, key and value weights are one matrix, and so are gate and up: fewer, larger products. The outside sees the parts under the
// names that Hugging Face gives them; a part is a contiguous range of rows, so nothing is copied.
#pragma once

#include <string>
#include <vector>

#include "runtime/include/prime/session.hpp"
#include "runtime/manifest/manifest.hpp"
#include "runtime/trainer/operations.hpp"
#include "runtime/trainer/torch_fence.hpp"

namespace prime::trainer {

class Llama {
 public:
  /// Equal shapes and seeds give equal bits on every machine.
  Llama(const manifest::Model& shape, std::uint64_t seed);

  /// ids: [windows, time] of int64, time ≤ context → [windows · time, vocab].
  [[nodiscard]] at::Tensor logits(const at::Tensor& ids) const;

  /// The tensors that an optimizer steps, in a fixed order.
  [[nodiscard]] const std::vector<at::Tensor>& leaves() const { return leaves_; }
  /// The same memory under Hugging Face's names, in the order of its modules.
  [[nodiscard]] const std::vector<TensorView>& views() const { return views_; }

 private:
  struct Block {
    at::Tensor input_norm, qkv, output, post_norm, gate_up, down;
  };
  /// A part of a leaf: so many rows under a name.
  struct Part {
    std::string name;
    std::int64_t rows;
  };

  at::Tensor add_norm(const std::string& name);
  at::Tensor add_matrix(const std::vector<Part>& parts, std::int64_t columns, double deviation);
  void adopt(const at::Tensor& leaf) { leaves_.push_back(leaf.requires_grad_()); }
  void build_tables();

  manifest::Model shape_;
  std::uint64_t draws_;  // the counter of the initial values' generator
  at::Tensor embedding_, norm_, head_;
  at::Tensor cosine_, sine_;  // [context, head width / 2]
  std::vector<Block> blocks_;
  std::vector<at::Tensor> leaves_;
  std::vector<TensorView> views_;
};

}  // namespace prime::trainer
