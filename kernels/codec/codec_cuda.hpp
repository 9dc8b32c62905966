// Owns the GPU's versions of the codecs: the bytes of codec.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codec/codec.hpp"
#include "kernels/cuda.hpp"

namespace prime::kernels::cuda {

/// Error feedback where `residual` is given: then values + residual is encoded, and next_residual must be given too.
struct EncodeDevice {
  const float* values = nullptr;
  const float* residual = nullptr;
  std::byte* out = nullptr;  ///< encoded_bytes(codec, count), aligned to 4 bytes
  float* next_residual = nullptr;
  std::size_t count = 0;
  /// Becomes the index of the first value that the codec refuses, or count. With an index, the rest of the output is of no use.
  unsigned long long* first_refused = nullptr;
};
[[nodiscard]] Fault encode(const Encoding& encoding, const EncodeDevice& device, void* stream);

struct DecodeDevice {
  const std::byte* bytes = nullptr;  ///< aligned to 4 bytes
  float* out = nullptr;
  std::size_t count = 0;
};
[[nodiscard]] Fault decode(Codec codec, const DecodeDevice& device, void* stream);

}  // namespace prime::kernels::cuda
