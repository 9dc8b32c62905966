// Owns the GPU's search for the largest activations: the values of commitment.hpp, of many segments at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/commitment/commitment.hpp"
#include "kernels/cuda.hpp"

namespace prime::kernels::cuda {

/// So many segments of equal size, one behind the other.
struct Segments {
  const std::uint16_t* device_bits = nullptr;  ///< [count, values] of bf16
  std::size_t count = 0;
  std::size_t values = 0;  ///< at least `wanted`, at most SEGMENT_VALUES_MAXIMUM − 1
};

/// device_out: [count, wanted], the values of top_values for each segment, in no order, with their indices in the segment.
/// device_non_finite: [count], the index of a segment's first NaN or infinity, or `values`; then its row of device_out is of no use.
/// Few large segments are shared out among blocks of threads, whose findings take memory of the device for a while, in the order of the
/// stream. `wanted` is at most COMMITTED_MAXIMUM.
[[nodiscard]] Fault top_values(const Segments& segments, std::size_t wanted, TopValue* device_out, unsigned long long* device_non_finite,
                               void* stream);

}  // namespace prime::kernels::cuda
