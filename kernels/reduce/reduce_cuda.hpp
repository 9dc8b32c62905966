// Owns the GPU's versions of the f32 reduce and of the pseudo-gradient: the bits of reduce.hpp.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/cuda.hpp"
#include "kernels/reduce/reduce.hpp"

namespace prime::kernels::cuda {

/// As many ranks as one launch takes; more are a fault.
inline constexpr std::size_t INPUTS_MAXIMUM = 256;

/// As kernels::weighted_sum; the inputs' pointers are of device memory.
[[nodiscard]] Fault weighted_sum(std::span<const WeightedInput> inputs, float scale, float* device_out, std::size_t count, void* stream);

/// device_out[i] = device_base[i] − device_local[i].
[[nodiscard]] Fault pseudo_gradient(const float* device_base, const float* device_local, float* device_out, std::size_t count,
                                    void* stream);

}  // namespace prime::kernels::cuda
