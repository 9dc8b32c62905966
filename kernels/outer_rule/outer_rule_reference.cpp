#include <cstddef>

#include "kernels/outer_rule/outer_rule.hpp"

namespace prime::kernels {

void nesterov_reference(const NesterovOptions& options, const NesterovBuffers& b) {
  for (std::size_t i = 0; i < b.parameters.size(); ++i) {
    const float gradient = b.mean[i];
    const float velocity = options.momentum * b.momentum[i] + gradient;
    b.next_momentum[i] = velocity;
    b.next_parameters[i] = b.parameters[i] - options.learning_rate * (gradient + options.momentum * velocity);
  }
}

}  // namespace prime::kernels
