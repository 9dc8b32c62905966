// Owns the least of some kernels' work, alone: what it takes bounds them.
#pragma once

#include <cstddef>

#include "kernels/cuda.hpp"

namespace prime::bench::gpu {

/// All bytes, a multiple of 16, read once.
[[nodiscard]] kernels::cuda::Fault bare_read(const std::byte* device_from, std::size_t bytes, std::byte* device_out);
/// The random words of stochastic rounding for so many values, of whole groups, in registers.
[[nodiscard]] kernels::cuda::Fault bare_random_bits(std::size_t values, std::byte* device_out);
/// The scrambles of the digest of so many bytes, of whole chunks: those of a chunk need each other, and nothing is read for them.
[[nodiscard]] kernels::cuda::Fault bare_scrambles(std::size_t bytes, std::byte* device_out);

}  // namespace prime::bench::gpu
