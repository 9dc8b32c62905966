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

constexpr unsigned CHUNKS_OF_BLOCK = 4;  // one warp: few threads share a block, so that chunks spread over the whole device

// Eight threads for each chunk, each with one lane of its hash.
__global__ void chunk_kernel(const std::byte* bytes, std::size_t count, std::size_t chunks, const __grid_constant__ Secret secret,
                             Digest* digests) {
  __shared__ std::uint64_t sums[CHUNKS_OF_BLOCK][DIGEST_LANES];
  alignas(8) __shared__ std::byte near_secret[DIGEST_SECRET_BYTES];
  for (unsigned i = threadIdx.x; i < DIGEST_SECRET_BYTES; i += blockDim.x) near_secret[i] = secret.bytes[i];
  __syncthreads();
  const unsigned slot = threadIdx.x / DIGEST_LANES;
  const unsigned lane = threadIdx.x % DIGEST_LANES;
  const std::size_t chunk = std::size_t{blockIdx.x} * CHUNKS_OF_BLOCK + slot;
  const std::byte* begin = bytes + chunk * DIGEST_CHUNK_BYTES;
  const std::size_t length = chunk + 1 < chunks ? DIGEST_CHUNK_BYTES : count - chunk * DIGEST_CHUNK_BYTES;
  if (chunk < chunks) sums[slot][lane] = lane_sum<8>(begin, length, near_secret, lane);
  __syncthreads();
  if (chunk < chunks && lane == 0)
    digests[chunk] = Digest{digest_high(sums[slot], length, near_secret), digest_low(sums[slot], length, near_secret)};
}

// Memory of the stream, given back with it.
class DeviceDigests {
 public:
  DeviceDigests(std::size_t count, cudaStream_t stream)
      : stream_(stream), error_(cudaMallocAsync(&data_, count * sizeof(Digest), stream)) {}
  ~DeviceDigests() {
    if (data_ != nullptr) static_cast<void>(cudaFreeAsync(data_, stream_));
  }
  DeviceDigests(const DeviceDigests&) = delete;
  DeviceDigests& operator=(const DeviceDigests&) = delete;
  Digest* data() const { return static_cast<Digest*>(data_); }
  cudaError_t error() const { return error_; }

 private:
  void* data_ = nullptr;
  cudaStream_t stream_;
  cudaError_t error_;
};

Fault long_chunk_digests(const std::byte* device_bytes, std::size_t count, std::span<Digest> digests, cudaStream_t stream) {
  const DeviceDigests on_device(digests.size(), stream);
  if (on_device.error() != cudaSuccess) return fault_of(on_device.error());
  Secret secret;
  const auto bytes = digest_secret();
  std::memcpy(secret.bytes, bytes.data(), bytes.size());
  const auto blocks = static_cast<unsigned>((digests.size() + CHUNKS_OF_BLOCK - 1) / CHUNKS_OF_BLOCK);
  chunk_kernel<<<blocks, CHUNKS_OF_BLOCK * DIGEST_LANES, 0, stream>>>(device_bytes, count, digests.size(), secret, on_device.data());
  if (auto fault = fault_of_launch()) return fault;
  if (auto fault = fault_of(cudaMemcpyAsync(digests.data(), on_device.data(), digests.size_bytes(), cudaMemcpyDeviceToHost, stream)))
    return fault;
  return fault_of(cudaStreamSynchronize(stream));
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
