// Owns the decoder as tensors: its parameters, in blocks that multiply fast, and the way from token ids to logits.
//
// Query, key and value weights are one matrix, and so are gate and up: fewer, larger products. The outside sees the parts under the
// names that Hugging Face gives them; a part is a contiguous range of rows, so nothing is copied on the CPU. On a GPU the model has a
// memory of its own, and what the outside sees is copied from and to it, matrix by matrix.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/include/prime/session.hpp"
#include "runtime/manifest/manifest.hpp"
#include "runtime/trainer/operations.hpp"
#include "runtime/trainer/optimizer/leaf.hpp"
#include "runtime/trainer/torch_fence.hpp"

namespace prime::trainer {

class Llama {
 public:
  /// Equal shapes and seeds give equal bits on every machine. `where`: the device of it all, and the type that it computes in; parameters
  /// are f32.
  Llama(const manifest::Model& shape, std::uint64_t seed, const at::TensorOptions& where);

  /// From now on a token sees nothing of what stands before the last `end` ahead of it. Positions go on: rotations are relative.
  void separate_documents(std::int64_t end) { document_end_ = end; }

  /// ids: [windows, time] of int64 in the host's memory, time ≤ context → [windows · time, vocab] of f32.
  [[nodiscard]] at::Tensor logits(const at::Tensor& ids) const;
  /// Adds the gradient of a scalar function of the logits to the leaves'. Keeps of each block its input alone, and computes the block again
  /// on the way back (activation checkpointing: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost").
  void backward_recomputing(const at::Tensor& ids, const std::function<at::Tensor(const at::Tensor& logits)>& objective) const;

  /// The tensors that an optimizer steps, in a fixed order.
  [[nodiscard]] const std::vector<Leaf>& leaves() const { return leaves_; }
  /// Each of them in the host's memory: on the CPU itself, else a copy in pinned memory, as old as the last `load` or `store`.
  [[nodiscard]] const std::vector<at::Tensor>& on_host() const { return on_host_; }
  /// The host's memory under Hugging Face's names, in the order of its modules.
  [[nodiscard]] const std::vector<TensorView>& views() const { return views_; }

  /// From the host's memory to the leaves. The copy runs beside what follows; it has ended when anything computed after it is read.
  void load();
  /// From the leaves to the host's memory; it is there when this returns.
  void store();

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
  /// Of a table an optimizer makes no matrix: its rows are single tokens'.
  enum class Kind : std::uint8_t { Table, Matrix };
  at::Tensor add_matrix(Kind kind, const std::vector<Part>& parts, std::int64_t columns, double deviation);
  [[nodiscard]] at::Tensor host_tensor(at::IntArrayRef shape) const;
  at::Tensor adopt(const at::Tensor& on_host, std::vector<std::int64_t> matrices = {});
  void build_tables();
  [[nodiscard]] HeadLayout layout_of(const at::Tensor& ids) const;
  [[nodiscard]] at::Tensor seen_in(const at::Tensor& ids) const;
  /// x: [windows · time, dim], as what each block takes and gives.
  [[nodiscard]] at::Tensor embed(const at::Tensor& ids) const;
  [[nodiscard]] at::Tensor through(const Block& block, const at::Tensor& x, const HeadLayout& layout) const;
  [[nodiscard]] at::Tensor logits_of(const at::Tensor& x) const;
  [[nodiscard]] at::Tensor product(const at::Tensor& x, const at::Tensor& matrix) const;
  [[nodiscard]] at::Tensor normed(const at::Tensor& x, const at::Tensor& weight) const;

  manifest::Model shape_;
  at::Device device_;
  at::ScalarType type_;
  std::optional<std::int64_t> document_end_;
  std::uint64_t draws_;  // the counter of the initial values' generator
  at::Tensor embedding_, norm_, head_;
  at::Tensor cosine_, sine_;  // [context, head width / 2]
  std::vector<Block> blocks_;
  std::vector<Leaf> leaves_;
  std::vector<at::Tensor> on_host_;
  std::vector<TensorView> views_;
};

}  // namespace prime::trainer
