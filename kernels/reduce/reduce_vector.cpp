// Owns the weighted sum in the widest vectors of this machine: one pass over memory, whatever the number of ranks.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce/reduce_vector.cpp"
#include <hwy/foreach_target.h>
// After foreach_target, which includes this file once for each target.
#include <hwy/highway.h>

#include "kernels/reduce/reduce_vector.hpp"

HWY_BEFORE_NAMESPACE();
namespace prime::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Two vectors at a time hide the latency of the additions; more would only wait for memory.
void sum_all(const WeightedInput* inputs, std::size_t ranks, float scale, float* HWY_RESTRICT out, std::size_t count) {
  const hn::ScalableTag<float> d;
  const std::size_t width = hn::Lanes(d);
  const auto factor = hn::Set(d, scale);
  std::size_t i = 0;
  for (; i + 2 * width <= count; i += 2 * width) {
    const auto first_weight = hn::Set(d, inputs[0].weight);
    auto low = hn::Mul(first_weight, hn::LoadU(d, inputs[0].values + i));
    auto high = hn::Mul(first_weight, hn::LoadU(d, inputs[0].values + i + width));
    for (std::size_t r = 1; r < ranks; ++r) {
      const auto weight = hn::Set(d, inputs[r].weight);
      low = hn::Add(low, hn::Mul(weight, hn::LoadU(d, inputs[r].values + i)));
      high = hn::Add(high, hn::Mul(weight, hn::LoadU(d, inputs[r].values + i + width)));
    }
    hn::StoreU(hn::Mul(low, factor), d, out + i);
    hn::StoreU(hn::Mul(high, factor), d, out + i + width);
  }
  for (; i < count; ++i) {
    float sum = inputs[0].weight * inputs[0].values[i];
    for (std::size_t r = 1; r < ranks; ++r) sum = sum + inputs[r].weight * inputs[r].values[i];
    out[i] = sum * scale;
  }
}

}  // namespace prime::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace prime::kernels {

HWY_EXPORT(sum_all);

void sum_all_vectors(std::span<const WeightedInput> inputs, float scale, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(sum_all)(inputs.data(), inputs.size(), scale, out.data(), out.size());
}

}  // namespace prime::kernels
#endif
