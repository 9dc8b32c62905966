// Owns the random bits of a tile: each counter of the generator is computed once, by one thread, for the 16 values that share its words.
#pragma once

#include "kernels/codec/codec_tile.cuh"

namespace prime::kernels::cuda {

/// In shared memory, as the threads read them.
struct TileWords {
  uint4 of[GROUPS][4][RANDOM_LANES / 4];  // [group][word][four counters]
};

/// As one warp, for the tile whose first value has the index `first`, a multiple of RANDOM_GROUP.
__device__ inline void draw(const Encoding& encoding, std::uint64_t first, unsigned lane, TileWords& words) {
  auto* const by_counter = reinterpret_cast<std::uint32_t(*)[4][RANDOM_LANES]>(words.of);
  const std::uint64_t first_counter = first / RANDOM_GROUP * RANDOM_LANES;
  __syncwarp();  // the last tile's have been read
  for (unsigned counter = lane; counter < GROUPS * RANDOM_LANES; counter += LANES) {
    const PhiloxWords drawn = random_words(encoding.seed, encoding.version, first_counter + counter);
    for (unsigned word = 0; word < 4; ++word) by_counter[counter / RANDOM_LANES][word][counter % RANDOM_LANES] = drawn.word[word];
  }
  __syncwarp();
}

struct Random {
  std::uint32_t at[4];
};

/// What random_bits gives for the quad at `position` in its tile.
__device__ inline Random random_of(const TileWords& words, unsigned position) {
  const unsigned in_group = position % GROUP;
  const uint4 four = words.of[position / GROUP][in_group / (RANDOM_WINDOWS * RANDOM_LANES)][in_group % RANDOM_LANES / 4];
  const unsigned window = in_group / RANDOM_LANES % RANDOM_WINDOWS;
  const unsigned bytes = 0x4400U | (window + 1) % 4 << 4 | window;  // those two of the word, and two zeros
  return {{__byte_perm(four.x, 0, bytes), __byte_perm(four.y, 0, bytes), __byte_perm(four.z, 0, bytes), __byte_perm(four.w, 0, bytes)}};
}

}  // namespace prime::kernels::cuda
