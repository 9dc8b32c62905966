#include <cstddef>

#include "kernels/outer_rule/outer_rule.hpp"

namespace prime::kernels {

void nesterov(const NesterovOptions& options, const NesterovBuffers& b) {
  const float* __restrict parameters = b.parameters.data();
  const float* __restrict momentum = b.momentum.data();
  const float* mean = b.mean.data();  // may be next_velocity: read before written at every index
  float* __restrict next = b.next_parameters.data();
  float* next_velocity = b.next_momentum.data();
  const float rate = options.learning_rate;
  const float mu = options.momentum;
#pragma GCC ivdep
  for (std::size_t i = 0; i < b.parameters.size(); ++i) {
    const float gradient = mean[i];
    const float velocity = mu * momentum[i] + gradient;
    next_velocity[i] = velocity;
    next[i] = parameters[i] - rate * (gradient + mu * velocity);
  }
}

}  // namespace prime::kernels
