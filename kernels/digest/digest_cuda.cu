#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/digest/digest.hpp"
#include "kernels/digest/digest_cuda.hpp"
#include "kernels/digest/digest_lane.hpp"
#include "kernels/launch.cuh"

namespace prime::kernels::cuda {
namespace {

struct Secret {
  std::byte bytes[DIGEST_SECRET_BYTES];
};

constexpr unsigned WARP = 32;
constexpr unsigned PAIRS = DIGEST_LANES / 2;  // a thread sums two lanes, whose words are 16 bytes of each stripe
constexpr unsigned SUMMERS = 8 * WARP;        // threads that sum blocks; one warp more scrambles
constexpr unsigned ROUND = SUMMERS / PAIRS;   // blocks that they sum at once

struct Pair {
  std::uint64_t first, second;
};

// WIDE: the bytes lie aligned to 16, else to 8.
template <bool WIDE>
__device__ Pair load_pair(const std::byte* from) {
  if constexpr (!WIDE) return {read_word<8>(from), read_word<8>(from + 8)};
  const auto words = *reinterpret_cast<const ulonglong2*>(from);
  return {words.x, words.y};
}

// This thread's words of a block: on their way while others are summed.
template <bool WIDE>
struct Words {
  Pair of[STRIPES_OF_BLOCK];
  __device__ void load(const std::byte* block, unsigned stripes, unsigned pair) {
#pragma unroll
    for (unsigned stripe = 0; stripe < STRIPES_OF_BLOCK; ++stripe)
      if (stripe < stripes) of[stripe] = load_pair<WIDE>(block + stripe * STRIPE_BYTES + 16 * pair);
  }
  // As lane_block of both lanes: each lane adds its neighbour's word as it is.
  __device__ Pair sum(const std::byte* secret, unsigned stripes, unsigned pair) const {
    Pair sums{0, 0};
#pragma unroll
    for (unsigned stripe = 0; stripe < STRIPES_OF_BLOCK; ++stripe) {
      if (stripe >= stripes) continue;
      const std::uint64_t first = of[stripe].first ^ read_word<8>(secret + 8 * stripe + 16 * pair);
      const std::uint64_t second = of[stripe].second ^ read_word<8>(secret + 8 * stripe + 16 * pair + 8);
      sums.first += of[stripe].second + (first & 0xFFFFFFFFU) * (first >> 32);
      sums.second += of[stripe].first + (second & 0xFFFFFFFFU) * (second >> 32);
    }
    return sums;
  }
};

// A chunk for each block of threads. Its blocks are summed by all warps but the last, which scrambles the sums of the round before. The
// block after the scrambled ones counts among them, though it may have few stripes, or none.
template <bool WIDE>
__global__ void __launch_bounds__(SUMMERS + WARP, 2)
    chunk_kernel(const std::byte* bytes, std::size_t count, const __grid_constant__ Secret secret, Digest* digests) {
  __shared__ std::uint64_t sums[2][ROUND][DIGEST_LANES];
  alignas(8) __shared__ std::byte near_secret[DIGEST_SECRET_BYTES];
  for (unsigned i = threadIdx.x; i < DIGEST_SECRET_BYTES; i += blockDim.x) near_secret[i] = secret.bytes[i];
  const std::byte* const chunk = bytes + blockIdx.x * DIGEST_CHUNK_BYTES;
  const unsigned length = static_cast<unsigned>(min(count - blockIdx.x * DIGEST_CHUNK_BYTES, DIGEST_CHUNK_BYTES));
  const unsigned scrambled = static_cast<unsigned>(scrambled_blocks(length));
  const auto stripes_of = [&](unsigned block) {
    return static_cast<unsigned>(block < scrambled ? STRIPES_OF_BLOCK : block > scrambled ? 0 : rest_stripes(length));
  };
  const bool sums_up = threadIdx.x < SUMMERS;
  const unsigned own = threadIdx.x / PAIRS, pair = threadIdx.x % PAIRS;
  const unsigned lane = threadIdx.x - SUMMERS;
  const bool scrambles = !sums_up && lane < DIGEST_LANES;
  Words<WIDE> words;
  if (sums_up) words.load(chunk + own * DIGEST_BLOCK_BYTES, stripes_of(own), pair);
  __syncthreads();
  std::uint64_t sum = scrambles ? lane_start(lane) : 0;
  const std::uint64_t end = scrambles ? lane_end(chunk, length, near_secret, lane) : 0;
  for (unsigned first = 0; first <= scrambled; first += ROUND) {
    auto& of_round = sums[first / ROUND % 2];
    if (sums_up) {
      const Pair both = words.sum(near_secret, stripes_of(first + own), pair);
      of_round[own][2 * pair] = both.first;
      of_round[own][2 * pair + 1] = both.second;
      words.load(chunk + (first + ROUND + own) * DIGEST_BLOCK_BYTES, stripes_of(first + ROUND + own), pair);
    }
    __syncthreads();
    if (!scrambles) continue;
    const unsigned last = min(first + ROUND, scrambled);
#pragma unroll 4
    for (unsigned block = first; block < last; ++block) sum = lane_scramble(sum + of_round[block - first][lane], near_secret, lane);
    if (scrambled < first + ROUND) sums[0][0][lane] = sum + of_round[scrambled - first][lane] + end;
  }
  __syncwarp();
  if (!sums_up && lane == 0)
    digests[blockIdx.x] = Digest{digest_high(sums[0][0], length, near_secret), digest_low(sums[0][0], length, near_secret)};
}

// Page-locked memory of the calling thread, where a kernel writes what the host is to read.
class HostDigests {
 public:
  HostDigests() = default;
  ~HostDigests() { static_cast<void>(cudaFreeHost(data_)); }
  HostDigests(const HostDigests&) = delete;
  HostDigests& operator=(const HostDigests&) = delete;
  cudaError_t resize(std::size_t count) {
    if (count <= capacity_) return cudaSuccess;
    static_cast<void>(cudaFreeHost(std::exchange(data_, nullptr)));
    capacity_ = 0;
    const auto error = cudaHostAlloc(&data_, count * sizeof(Digest), cudaHostAllocPortable | cudaHostAllocMapped);
    if (error == cudaSuccess) capacity_ = count;
    return error;
  }
  Digest* data() const { return static_cast<Digest*>(data_); }

