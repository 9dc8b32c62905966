// Owns the start of a GPU kernel: how many threads for how many values, and what CUDA said about it.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/cuda.hpp"

namespace prime::kernels::cuda {

inline constexpr unsigned THREADS = 256;
// Kernels stride over what is more than a grid; this fills every device and stays below the limit of a grid.
inline constexpr std::size_t BLOCKS_MAXIMUM = 1U << 16;

inline unsigned blocks_for(std::size_t groups) { return static_cast<unsigned>(std::min(groups, BLOCKS_MAXIMUM)); }

inline cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

inline Fault fault_of(cudaError_t error) {
  if (error == cudaSuccess) return std::nullopt;
  return std::string(cudaGetErrorName(error)) + ": " + cudaGetErrorString(error);
}
inline Fault fault_of_launch() { return fault_of(cudaGetLastError()); }

/// The index of this thread among all, and how far it strides.
__device__ inline std::size_t first_index() { return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::size_t stride() { return std::size_t{gridDim.x} * blockDim.x; }

}  // namespace prime::kernels::cuda
