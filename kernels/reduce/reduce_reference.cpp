#include <cmath>
#include <cstddef>

#include "kernels/reduce/reduce.hpp"
#include "kernels/small_floats.hpp"

namespace prime::kernels {

void weighted_sum_reference(std::span<const WeightedInput> inputs, float scale, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    float sum = 0;
    bool first = true;
    for (const auto& input : inputs) {
      if (input.weight == 0) continue;
      const float term = input.weight * input.values[i];
      sum = first ? term : sum + term;
      first = false;
    }
    out[i] = sum * scale;
  }
}

void pseudo_gradient_reference(std::span<const float> base, std::span<const float> local, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = base[i] - local[i];
}

void pseudo_gradient_bf16_reference(std::span<const float> base, std::span<const float> local, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = bf16_to_f32(f32_to_bf16(base[i])) - local[i];
}

std::size_t first_non_finite_reference(std::span<const float> values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i])) return i;
  return values.size();
}

}  // namespace prime::kernels
