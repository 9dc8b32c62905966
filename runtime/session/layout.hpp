// Owns the layout of the shared state: names and shapes of f32 tensors that lie packed, one after the other, in one flat buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "messages/ids.hpp"
#include "messages/result.hpp"

namespace prime {

inline constexpr std::size_t MAX_TENSORS = 100'000;
inline constexpr std::size_t MAX_TENSOR_NAME_BYTES = 256;
inline constexpr std::size_t MAX_TENSOR_DIMENSIONS = 16;
/// 4 TiB of f32; far above what one host holds, far below where byte counts overflow.
inline constexpr std::uint64_t MAX_ELEMENTS = std::uint64_t{1} << 40;

struct TensorShape {
  std::string name;
  std::vector<std::int64_t> shape;  ///< row-major; empty for a scalar
  friend bool operator==(const TensorShape&, const TensorShape&) = default;
};

/// The count of values, or why a name or shape is not allowed.
Result<std::uint64_t> count_elements(const TensorShape& tensor);

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
  friend Result<Layout> make_layout(std::vector<TensorShape> tensors);
  std::vector<TensorShape> tensors_;
  std::vector<std::uint64_t> ends_;  ///< flat index one past each tensor
  std::uint64_t elements_ = 0;
  Digest digest_;
};

/// The first tensor in which they differ, with both shapes; empty when they are equal.
std::string first_difference(const Layout& ours, const Layout& theirs);

/// Refuses no tensors, too many, equal names, and whatever `count_elements` refuses (LayoutMismatch).
Result<Layout> make_layout(std::vector<TensorShape> tensors);

}  // namespace prime
