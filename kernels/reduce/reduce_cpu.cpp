#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "kernels/reduce/reduce.hpp"
#include "kernels/reduce/reduce_vector.hpp"

namespace prime::kernels {
namespace {

// Small enough to stay in the first-level cache while all ranks are added, large enough to amortise the loop.
constexpr std::size_t BLOCK = 2048;

}  // namespace

void weighted_sum(std::span<const WeightedInput> inputs, float scale, std::span<float> out) {
  // A rank without weight brings nothing, not even the sign of its zeros.
  if (std::none_of(inputs.begin(), inputs.end(), [](const WeightedInput& input) { return input.weight == 0; }) && !inputs.empty())
    return sum_all_vectors(inputs, scale, out);
  std::vector<WeightedInput> present;
  for (const auto& input : inputs)
    if (input.weight != 0) present.push_back(input);
  if (present.empty()) std::fill(out.begin(), out.end(), 0.0F * scale);
  else sum_all_vectors(present, scale, out);
}

void pseudo_gradient(std::span<const float> base, std::span<const float> local, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = base[i] - local[i];
}

void pseudo_gradient_bf16(std::span<const float> base, std::span<const float> local, std::span<float> out) {
  // Rounds as f32_to_bf16 does, without the branch for NaN, which a committed base has none of: so it vectorises.
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(base[i]);
    out[i] = std::bit_cast<float>((bits + 0x7FFFU + ((bits >> 16) & 1U)) & 0xFFFF0000U) - local[i];
  }
}

std::size_t first_non_finite(std::span<const float> values) {
  constexpr std::uint32_t EXPONENT = 0x7F800000U;
  for (std::size_t begin = 0; begin < values.size(); begin += BLOCK) {
    const std::size_t end = std::min(begin + BLOCK, values.size());
    std::uint32_t bad = 0;  // branch-free over a block, so that it vectorises
    for (std::size_t i = begin; i < end; ++i)
      bad |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(values[i]) & EXPONENT) == EXPONENT);
    if (bad != 0) return begin + first_non_finite_reference(values.subspan(begin, end - begin));
  }
  return values.size();
}

}  // namespace prime::kernels
