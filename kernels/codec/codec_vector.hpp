// Owns the seam between the codecs' drivers, compiled once, and their vectors, compiled for each instruction set.
#pragma once

#include "kernels/codec/codec_scalar.hpp"

namespace prime::kernels {

/// What the vectors work on at once: 256 values, in one or eight blocks. Every codec's bytes of so many values fit the maximum.
inline constexpr std::size_t GROUP_VALUES = CODEC_ALIGNMENT;
inline constexpr std::size_t GROUP_BYTES_MAXIMUM = 4 * GROUP_VALUES;

inline Encoding at_index(Encoding encoding, std::uint64_t index) {
  encoding.first_index = index;
  return encoding;
}

/// Both give null where this machine has no vectors for the codec: then the reference does it.
/// Encodes whole groups up to the first that holds a value which the codec refuses; how many. Its first index is a multiple of
/// RANDOM_GROUP.
using EncodeGroups = std::size_t (*)(const Encoding& encoding, const float* values, std::size_t groups, std::byte* out);
EncodeGroups encode_groups(Codec codec, Rounding rounding);

/// How the vectors write decoded values. Stream: past the caches, to an address aligned to 64 bytes.
enum class Placement : std::uint8_t { Store, Stream };
using DecodeGroups = void (*)(const std::byte* bytes, std::size_t groups, float* out);
DecodeGroups decode_groups(Codec codec, Placement placement);

}  // namespace prime::kernels
