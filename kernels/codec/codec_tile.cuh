// Owns how the codecs' kernels share out values: a warp takes a tile of four groups of 256, each of its threads four successive values (a
// quad) at a time.
#pragma once

#include "kernels/codec/codec_cuda.hpp"
#include "kernels/codec/codec_scalar.hpp"
#include "kernels/four.cuh"

namespace prime::kernels::cuda {

inline constexpr unsigned LANES = 32;
inline constexpr unsigned WARPS = 4;  // of a block of threads
inline constexpr unsigned ALL_LANES = ~0U;
inline constexpr unsigned GROUP = CODEC_ALIGNMENT;
inline constexpr unsigned GROUPS = 4;          // of a tile, so that the bytes of each begin at a multiple of four
inline constexpr unsigned STRIDE = 4 * LANES;  // from one quad of a thread to its next
inline constexpr unsigned TILE = GROUPS * GROUP;
inline constexpr unsigned QUADS = TILE / STRIDE;  // of a thread

/// Of a codec's blocks within a tile.
template <Codec CODEC>
struct Layout {
  static constexpr BlockLayout OF = block_layout(CODEC);
  static constexpr unsigned HEAD = OF.head_bytes;
  static constexpr unsigned BITS = OF.bits;
  static constexpr unsigned VALUES = OF.values;
  static constexpr unsigned BYTES = block_bytes(OF, OF.values);
  static constexpr unsigned LANES_OF_BLOCK = VALUES < STRIDE ? VALUES / 4 : LANES;
  static constexpr unsigned QUADS_OF_BLOCK = VALUES < STRIDE ? 1 : VALUES / STRIDE;  // of a thread
  static constexpr unsigned TILE_BYTES = TILE / VALUES * BYTES;
  static constexpr unsigned ALIGNMENT = BITS < 8 ? 4 : BITS / 2;  // of the bytes, so that four codes are one store; of a head, too
  static constexpr bool IN_WORDS = BYTES % 4 == 0;                // else its blocks begin at any byte
  static_assert(TILE_BYTES % 4 == 0 && (IN_WORDS || BITS == 8));
  static_assert(HEAD == 0 || LANES_OF_BLOCK == LANES || (LANES_OF_BLOCK == QUADS && QUADS_OF_BLOCK == 1));
};

template <Codec CODEC>
__device__ bool lie_aligned(const std::byte* bytes) {
  return reinterpret_cast<std::uintptr_t>(bytes) % Layout<CODEC>::ALIGNMENT == 0;
}

/// Four codes, of the values of a Four.
struct Codes {
  std::uint32_t at[4];
};

template <class Word>
__device__ void store_as(std::byte* to, Word word) {
  *reinterpret_cast<Word*>(to) = word;
}
template <class Word>
__device__ Word load_as(const std::byte* from) {
  return *reinterpret_cast<const Word*>(from);
}

/// How many of the four values at `index` there are.
__device__ inline unsigned present_of(std::size_t index, std::size_t count) {
  return index >= count ? 0 : static_cast<unsigned>(count - index < 4 ? count - index : 4);
}

__device__ inline std::uint32_t magnitude_of(float value) { return std::bit_cast<std::uint32_t>(value) & ~SIGN_BIT; }

}  // namespace prime::kernels::cuda
