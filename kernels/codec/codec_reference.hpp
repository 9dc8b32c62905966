// Owns the way of one block through a codec, value by value: what the vectors fall back to for blocks of extreme values.
#pragma once

#include "kernels/codec/codec_scalar.hpp"

namespace prime::kernels {

/// At most one block of values. The index in an Unencodable counts from values[0].
std::optional<Unencodable> encode_block_reference(const Encoding& encoding, std::span<const float> values, std::uint64_t index,
                                                  std::byte* out);

}  // namespace prime::kernels
