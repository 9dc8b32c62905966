// Owns how a thread takes four successive values of an array: as one load or store of 16 bytes where the array lies so.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/launch.cuh"

namespace prime::kernels::cuda {

/// For a thread for each four values.
inline unsigned blocks_of_fours(std::size_t count) { return blocks_for((count + 4 * THREADS - 1) / (4 * THREADS)); }

struct Four {
  float at[4];
};

/// Whether arrays allow loads of 16 bytes; null does.
template <class... Pointers>
__host__ __device__ inline bool are_aligned(const Pointers*... arrays) {
  return ((reinterpret_cast<std::uintptr_t>(arrays) % 16 == 0) && ...);
}

/// All four, of an address that is aligned to 16 bytes.
__device__ inline Four load_whole_four(const float* from) {
  const float4 four = *reinterpret_cast<const float4*>(from);
  return {{four.x, four.y, four.z, four.w}};
}
__device__ inline void store_whole_four(float* to, const Four& four) {
  *reinterpret_cast<float4*>(to) = {four.at[0], four.at[1], four.at[2], four.at[3]};
}

/// `whole`: as above. Else the last value of all `count` stands for those beyond it.
__device__ inline Four load_four(bool whole, const float* from, std::size_t index, std::size_t count) {
  if (whole) return load_whole_four(from + index);
  Four four;
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) four.at[i] = from[index + i < count ? index + i : count - 1];
  return four;
}

/// Those within `count`.
__device__ inline void store_four(bool whole, float* to, std::size_t index, std::size_t count, const Four& four) {
  if (whole) return store_whole_four(to + index, four);
#pragma unroll
  for (unsigned i = 0; i < 4; ++i)
    if (index + i < count) to[index + i] = four.at[i];
}

}  // namespace prime::kernels::cuda
