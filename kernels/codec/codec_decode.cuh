// Owns how a warp decodes a tile.
#pragma once

#include "kernels/codec/codec_tile.cuh"

namespace prime::kernels::cuda {

/// A word at any byte. What follows it up to a multiple of four must be there.
__device__ inline std::uint32_t load_word(const std::byte* from) {
  const unsigned past = reinterpret_cast<std::uintptr_t>(from) % 4;
  const std::uint32_t low = load_as<std::uint32_t>(from - past);
  return __funnelshift_r(low, past == 0 ? low : load_as<std::uint32_t>(from - past + 4), 8 * past);
}

/// `position` is the first one's in its block, a multiple of four. `whole`: all of the tile is there, and aligned; its bytes end with a
/// word.
template <unsigned BITS, bool IN_WORDS>
__device__ Codes load_codes(bool whole, const std::byte* codes, unsigned position, unsigned present) {
  constexpr std::uint32_t MASK = BITS < 32 ? (1U << BITS % 32) - 1 : ~0U;
  const std::byte* const from = codes + position * BITS / 8;
  if (whole) {
    if constexpr (BITS == 32) {
      const auto words = load_as<uint4>(from);
      return {words.x, words.y, words.z, words.w};
    } else if constexpr (BITS == 16) {
      const auto words = load_as<uint2>(from);
      return {words.x & MASK, words.x >> 16, words.y & MASK, words.y >> 16};
    } else {
      const std::uint32_t word = BITS == 4 ? load_as<std::uint16_t>(from) : IN_WORDS ? load_as<std::uint32_t>(from) : load_word(from);
      return {word & MASK, word >> BITS & MASK, word >> 2 * BITS & MASK, word >> 3 * BITS & MASK};
    }
  }
  Codes code{};
#pragma unroll
  for (unsigned i = 0; i < 4; ++i) {
    if (i >= present) continue;
    if constexpr (BITS == 4) code.at[i] = std::to_integer<std::uint32_t>(from[i / 2]) >> (i % 2 * 4) & MASK;
    if constexpr (BITS == 8) code.at[i] = std::to_integer<std::uint32_t>(from[i]);
    if constexpr (BITS == 16) code.at[i] = load_as<std::uint16_t>(from + 2 * i);
    if constexpr (BITS == 32) code.at[i] = load_as<std::uint32_t>(from + 4 * i);
  }
  return code;
}

/// `begin`: of the thread's first quad.
template <Codec CODEC, bool WHOLE>
__device__ void decode_tile(const DecodeDevice& device, std::size_t begin) {
  using L = Layout<CODEC>;
  Codes codes[QUADS];
  BlockScale scales[QUADS];
#pragma unroll
  for (unsigned quad = 0; quad < QUADS; ++quad) {
    const std::size_t index = begin + quad * STRIDE;
    if (!WHOLE && index >= device.count) continue;
    const std::byte* const block = device.bytes + index / L::VALUES * L::BYTES;
    scales[quad] = load_head(CODEC, static_cast<const std::byte*>(__builtin_assume_aligned(block, L::IN_WORDS ? 4 : 1)));
    codes[quad] = load_codes<L::BITS, L::IN_WORDS>(WHOLE, block + L::HEAD, index % L::VALUES, present_of(index, device.count));
  }
#pragma unroll
  for (unsigned quad = 0; quad < QUADS; ++quad) {
    Four values;
    for (unsigned i = 0; i < 4; ++i) values.at[i] = value_of(CODEC, scales[quad], codes[quad].at[i]);
    store_four(WHOLE, device.out, begin + quad * STRIDE, device.count, values);
  }
}

}  // namespace prime::kernels::cuda
