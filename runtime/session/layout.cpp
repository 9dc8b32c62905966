#include "runtime/session/layout.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <unordered_set>

#include "kernels/digest/digest.hpp"

namespace prime {

namespace {

void append_number(std::string& bytes, std::uint64_t number) {
  const auto raw = std::bit_cast<std::array<char, sizeof number>>(number);
  bytes.append(raw.data(), raw.size());
}

Digest digest_of(const std::vector<TensorShape>& tensors) {
  // Lengths go first, so that no two layouts have the same bytes.
  std::string bytes;
  for (const auto& tensor : tensors) {
    append_number(bytes, tensor.name.size());
    bytes += tensor.name;
    append_number(bytes, tensor.shape.size());
    for (const auto extent : tensor.shape) append_number(bytes, static_cast<std::uint64_t>(extent));
  }
  return kernels::digest_bytes(std::as_bytes(std::span{bytes}));
}

}  // namespace

std::uint64_t Layout::largest_fragment() const {
  std::uint64_t largest = 0;
  for (std::uint32_t fragment = 0; fragment < fragments(); ++fragment) largest = std::max(largest, size(fragment));
  return largest;
}

void Layout::cover(std::string_view more) {
  const auto whole = to_string(digest_) + std::string{more};
  digest_ = kernels::digest_bytes(std::as_bytes(std::span{whole}));
}

std::string Layout::place(std::uint32_t fragment, std::uint64_t index) const {
  for (std::size_t i = 0; i < homes_.size(); ++i) {
    const auto& home = homes_[i];
    if (home.fragment == fragment && index >= home.offset && index - home.offset < counts_[i])
      return tensors_[i].name + "[" + std::to_string(index - home.offset) + "]";
  }
  return "value " + std::to_string(index);
}

Result<void> check_tensor_count(std::size_t tensors, const ModelLimits& limits) {
  if (tensors <= limits.tensors) return {};
  return fail(ErrorName::LayoutUnusable, std::to_string(tensors) + " tensors are bound, and a model has at most " +
                                             std::to_string(limits.tensors) + ": merge small ones");
}

Result<Layout> make_layout(std::vector<TensorShape> tensors, const Division& division, const ModelLimits& limits) {
  if (tensors.empty()) return fail(ErrorName::LayoutUnusable, "no tensor is bound");
  PRIME_CHECK(check_tensor_count(tensors.size(), limits));
  Layout layout;
  std::unordered_set<std::string_view> names;
  std::uint64_t total = 0;
  for (const auto& tensor : tensors) {
    PRIME_TRY(const auto elements, count_elements(tensor, limits));
    if (!names.insert(tensor.name).second) return fail(ErrorName::LayoutUnusable, "`" + tensor.name + "` is bound twice");
    if (elements > limits.elements - total) {
      return fail(ErrorName::LayoutUnusable, "with `" + tensor.name + "` the tensors have more than " + std::to_string(limits.elements) +
                                                 " values, which is the most of a whole model");
    }
    total += elements;
    layout.counts_.push_back(elements);
  }
  PRIME_TRY(const auto fragments, divide(tensors, layout.counts_, division));
  std::vector<std::uint64_t> sizes(division.count, 0);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    layout.homes_.push_back({fragments[i], sizes[fragments[i]]});
    sizes[fragments[i]] += layout.counts_[i];
  }
  layout.begins_.push_back(0);
  for (const auto size : sizes) layout.begins_.push_back(layout.begins_.back() + size);
  layout.digest_ = digest_of(tensors);
  layout.tensors_ = std::move(tensors);
  return layout;
}

namespace {

std::string describe(const Layout& layout, std::size_t index) {
  if (index >= layout.tensors().size()) return "nothing";
  const auto& tensor = layout.tensors()[index];
  std::string sizes;
  for (const auto size : tensor.shape) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  return "`" + tensor.name + "` [" + sizes + "]";
}

}  // namespace

std::string first_difference(const Layout& ours, const Layout& theirs) {
  const auto count = std::max(ours.tensors().size(), theirs.tensors().size());
  for (std::size_t index = 0; index < count; ++index)
    if (describe(ours, index) != describe(theirs, index))
      return "tensor " + std::to_string(index) + " is " + describe(ours, index) + " here and " + describe(theirs, index) + " there";
  return {};
}

}  // namespace prime
