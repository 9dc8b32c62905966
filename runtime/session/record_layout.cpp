#include "runtime/session/record_layout.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <unordered_set>

#include "kernels/digest/digest.hpp"

namespace prime {

namespace {

constexpr std::uint64_t ALIGNMENT = 64;
constexpr std::uint64_t PAGE = 4096;

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t to) { return (bytes + to - 1) / to * to; }

/// Lengths go first, so that no two lists have the same bytes.
std::string described(const BoundTensor& tensor) {
  const auto& shape = tensor.shape;
  auto text = std::to_string(shape.name.size()) + ":" + shape.name + std::string{to_string(tensor.type)};
  for (const auto extent : shape.shape) text += "," + std::to_string(extent);
  return text + ";";
}

}  // namespace

Result<void> check_type(const BoundTensor& tensor) {
  static constexpr std::array AVERAGED{DataType::F32, DataType::BF16};
  static constexpr std::array PRIVATE{DataType::F32, DataType::BF16, DataType::F16, DataType::I64, DataType::I32, DataType::U8};
  const bool averaged = tensor.role == Role::Averaged;
  const auto allowed = averaged ? std::span<const DataType>(AVERAGED) : std::span<const DataType>(PRIVATE);
  if (std::ranges::find(allowed, tensor.type) != allowed.end()) return {};
  return fail(ErrorName::LayoutUnusable, "`" + tensor.shape.name + "` is of " + std::string{to_string(tensor.type)} +
                                             (averaged ? ", and what is averaged is of f32 or bf16"
                                                       : ", and what is copied or private is of f32, bf16, f16, i64, i32 or u8"));
}

std::vector<TensorShape> averaged_of(const std::vector<BoundTensor>& bound) {
  std::vector<TensorShape> shapes;
  for (const auto& tensor : bound)
    if (tensor.role == Role::Averaged) shapes.push_back(tensor.shape);
  return shapes;
}

Result<Layout> make_bound_layout(const std::vector<BoundTensor>& bound, const Division& division) {
  PRIME_TRY(auto layout, make_layout(averaged_of(bound), division));
  std::unordered_set<std::string_view> others;
  for (const auto& tensor : bound)
    if (tensor.role != Role::Copied) others.insert(tensor.shape.name);
  std::string copied;
  for (const auto& tensor : bound) {
    if (tensor.role != Role::Copied) continue;
    if (others.contains(tensor.shape.name))
      return fail(ErrorName::LayoutUnusable, "`" + tensor.shape.name + "` is bound as copied, and in another role, too");
    copied += described(tensor);
  }
  if (!copied.empty()) layout.cover(copied);
  return layout;
}

std::vector<RecordLayout::Place> RecordLayout::kept() const {
  auto places = copied;
  places.insert(places.end(), privates.begin(), privates.end());
  return places;
}

namespace {

/// One role's tensors, as they are put down.
class Listed {
 public:
  Listed(const char* role, const ModelLimits& limits) : role_(role), limits_(limits) {}
  Result<std::uint64_t> add(const TensorShape& shape) {
    PRIME_CHECK(check_tensor_count(names_.size() + 1, limits_));
    PRIME_TRY(const auto elements, count_elements(shape, limits_));
    const auto kind = std::string{role_} + " ";
    if (!names_.insert(shape.name).second) return fail(ErrorName::LayoutUnusable, "the " + kind + "`" + shape.name + "` is bound twice");
    if (elements > limits_.elements - total_)
      return fail(ErrorName::LayoutUnusable, "with `" + shape.name + "` the " + kind + "tensors have more than " +
                                                 std::to_string(limits_.elements) + " values, which is the most of them all");
    total_ += elements;
    return elements;
  }

 private:
  const char* role_;
  const ModelLimits& limits_;
  std::unordered_set<std::string_view> names_;
  std::uint64_t total_ = 0;
};

}  // namespace

Result<RecordLayout> make_record_layout(const std::vector<BoundTensor>& bound, bool with_locals, const ModelLimits& limits) {
  RecordLayout layout;
  std::string text;
  const auto place = [&](std::size_t tensor, std::uint64_t elements, std::vector<RecordLayout::Place>& places) {
    const auto bytes = elements * element_bytes(bound[tensor].type);
    places.push_back({tensor, layout.bytes, bytes});
    layout.bytes += rounded_up(bytes, ALIGNMENT);
  };
  const auto put_down = [&](Role role, const char* name, std::vector<RecordLayout::Place>& places) -> Result<void> {
    Listed listed{name, limits};
    for (std::size_t i = 0; i < bound.size(); ++i) {
      if (bound[i].role != role) continue;
      PRIME_TRY(const auto elements, listed.add(bound[i].shape));
      place(i, elements, places);
      text += described(bound[i]);
    }
    return {};
  };
  PRIME_CHECK(put_down(Role::Copied, "copied", layout.copied));
  layout.copied_bytes = layout.bytes;
  if (!layout.copied.empty()) text += "copied;";
  PRIME_CHECK(put_down(Role::Private, "private", layout.privates));
  for (std::size_t i = 0; with_locals && i < bound.size(); ++i) {
    if (bound[i].role != Role::Averaged) continue;
    PRIME_TRY(const auto elements, count_elements(bound[i].shape, limits));
    place(i, elements, layout.locals);
  }
  layout.bytes = rounded_up(layout.bytes, PAGE);
  layout.digest = kernels::digest_bytes(std::as_bytes(std::span{text}));
  return layout;
}

}  // namespace prime
