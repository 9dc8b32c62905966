#include "kernels/launch.cuh"
#include "kernels/outer_rule/outer_rule_cuda.hpp"

namespace prime::kernels::cuda {
namespace {

struct Pointers {
  const float* parameters;
  const float* momentum;
  const float* mean;  // may be next_momentum: each index is read before it is written
  float* next_parameters;
  float* next_momentum;
};

__global__ void nesterov_kernel(NesterovOptions options, Pointers at, std::size_t count) {
  for (std::size_t i = first_index(); i < count; i += stride()) {
    const float gradient = at.mean[i];
    const float velocity = options.momentum * at.momentum[i] + gradient;
    at.next_momentum[i] = velocity;
    at.next_parameters[i] = at.parameters[i] - options.learning_rate * (gradient + options.momentum * velocity);
  }
}

}  // namespace

Fault nesterov(const NesterovOptions& options, const NesterovBuffers& device_buffers, void* stream) {
  const auto& b = device_buffers;
  const Pointers at{b.parameters.data(), b.momentum.data(), b.mean.data(), b.next_parameters.data(), b.next_momentum.data()};
  const std::size_t count = b.parameters.size();
  if (count == 0) return std::nullopt;
  nesterov_kernel<<<blocks_for(groups_of(count)), THREADS, 0, stream_of(stream)>>>(options, at, count);
  return fault_of_launch();
}

}  // namespace prime::kernels::cuda
