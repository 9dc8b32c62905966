// Owns the selection on the device. A segment is read twice from memory where its values are spread as activations are: once for a bound,
// once for what reaches it. Where too many reach it (few distinct values), the exact bound is searched bit by bit.
#include "kernels/commitment/commitment_cuda.hpp"
#include "kernels/launch.cuh"

namespace prime::kernels::cuda {
namespace {

constexpr unsigned SELECTORS = 1024;  // threads of a segment
constexpr unsigned GATHERED = 4096;   // what shared memory holds to be sorted; a power of two

struct Segment {
  const std::uint16_t* bits;
  std::size_t values;
  bool aligned;  // to eight values
};

__device__ inline unsigned magnitude_of(std::uint16_t bits) { return bits & 0x7FFFU; }

// Calls visit(index, bits) for this thread's share, eight values a load where the segment lies so.
template <class Visit>
__device__ void each_value(const Segment& segment, Visit visit) {
  const std::size_t vectors = segment.aligned ? segment.values / 8 : 0;
  for (std::size_t v = threadIdx.x; v < vectors; v += SELECTORS) {
    const uint4 eight = reinterpret_cast<const uint4*>(segment.bits)[v];
    const unsigned words[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (unsigned i = 0; i < 8; ++i) visit(8 * v + i, static_cast<std::uint16_t>(words[i / 2] >> (16 * (i % 2))));
  }
  for (std::size_t i = 8 * vectors + threadIdx.x; i < segment.values; i += SELECTORS) visit(i, segment.bits[i]);
}

// How many of the block's numbers reach the bound.
__device__ unsigned count_of(unsigned own, unsigned* total) {
  if (threadIdx.x == 0) *total = 0;
  __syncthreads();
  const unsigned of_warp = __reduce_add_sync(0xFFFFFFFFU, own);
  if (threadIdx.x % 32 == 0) atomicAdd(total, of_warp);
  __syncthreads();
  const unsigned result = *total;
  __syncthreads();
  return result;
}

// Saturates well above what anybody asks for, so that segments of 2^32 values do not wrap.
__device__ unsigned reaching(const Segment& segment, unsigned bound, unsigned* total) {
  unsigned own = 0;
  each_value(segment, [&](std::size_t, std::uint16_t bits) { own += magnitude_of(bits) >= bound && own < (1U << 16) ? 1U : 0U; });
  return count_of(own, total);
}

// The largest bound that at least `wanted` of the numbers reach, by its bits from above. At most SELECTORS wanted.
__device__ unsigned bound_of_maxima(unsigned maximum, unsigned wanted) {
  unsigned bound = 0;
  for (unsigned bit = 1U << 14; bit > 0; bit >>= 1)
    if (static_cast<unsigned>(__syncthreads_count(maximum >= (bound | bit))) >= wanted) bound |= bit;
  return bound;
}

// Larger is better: larger magnitudes, then lower indices. The sign rides along.
__device__ inline unsigned long long key_of(std::size_t index, std::uint16_t bits) {
  const unsigned inverted = ~static_cast<unsigned>(index);
  return static_cast<unsigned long long>(magnitude_of(bits)) << 33 | static_cast<unsigned long long>(inverted) << 1 | (bits >> 15);
}
__device__ inline TopValue value_of(unsigned long long key) {
  return TopValue{~static_cast<std::uint32_t>(key >> 1), static_cast<std::uint16_t>((key >> 33) | (key & 1) << 15)};
}

// Bitonic, descending; keys beyond the gathered ones are 0.
__device__ void sort_keys(unsigned long long* keys) {
  for (unsigned size = 2; size <= GATHERED; size *= 2)
    for (unsigned distance = size / 2; distance > 0; distance /= 2) {
      for (unsigned i = threadIdx.x; i < GATHERED; i += SELECTORS) {
        const unsigned other = i ^ distance;
        const bool descending = (i & size) == 0;
        if (other > i && (keys[i] < keys[other]) == descending) {
          const auto kept = keys[i];
          keys[i] = keys[other];
          keys[other] = kept;
        }
      }
      __syncthreads();
    }
}

// The exact bound, all above it in any order, and of those at it the first ones by index.
__device__ void select_exactly(const Segment& segment, unsigned wanted, unsigned* total, TopValue* out) {
  unsigned bound = 0;
  for (unsigned bit = 1U << 14; bit > 0; bit >>= 1)
    if (reaching(segment, bound | bit, total) >= wanted) bound |= bit;
  if (threadIdx.x == 0) *total = 0;
  __syncthreads();
  each_value(segment, [&](std::size_t index, std::uint16_t bits) {
    if (magnitude_of(bits) > bound) out[atomicAdd(total, 1U)] = TopValue{static_cast<std::uint32_t>(index), bits};
  });
  __syncthreads();
  unsigned taken = *total;
  __shared__ unsigned warp_ties[SELECTORS / 32];
  for (std::size_t begin = 0; begin < segment.values && taken < wanted; begin += SELECTORS) {
    const std::size_t index = begin + threadIdx.x;
    const bool tie = index < segment.values && magnitude_of(segment.bits[index]) == bound;
    const unsigned votes = __ballot_sync(0xFFFFFFFFU, tie);
    __syncthreads();
    if (threadIdx.x % 32 == 0) warp_ties[threadIdx.x / 32] = __popc(votes);
    __syncthreads();
    unsigned before = __popc(votes & ((1U << threadIdx.x % 32) - 1));
    unsigned all = 0;
    for (unsigned warp = 0; warp < SELECTORS / 32; ++warp) {
      before += warp < threadIdx.x / 32 ? warp_ties[warp] : 0;
      all += warp_ties[warp];
    }
    if (tie && taken + before < wanted) out[taken + before] = TopValue{static_cast<std::uint32_t>(index), segment.bits[index]};
    taken += all;
  }
}

__global__ void top_kernel(const std::uint16_t* bits, std::size_t count, std::size_t values, unsigned wanted, TopValue* out,
                           unsigned long long* non_finite) {
  __shared__ unsigned long long keys[GATHERED];
  __shared__ unsigned long long first_bad;
  __shared__ unsigned total;
  for (std::size_t number = blockIdx.x; number < count; number += gridDim.x) {
    const std::uint16_t* begin = bits + number * values;
    const Segment segment{begin, values, reinterpret_cast<std::uintptr_t>(begin) % 16 == 0};
    if (threadIdx.x == 0) first_bad = values;
    __syncthreads();
    unsigned maximum = 0;
    each_value(segment, [&](std::size_t index, std::uint16_t value) {
      const unsigned magnitude = magnitude_of(value);
      maximum = max(maximum, magnitude);
      if (magnitude >= BF16_INFINITY) atomicMin(&first_bad, static_cast<unsigned long long>(index));
    });
    __syncthreads();
    const bool bad = first_bad < values;
    if (threadIdx.x == 0) non_finite[number] = first_bad;
    // As many threads' maxima as are wanted reach this bound, so at least as many values do.
    const unsigned bound = wanted <= SELECTORS && !bad ? bound_of_maxima(maximum, wanted) : 0;
    const unsigned reached = bad ? 0 : reaching(segment, bound, &total);
    if (!bad && reached > GATHERED) select_exactly(segment, wanted, &total, out + number * wanted);
    if (!bad && reached <= GATHERED) {
      for (unsigned i = threadIdx.x; i < GATHERED; i += SELECTORS) keys[i] = 0;
      if (threadIdx.x == 0) total = 0;
      __syncthreads();
      each_value(segment, [&](std::size_t index, std::uint16_t value) {
        if (magnitude_of(value) >= bound) keys[atomicAdd(&total, 1U)] = key_of(index, value);
      });
      __syncthreads();
      sort_keys(keys);
      for (unsigned i = threadIdx.x; i < wanted; i += SELECTORS) out[number * wanted + i] = value_of(keys[i]);
    }
    __syncthreads();
  }
}

}  // namespace

Fault top_values(const Segments& segments, std::size_t wanted, TopValue* device_out, unsigned long long* device_non_finite, void* stream) {
  if (wanted > COMMITTED_MAXIMUM || wanted > segments.values) return "a search for " + std::to_string(wanted) + " values in each segment";
  if (segments.values >= SEGMENT_VALUES_MAXIMUM) return "a segment of " + std::to_string(segments.values) + " values";
  if (segments.count == 0) return std::nullopt;
  top_kernel<<<blocks_for(segments.count), SELECTORS, 0, stream_of(stream)>>>(segments.device_bits, segments.count, segments.values,
                                                                              static_cast<unsigned>(wanted), device_out, device_non_finite);
  return fault_of_launch();
}

}  // namespace prime::kernels::cuda
