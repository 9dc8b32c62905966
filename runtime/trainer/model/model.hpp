// Owns the way from token ids to logits and back that all decoders share: blocks one after the other, and who sees whom.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "runtime/manifest/manifest.hpp"
#include "runtime/trainer/model/parameters.hpp"
#include "runtime/trainer/torch_fence.hpp"

namespace prime::trainer {

class Model {
 public:
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  /// From now on a token sees nothing of what stands before the last `end` ahead of it. Positions go on over a window.
  void separate_documents(std::int64_t end) { document_end_ = end; }

  /// ids: [windows, time] of int64 in the host's memory, time ≤ context → [windows · time, vocab] of f32.
  [[nodiscard]] at::Tensor logits(const at::Tensor& ids) const;
  /// Adds the gradient of a scalar function of the logits to the leaves'. Keeps of each block its input alone, and computes the block again
  /// on the way back (activation checkpointing: Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost").
  void backward_recomputing(const at::Tensor& ids, const std::function<at::Tensor(const at::Tensor& logits)>& objective) const;

  [[nodiscard]] Parameters& parameters() { return parameters_; }
  [[nodiscard]] const Parameters& parameters() const { return parameters_; }

 protected:
  Model(const manifest::Model& shape, std::uint64_t seed, const at::TensorOptions& where);

  struct Batch {
    std::int64_t time;  ///< tokens in a window
    at::Tensor seen;    ///< [windows, 1, time, time]: what a token sees; undefined: all before it, and itself
  };
  /// x: [windows · time, dim], as what each block takes and gives.
  [[nodiscard]] virtual at::Tensor embed(const at::Tensor& ids) const = 0;
  [[nodiscard]] virtual at::Tensor through(std::size_t block, const at::Tensor& x, const Batch& batch) const = 0;
  [[nodiscard]] virtual at::Tensor logits_of(const at::Tensor& x) const = 0;

  /// Parameters are f32 and products of `type()`, to which they are rounded as they are used.
  [[nodiscard]] at::Tensor as_used(const at::Tensor& leaf) const { return leaf.defined() ? leaf.to(type_) : leaf; }
  [[nodiscard]] at::Tensor rows_of(const at::Tensor& table, const at::Tensor& ids) const;
  /// Of [windows, heads, time, width] each → [windows · time, dim].
  [[nodiscard]] at::Tensor attended(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const Batch& batch) const;
  [[nodiscard]] at::Device device() const { return device_; }
  [[nodiscard]] at::ScalarType type() const { return type_; }

  manifest::Model shape_;
  Parameters parameters_;

 private:
  [[nodiscard]] Batch batch_of(const at::Tensor& ids) const;

  at::Device device_;
  at::ScalarType type_;
  std::optional<std::int64_t> document_end_;
};

/// Equal shapes and seeds give equal bits on every machine. `where`: the device of it all, and the type that it computes in; parameters
/// are f32.
std::unique_ptr<Model> make_model(const manifest::Model& shape, std::uint64_t seed, const at::TensorOptions& where);

std::unique_ptr<Model> make_llama(const manifest::Model& shape, std::uint64_t seed, const at::TensorOptions& where);
std::unique_ptr<Model> make_gpt2(const manifest::Model& shape, std::uint64_t seed, const at::TensorOptions& where);

}  // namespace prime::trainer
