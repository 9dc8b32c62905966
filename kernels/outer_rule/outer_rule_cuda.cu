#include "kernels/four.cuh"
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
  const bool aligned = are_aligned(at.parameters, at.momentum, at.mean, at.next_parameters, at.next_momentum);
  for (std::size_t i = 4 * first_index(); i < count; i += 4 * stride()) {
    const bool whole = aligned && i + 4 <= count;
    const Four gradient = load_four(whole, at.mean, i, count);
    const Four momentum = load_four(whole, at.momentum, i, count);
    const Four parameters = load_four(whole, at.parameters, i, count);
    Four velocity;
    Four next;
    for (unsigned k = 0; k < 4; ++k) {
      velocity.at[k] = options.momentum * momentum.at[k] + gradient.at[k];
      next.at[k] = parameters.at[k] - options.learning_rate * (gradient.at[k] + options.momentum * velocity.at[k]);
    }
    store_four(whole, at.next_momentum, i, count, velocity);
    store_four(whole, at.next_parameters, i, count, next);
  }
}

}  // namespace

Fault nesterov(const NesterovOptions& options, const NesterovBuffers& device_buffers, void* stream) {
  const auto& b = device_buffers;
  const Pointers at{b.parameters.data(), b.momentum.data(), b.mean.data(), b.next_parameters.data(), b.next_momentum.data()};
  const std::size_t count = b.parameters.size();
  if (count == 0) return std::nullopt;
  nesterov_kernel<<<blocks_of_fours(count), THREADS, 0, stream_of(stream)>>>(options, at, count);
  return fault_of_launch();
}

}  // namespace prime::kernels::cuda
