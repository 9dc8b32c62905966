// Owns the outer optimizer: Nesterov momentum on averaged pseudo-gradients (DiLoCo, arXiv:2311.08105, algorithm 1, line 14).
#pragma once

#include <span>

namespace prime::kernels {

struct NesterovOptions {
  float learning_rate = 0.7F;
  float momentum = 0.9F;
};

/// One outer step, out of place, equal to torch's SGD(nesterov, dampening 0) whose first call starts from zero momentum:
///   next_momentum = momentum·m + mean;  next = parameters − learning_rate·(mean + momentum·next_momentum).
/// Shapes: six spans of equal count, f32. `next_momentum` may be the same buffer as `mean`; no other aliasing.
struct NesterovBuffers {
  std::span<const float> parameters;
  std::span<const float> momentum;
  std::span<const float> mean;
  std::span<float> next_parameters;
  std::span<float> next_momentum;
};
void nesterov_reference(const NesterovOptions& options, const NesterovBuffers& buffers);
void nesterov(const NesterovOptions& options, const NesterovBuffers& buffers);

}  // namespace prime::kernels
