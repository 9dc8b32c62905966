// Owns the GPU's version of the outer step: the bits of outer_rule.hpp.
#pragma once

#include "kernels/cuda.hpp"
#include "kernels/outer_rule/outer_rule.hpp"

namespace prime::kernels::cuda {

/// As kernels::nesterov; all spans are of device memory.
[[nodiscard]] Fault nesterov(const NesterovOptions& options, const NesterovBuffers& device_buffers, void* stream);

}  // namespace prime::kernels::cuda
