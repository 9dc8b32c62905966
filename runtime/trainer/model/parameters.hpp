// Owns the tensors of a model in training: what an optimizer steps, and what the outside sees of it.
//
// Matrices that are multiplied by the same rows are one, as query, key and value: fewer, larger products. The outside sees the parts under
// the names that Hugging Face gives them; a part is a contiguous range of rows, so nothing is copied on the CPU. On a GPU the model has a
// memory of its own, and what the outside sees is copied from and to it, tensor by tensor.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/include/prime/session.hpp"
#include "runtime/models/architecture.hpp"
#include "runtime/trainer/optimizer/leaf.hpp"
#include "runtime/trainer/torch_fence.hpp"

namespace prime::trainer {

class Parameters {
 public:
  /// Equal tensors and seeds give equal bits on every machine.
  Parameters(std::vector<models::ModelTensor> tensors, std::uint64_t seed, at::Device device);

  /// The next ones, in the order of `tensors`, as one leaf: one above the other.
  at::Tensor take(std::size_t count = 1);
  [[nodiscard]] bool all_taken() const { return taken_ == tensors_.size(); }

  /// The tensors that an optimizer steps, in a fixed order.
  [[nodiscard]] const std::vector<Leaf>& leaves() const { return leaves_; }
  /// Each of them in the host's memory: on the CPU itself, else a copy in pinned memory, as old as the last `load` or `store`.
  [[nodiscard]] const std::vector<at::Tensor>& on_host() const { return on_host_; }
  /// The host's memory under Hugging Face's names, in the order of `tensors`.
  [[nodiscard]] const std::vector<TensorView>& views() const { return views_; }

  /// From the host's memory to the leaves. The copy runs beside what follows; it has ended when anything computed after it is read.
  void load();
  /// From the leaves to the host's memory; it is there when this returns.
  void store();

 private:
  void begin(const models::ModelTensor& tensor, std::span<float> values);

  std::vector<models::ModelTensor> tensors_;
  std::size_t taken_ = 0;
  at::Device device_;
  std::uint64_t draws_;  // the counter of the initial values' generator
  std::vector<Leaf> leaves_;
  std::vector<at::Tensor> on_host_;
  std::vector<TensorView> views_;
};

}  // namespace prime::trainer
