#include "kernels/codec/philox.hpp"
#include "kernels/digest/digest.hpp"
#include "kernels/digest/digest_lane.hpp"
#include "kernels/launch.cuh"
#include "tests/bench/gpu/bare.hpp"

namespace prime::bench::gpu {
namespace {

using namespace kernels;
using namespace kernels::cuda;

// A word that the compiler cannot know not to be needed.
__device__ void use(std::uint32_t word, std::byte* out) {
  if (word == 0x12345678U) *reinterpret_cast<std::uint32_t*>(out) = word;
}

__global__ void read_kernel(const uint4* from, std::size_t count, std::byte* out) {
  constexpr unsigned AT_ONCE = 4;
  std::uint32_t all = 0;
  for (std::size_t i = first_index(); i < count; i += AT_ONCE * stride()) {
    uint4 words[AT_ONCE];
#pragma unroll
    for (unsigned k = 0; k < AT_ONCE; ++k) words[k] = i + k * stride() < count ? from[i + k * stride()] : uint4{};
#pragma unroll
    for (unsigned k = 0; k < AT_ONCE; ++k) all ^= words[k].x ^ words[k].y ^ words[k].z ^ words[k].w;
  }
  use(all, out);
}

__global__ void random_kernel(std::size_t counters, std::uint64_t seed, std::byte* out) {
  for (std::size_t i = first_index(); i < counters; i += stride()) {
    const PhiloxWords words = random_words(seed, 2, i);
    use(words.word[0] ^ words.word[1] ^ words.word[2] ^ words.word[3], out);
  }
}

__global__ void scramble_kernel(std::byte* out) {
  alignas(8) __shared__ std::byte secret[DIGEST_SECRET_BYTES];
  for (unsigned i = threadIdx.x; i < DIGEST_SECRET_BYTES; i += blockDim.x) secret[i] = static_cast<std::byte>(37 * i);
  __syncthreads();
  std::uint64_t sum = lane_start(threadIdx.x);
  for (std::size_t block = 0; block < scrambled_blocks(DIGEST_CHUNK_BYTES); ++block) sum = lane_scramble(sum + block, secret, threadIdx.x);
  use(static_cast<std::uint32_t>(sum), out);
}

}  // namespace

Fault bare_read(const std::byte* device_from, std::size_t bytes, std::byte* device_out) {
  const std::size_t count = bytes / sizeof(uint4);
  read_kernel<<<blocks_for((count + 4 * THREADS - 1) / (4 * THREADS)), THREADS>>>(reinterpret_cast<const uint4*>(device_from), count,
                                                                                  device_out);
  return fault_of_launch();
}

Fault bare_random_bits(std::size_t values, std::byte* device_out) {
  const std::size_t counters = values / RANDOM_GROUP * RANDOM_LANES;
  random_kernel<<<blocks_for(counters / THREADS + 1), THREADS>>>(counters, 1, device_out);
  return fault_of_launch();
}

Fault bare_scrambles(std::size_t bytes, std::byte* device_out) {
  scramble_kernel<<<static_cast<unsigned>(bytes / DIGEST_CHUNK_BYTES), DIGEST_LANES>>>(device_out);
  return fault_of_launch();
}

}  // namespace prime::bench::gpu
