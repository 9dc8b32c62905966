// Owns the search on the device: who works on what part of which segment. Where segments are few, several blocks share one, and their
// findings are selected from once more.
#include <map>
#include <mutex>

#include "kernels/commitment/commitment_cuda.hpp"
#include "kernels/commitment/commitment_select.cuh"
#include "kernels/launch.cuh"

namespace prime::kernels::cuda {
namespace {

struct Parts {
  std::size_t count = 1;   // of a segment
  std::size_t values = 0;  // of each but the last: a multiple of OF_VECTOR
};

template <unsigned THREADS>
__device__ Selection<THREADS> new_selection(unsigned wanted) {
  extern __shared__ Key keys[];
  __shared__ unsigned count;
  __shared__ Counts counts;
  __syncthreads();  // the last one has ended
  if (threadIdx.x == 0) count = 0;
  return {wanted, {keys, capacity_of<THREADS>(wanted), &count}, counts};
}

// A part of a segment for each block; with one part the best are the result, else `findings` for the next kernel.
template <unsigned THREADS>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS)
    part_kernel(Segments segments, Parts parts, Keys keys, unsigned wanted, TopValue* out, Key* findings, Key* non_finite) {
  __shared__ unsigned first_bad;
  for (std::size_t number = blockIdx.x; number < segments.count * parts.count; number += gridDim.x) {
    const std::size_t segment = number / parts.count;
    const std::size_t begin = number % parts.count * parts.values;
    const auto selection = new_selection<THREADS>(wanted);
    if (threadIdx.x == 0) first_bad = static_cast<unsigned>(segments.values);
    __syncthreads();
    const std::uint16_t* const bits = segments.device_bits + segment * segments.values;
    Values<THREADS> values{bits, min(begin + parts.values, segments.values), keys, &first_bad};
    const unsigned found = selection.select(values, begin, [&] { return first_bad < segments.values; });
    if (parts.count == 1) {
      if (threadIdx.x == 0) non_finite[segment] = first_bad;
      for (unsigned i = threadIdx.x; i < found; i += THREADS) out[segment * wanted + i] = keys.value(selection.kept.keys[i]);
    } else {
      if (threadIdx.x == 0) atomicMin(&non_finite[segment], Key{first_bad});
      for (unsigned i = threadIdx.x; i < wanted; i += THREADS) findings[number * wanted + i] = i < found ? selection.kept.keys[i] : 0;
    }
  }
}

template <unsigned THREADS>
__global__ void __launch_bounds__(THREADS)
    join_kernel(Segments segments, Parts parts, Keys keys, unsigned wanted, const Key* findings, TopValue* out, const Key* non_finite) {
  for (std::size_t segment = blockIdx.x; segment < segments.count; segment += gridDim.x) {
    if (non_finite[segment] < segments.values) continue;
    const auto selection = new_selection<THREADS>(wanted);
    __syncthreads();
    Findings<THREADS> of_parts{findings + segment * parts.count * wanted, parts.count * wanted};
    const unsigned found = selection.select(of_parts, 0, [] { return false; });
    for (unsigned i = threadIdx.x; i < found; i += THREADS) out[segment * wanted + i] = keys.value(selection.kept.keys[i]);
  }
}

__global__ void fill_kernel(Key* words, std::size_t count, Key value) {
  for (std::size_t i = first_index(); i < count; i += stride()) words[i] = value;
}

// Memory for what blocks find, of a pool that keeps what comes back: the system's memory takes longer to get than a search does.
class FindingsPool {
 public:
  static FindingsPool& of_device(int device) {
    static std::mutex mutex;
    static std::map<int, FindingsPool> pools;
    const std::lock_guard lock(mutex);
    return pools.try_emplace(device, device).first->second;
  }
  explicit FindingsPool(int device) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, device};
    error_ = cudaMemPoolCreate(&pool_, &properties);
    std::uint64_t kept_bytes = std::uint64_t{64} << 20;
    if (error_ == cudaSuccess) error_ = cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &kept_bytes);
  }
  cudaMemPool_t pool() const { return pool_; }
  cudaError_t error() const { return error_; }

 private:
  cudaMemPool_t pool_ = nullptr;  // as long as the process
  cudaError_t error_;
};