 private:
  void* data_ = nullptr;
  std::size_t capacity_ = 0;
};

Fault long_chunk_digests(const std::byte* device_bytes, std::size_t count, std::span<Digest> digests, cudaStream_t stream) {
  thread_local HostDigests found;
  if (auto fault = fault_of(found.resize(digests.size()))) return fault;
  Secret secret;
  const auto bytes = digest_secret();
  std::memcpy(secret.bytes, bytes.data(), bytes.size());
  const auto kernel = reinterpret_cast<std::uintptr_t>(device_bytes) % 16 == 0 ? chunk_kernel<true> : chunk_kernel<false>;
  kernel<<<static_cast<unsigned>(digests.size()), SUMMERS + WARP, 0, stream>>>(device_bytes, count, secret, found.data());
  if (auto fault = fault_of_launch()) return fault;
  if (auto fault = fault_of(cudaStreamSynchronize(stream))) return fault;
  std::copy_n(found.data(), digests.size(), digests.begin());
  return std::nullopt;
}

}  // namespace

Fault digest_tensor(const std::byte* device_bytes, std::size_t count, Digest& digest, void* stream) {
  const std::size_t chunks = (count + DIGEST_CHUNK_BYTES - 1) / DIGEST_CHUNK_BYTES;
  const std::size_t last = chunks == 0 ? 0 : count - (chunks - 1) * DIGEST_CHUNK_BYTES;
  const bool short_end = chunks > 0 && last <= DIGEST_LANES_MINIMUM;  // another function, not worth a kernel
  std::vector<Digest> digests(chunks);
  const std::size_t long_chunks = chunks - (short_end ? 1 : 0);
  if (long_chunks > 0)
    if (auto fault = long_chunk_digests(device_bytes, short_end ? count - last : count, {digests.data(), long_chunks}, stream_of(stream)))
      return fault;
  if (short_end) {
    std::byte end[DIGEST_LANES_MINIMUM];
    if (auto fault = fault_of(cudaMemcpyAsync(end, device_bytes + count - last, last, cudaMemcpyDeviceToHost, stream_of(stream))))
      return fault;
    if (auto fault = synchronize(stream)) return fault;
    digests.back() = digest_bytes({end, last});
  }
  digest = combine_digests(digests, count);
  return std::nullopt;
}

}  // namespace prime::kernels::cuda
