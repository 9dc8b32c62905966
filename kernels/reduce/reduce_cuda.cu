#include "kernels/launch.cuh"
#include "kernels/reduce/reduce_cuda.hpp"

namespace prime::kernels::cuda {
namespace {

// Travels with the launch, so that no table has to be copied to the device first.
struct Inputs {
  const float* values[INPUTS_MAXIMUM];
  float weights[INPUTS_MAXIMUM];
  unsigned count = 0;
};

__global__ void sum_kernel(const __grid_constant__ Inputs inputs, float scale, float* __restrict__ out, std::size_t count) {
  for (std::size_t i = first_index(); i < count; i += stride()) {
    float sum = 0;
    for (unsigned rank = 0; rank < inputs.count; ++rank) {
      const float term = inputs.weights[rank] * inputs.values[rank][i];
      sum = rank == 0 ? term : sum + term;
    }
    out[i] = sum * scale;
  }
}

__global__ void difference_kernel(const float* __restrict__ base, const float* __restrict__ local, float* __restrict__ out,
                                  std::size_t count) {
  for (std::size_t i = first_index(); i < count; i += stride()) out[i] = base[i] - local[i];
}

}  // namespace

Fault weighted_sum(std::span<const WeightedInput> inputs, float scale, float* device_out, std::size_t count, void* stream) {
  Inputs travelling;
  for (const auto& input : inputs) {
    if (input.weight == 0) continue;
    if (travelling.count == INPUTS_MAXIMUM) return "a weighted sum of more than " + std::to_string(INPUTS_MAXIMUM) + " ranks";
    travelling.values[travelling.count] = input.values;
    travelling.weights[travelling.count] = input.weight;
    ++travelling.count;
  }
  if (count == 0) return std::nullopt;
  sum_kernel<<<blocks_for(groups_of(count)), THREADS, 0, stream_of(stream)>>>(travelling, scale, device_out, count);
  return fault_of_launch();
}

Fault pseudo_gradient(const float* device_base, const float* device_local, float* device_out, std::size_t count, void* stream) {
  if (count == 0) return std::nullopt;
  difference_kernel<<<blocks_for(groups_of(count)), THREADS, 0, stream_of(stream)>>>(device_base, device_local, device_out, count);
  return fault_of_launch();
}

}  // namespace prime::kernels::cuda