// In the order of the stream.
class DeviceFindings {
 public:
  DeviceFindings(std::size_t keys, const FindingsPool& pool, cudaStream_t stream) : stream_(stream), error_(pool.error()) {
    if (error_ == cudaSuccess) error_ = cudaMallocFromPoolAsync(&data_, keys * sizeof(Key), pool.pool(), stream);
  }
  ~DeviceFindings() {
    if (data_ != nullptr) static_cast<void>(cudaFreeAsync(data_, stream_));
  }
  DeviceFindings(const DeviceFindings&) = delete;
  DeviceFindings& operator=(const DeviceFindings&) = delete;
  Key* data() const { return static_cast<Key*>(data_); }
  cudaError_t error() const { return error_; }

 private:
  void* data_ = nullptr;
  cudaStream_t stream_;
  cudaError_t error_;
};

constexpr unsigned MANY = 256;  // threads for large segments, four blocks for each multiprocessor
constexpr unsigned FEW = 64;    // and for small ones
constexpr std::size_t VALUES_OF_FEW = 16'384;
constexpr std::size_t WANTED_OF_FEW = VECTORS * FEW / 2;    // of more, the first tile gives no bound that holds much back
constexpr std::size_t PART_MINIMUM = std::size_t{1} << 16;  // values that are worth a block

// As many parts as the device has room for blocks.
Parts parts_of(const Segments& segments, std::size_t wanted, std::size_t multiprocessors) {
  const std::size_t most = std::max<std::size_t>(segments.values / std::max(PART_MINIMUM, 8 * wanted), 1);
  const std::size_t shares = wanted == 0 ? 1 : std::clamp<std::size_t>(4 * multiprocessors / segments.count, 1, most);
  const std::size_t values = ((segments.values + shares - 1) / shares / OF_VECTOR + 1) * OF_VECTOR;
  return {std::max<std::size_t>((segments.values + values - 1) / values, 1), values};
}

struct Search {
  const Segments& segments;
  const Parts& parts;
  Keys keys;
  unsigned wanted;
  TopValue* out;
  Key* non_finite;
  int device;
  cudaStream_t stream;

  template <unsigned THREADS>
  Fault run() const {
    const std::size_t shared = capacity_of<THREADS>(wanted) * sizeof(Key);
    if (auto fault = allow(part_kernel<THREADS>, shared)) return fault;
    const unsigned blocks = blocks_for(segments.count * parts.count);
    if (parts.count == 1) {
      part_kernel<THREADS><<<blocks, THREADS, shared, stream>>>(segments, parts, keys, wanted, out, nullptr, non_finite);
      return fault_of_launch();
    }
    const DeviceFindings findings(segments.count * parts.count * wanted, FindingsPool::of_device(device), stream);
    if (findings.error() != cudaSuccess) return fault_of(findings.error());
    if (auto fault = allow(join_kernel<THREADS>, shared)) return fault;
    fill_kernel<<<blocks_for((segments.count + THREADS - 1) / THREADS), THREADS, 0, stream>>>(non_finite, segments.count, segments.values);
    part_kernel<THREADS><<<blocks, THREADS, shared, stream>>>(segments, parts, keys, wanted, out, findings.data(), non_finite);
    join_kernel<THREADS>
        <<<blocks_for(segments.count), THREADS, shared, stream>>>(segments, parts, keys, wanted, findings.data(), out, non_finite);
    return fault_of_launch();
  }
  template <class Kernel>
  static Fault allow(Kernel kernel, std::size_t shared_bytes) {
    return fault_of(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
  }
};

}  // namespace

Fault top_values(const Segments& segments, std::size_t wanted, TopValue* device_out, unsigned long long* device_non_finite, void* stream) {
  if (wanted > COMMITTED_MAXIMUM || wanted > segments.values) return "a search for " + std::to_string(wanted) + " values in each segment";
  if (segments.values >= SEGMENT_VALUES_MAXIMUM) return "a segment of " + std::to_string(segments.values) + " values";
  if (segments.count == 0) return std::nullopt;
  int device = 0;
  int multiprocessors = 0;
  if (auto fault = fault_of(cudaGetDevice(&device))) return fault;
  if (auto fault = fault_of(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device))) return fault;
  const Parts parts = parts_of(segments, wanted, static_cast<std::size_t>(multiprocessors));
  const Search search{segments,          parts,  Keys(segments.values), static_cast<unsigned>(wanted), device_out,
                      device_non_finite, device, stream_of(stream)};
  const bool few = segments.values <= VALUES_OF_FEW && wanted <= WANTED_OF_FEW;
  return few ? search.run<FEW>() : search.run<MANY>();
}

}  // namespace prime::kernels::cuda
