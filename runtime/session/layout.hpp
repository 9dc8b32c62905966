// Owns the layout of the shared state: names and shapes of f32 tensors, and where each lies. The state is divided into fragments, which lie
// one after the other in one flat buffer; the tensors of a fragment lie packed in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "messages/division.hpp"
#include "messages/ids.hpp"
#include "messages/result.hpp"
#include "messages/tensor_shape.hpp"

namespace prime {

/// Where a tensor lies.
struct Home {
  std::uint32_t fragment = 0;
  std::uint64_t offset = 0;  ///< values before it in that fragment
  friend bool operator==(const Home&, const Home&) = default;
};

/// Immutable once made; only `make_layout` makes one that is not empty.
class Layout {
 public:
  Layout() = default;
  [[nodiscard]] const std::vector<TensorShape>& tensors() const { return tensors_; }
  [[nodiscard]] std::uint64_t elements() const { return begins_.empty() ? 0 : begins_.back(); }
  /// Of names and shapes, in order; equal on every peer of a run.
  [[nodiscard]] const Digest& digest() const { return digest_; }
  /// It is of what this text tells, too.
  void cover(std::string_view more);
  [[nodiscard]] std::uint32_t fragments() const { return begins_.empty() ? 0 : static_cast<std::uint32_t>(begins_.size() - 1); }
  /// Values in a fragment, and before it in the flat buffer.
  [[nodiscard]] std::uint64_t size(std::uint32_t fragment) const { return begins_[fragment + 1] - begins_[fragment]; }
  [[nodiscard]] std::uint64_t begin(std::uint32_t fragment) const { return begins_[fragment]; }
  [[nodiscard]] std::uint64_t largest_fragment() const;
  /// Of each tensor, in the order of `tensors`.
  [[nodiscard]] const std::vector<Home>& homes() const { return homes_; }
  [[nodiscard]] const std::vector<std::uint64_t>& counts() const { return counts_; }
  /// "layers.0.weight[17]" for an index into a fragment: how errors name a value.
  [[nodiscard]] std::string place(std::uint32_t fragment, std::uint64_t index) const;
  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  friend Result<Layout> make_layout(std::vector<TensorShape> tensors, const Division& division, const ModelLimits& limits);
  std::vector<TensorShape> tensors_;
  std::vector<Home> homes_;
  std::vector<std::uint64_t> counts_;  ///< values in each tensor
  std::vector<std::uint64_t> begins_;  ///< of each fragment in the flat buffer, and the end of the last
  Digest digest_;
};

/// The first tensor in which they differ, with both shapes; empty when they are equal.
std::string first_difference(const Layout& ours, const Layout& theirs);

/// Refuses no tensors, too many, equal names, fewer than fragments, and whatever `count_elements` refuses (LayoutUnusable).
Result<Layout> make_layout(std::vector<TensorShape> tensors, const Division& division = {}, const ModelLimits& limits = MODEL_LIMITS);
/// LayoutUnusable when so many are too many for one layout.
Result<void> check_tensor_count(std::size_t tensors, const ModelLimits& limits = MODEL_LIMITS);

}  // namespace prime
