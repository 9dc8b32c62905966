// Owns the layout of the shared state: names and shapes of f32 tensors that lie packed, one after the other, in one flat buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "messages/ids.hpp"
#include "messages/result.hpp"
#include "messages/tensor_shape.hpp"

namespace prime {

/// Immutable once made; only `make_layout` makes one that is not empty.
class Layout {
 public:
  Layout() = default;
  [[nodiscard]] const std::vector<TensorShape>& tensors() const { return tensors_; }
  [[nodiscard]] std::uint64_t elements() const { return elements_; }
  /// Of names and shapes, in order; equal on every peer of a run.
  [[nodiscard]] const Digest& digest() const { return digest_; }
  /// "layers.0.weight[17]" for an index into the flat buffer: how errors name a value.
  [[nodiscard]] std::string place(std::uint64_t flat_index) const;
  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  friend Result<Layout> make_layout(std::vector<TensorShape> tensors, const ModelLimits& limits);
  std::vector<TensorShape> tensors_;
  std::vector<std::uint64_t> ends_;  ///< flat index one past each tensor
  std::uint64_t elements_ = 0;
  Digest digest_;
};

/// The first tensor in which they differ, with both shapes; empty when they are equal.
std::string first_difference(const Layout& ours, const Layout& theirs);

/// Refuses no tensors, too many, equal names, and whatever `count_elements` refuses (LayoutUnusable).
Result<Layout> make_layout(std::vector<TensorShape> tensors, const ModelLimits& limits = MODEL_LIMITS);
/// LayoutUnusable when so many are too many for one layout.
Result<void> check_tensor_count(std::size_t tensors, const ModelLimits& limits = MODEL_LIMITS);

}  // namespace prime
