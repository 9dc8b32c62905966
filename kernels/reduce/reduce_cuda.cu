#include "kernels/four.cuh"
#include "kernels/launch.cuh"
#include "kernels/reduce/reduce_cuda.hpp"

namespace prime::kernels::cuda {
namespace {

// Travels with the launch, so that no table has to be copied to the device first.
struct Inputs {
  const float* values[INPUTS_MAXIMUM];
  float weights[INPUTS_MAXIMUM];
  unsigned count = 0;
  bool aligned = true;  // and so is the output
};

__global__ void sum_kernel(const __grid_constant__ Inputs inputs, float scale, float* __restrict__ out, std::size_t count) {
  for (std::size_t i = 4 * first_index(); i < count; i += 4 * stride()) {
    const bool whole = inputs.aligned && i + 4 <= count;
    Four sum{};
#pragma unroll 4
    for (unsigned rank = 0; rank < inputs.count; ++rank) {
      const Four values = load_four(whole, inputs.values[rank], i, count);
      for (unsigned k = 0; k < 4; ++k) {
        const float term = inputs.weights[rank] * values.at[k];
        sum.at[k] = rank == 0 ? term : sum.at[k] + term;
      }
    }
    for (float& each : sum.at) each = each * scale;
    store_four(whole, out, i, count, sum);
  }
}

__global__ void difference_kernel(const float* __restrict__ base, const float* __restrict__ local, float* __restrict__ out,
                                  std::size_t count) {
  const bool aligned = are_aligned(base, local, out);
  for (std::size_t i = 4 * first_index(); i < count; i += 4 * stride()) {
    const bool whole = aligned && i + 4 <= count;
    const Four from = load_four(whole, base, i, count);
    const Four less = load_four(whole, local, i, count);
    Four difference;
    for (unsigned k = 0; k < 4; ++k) difference.at[k] = from.at[k] - less.at[k];
    store_four(whole, out, i, count, difference);
  }
}

}  // namespace

Fault weighted_sum(std::span<const WeightedInput> inputs, float scale, float* device_out, std::size_t count, void* stream) {
  Inputs travelling;
  travelling.aligned = are_aligned(device_out);
  for (const auto& input : inputs) {
    if (input.weight == 0) continue;
    if (travelling.count == INPUTS_MAXIMUM) return "a weighted sum of more than " + std::to_string(INPUTS_MAXIMUM) + " ranks";
    travelling.values[travelling.count] = input.values;
    travelling.weights[travelling.count] = input.weight;
    travelling.aligned = travelling.aligned && are_aligned(input.values);
    ++travelling.count;
  }
  if (count == 0) return std::nullopt;
  sum_kernel<<<blocks_of_fours(count), THREADS, 0, stream_of(stream)>>>(travelling, scale, device_out, count);
  return fault_of_launch();
}

Fault pseudo_gradient(const float* device_base, const float* device_local, float* device_out, std::size_t count, void* stream) {
  if (count == 0) return std::nullopt;
  difference_kernel<<<blocks_of_fours(count), THREADS, 0, stream_of(stream)>>>(device_base, device_local, device_out, count);
  return fault_of_launch();
}

}  // namespace prime::kernels::cuda
