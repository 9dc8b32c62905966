#include "runtime/session/record_layout.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <unordered_set>

#include "kernels/digest/digest.hpp"
#include "runtime/session/layout.hpp"

namespace prime {

namespace {

constexpr std::uint64_t ALIGNMENT = 64;
constexpr std::uint64_t PAGE = 4096;

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

Result<void> check_type(const BoundTensor& tensor) {
  static constexpr std::array AVERAGED{DataType::F32, DataType::BF16};
  static constexpr std::array PRIVATE{DataType::F32, DataType::BF16, DataType::F16, DataType::I64, DataType::I32, DataType::U8};
  const bool averaged = tensor.role == Role::Averaged;
  const auto allowed = averaged ? std::span<const DataType>(AVERAGED) : std::span<const DataType>(PRIVATE);
  if (std::ranges::find(allowed, tensor.type) != allowed.end()) return {};
  return fail(ErrorName::LayoutUnusable, "`" + tensor.shape.name + "` is of " + std::string{to_string(tensor.type)} +
                                             (averaged ? ", and f32 and bf16 can be averaged: bind it as private"
                                                       : ", and what is private is of f32, bf16, f16, i64, i32 or u8"));
}

std::vector<TensorShape> averaged_of(const std::vector<BoundTensor>& bound) {
  std::vector<TensorShape> shapes;
  for (const auto& tensor : bound)
    if (tensor.role == Role::Averaged) shapes.push_back(tensor.shape);
  return shapes;
}

Result<RecordLayout> make_record_layout(const std::vector<BoundTensor>& bound, bool with_locals, const ModelLimits& limits) {
  RecordLayout layout;
  std::unordered_set<std::string_view> names;
  std::uint64_t total = 0;
  std::string described;
  const auto place = [&](std::size_t tensor, std::uint64_t elements, std::vector<RecordLayout::Place>& places) {
    const auto bytes = elements * element_bytes(bound[tensor].type);
    places.push_back({tensor, layout.bytes, bytes});
    layout.bytes += rounded_up(bytes, ALIGNMENT);
  };
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const auto& [shape, type, role] = bound[i];
    if (role != Role::Private) continue;
    PRIME_CHECK(check_tensor_count(names.size() + 1, limits));
    PRIME_TRY(const auto elements, count_elements(shape, limits));
    if (!names.insert(shape.name).second) return fail(ErrorName::LayoutUnusable, "the private `" + shape.name + "` is bound twice");
    if (elements > limits.elements - total)
      return fail(ErrorName::LayoutUnusable, "with `" + shape.name + "` the private tensors have more than " +
                                                 std::to_string(limits.elements) + " values, which is the most of them all");
    total += elements;
    place(i, elements, layout.privates);
    // Lengths go first, so that no two lists have the same bytes.
    described += std::to_string(shape.name.size()) + ":" + shape.name + std::string{to_string(type)};
    for (const auto extent : shape.shape) described += "," + std::to_string(extent);
    described += ";";
  }
  for (std::size_t i = 0; with_locals && i < bound.size(); ++i) {
    if (bound[i].role != Role::Averaged) continue;
    PRIME_TRY(const auto elements, count_elements(bound[i].shape, limits));
    place(i, elements, layout.locals);
  }
  layout.bytes = rounded_up(layout.bytes, PAGE);
  layout.digest = kernels::digest_bytes(std::as_bytes(std::span{described}));
  return layout;
}

}  // namespace prime
