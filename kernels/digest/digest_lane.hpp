// Owns XXH3-128 of a chunk as eight lanes that do not meet before the end, so that eight threads of a GPU can share one chunk. The
// function is that of digest_bytes for more than DIGEST_LANES_MINIMUM bytes; shorter inputs have another one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/host_device.hpp"

namespace prime::kernels {

inline constexpr std::size_t DIGEST_LANES = 8;
inline constexpr std::size_t DIGEST_LANES_MINIMUM = 240;
inline constexpr std::size_t DIGEST_SECRET_BYTES = 192;
inline constexpr std::size_t STRIPE_BYTES = 64;
inline constexpr std::size_t STRIPES_OF_BLOCK = (DIGEST_SECRET_BYTES - STRIPE_BYTES) / 8;
inline constexpr std::size_t DIGEST_BLOCK_BYTES = STRIPES_OF_BLOCK * STRIPE_BYTES;

inline constexpr std::uint64_t XXH_32_1 = 0x9E3779B1U;
inline constexpr std::uint64_t XXH_32_2 = 0x85EBCA77U;
inline constexpr std::uint64_t XXH_32_3 = 0xC2B2AE3DU;
inline constexpr std::uint64_t XXH_64_1 = 0x9E3779B185EBCA87U;
inline constexpr std::uint64_t XXH_64_2 = 0xC2B2AE3D27D4EB4FU;
inline constexpr std::uint64_t XXH_64_3 = 0x165667B19E3779F9U;
inline constexpr std::uint64_t XXH_64_4 = 0x85EBCA77C2B2AE63U;
inline constexpr std::uint64_t XXH_64_5 = 0x27D4EB2F165667C5U;

/// The library's own constants, as data for a device that cannot call it.
std::array<std::byte, DIGEST_SECRET_BYTES> digest_secret();

/// A GPU reads an address of unknown alignment byte by byte, so what is aligned says so.
template <std::size_t ALIGNMENT = 1>
PRIME_DEVICE std::uint64_t read_word(const std::byte* from) {
  std::uint64_t word = 0;
  std::memcpy(&word, __builtin_assume_aligned(from, ALIGNMENT), sizeof(word));
  return word;
}

PRIME_DEVICE inline std::uint64_t lane_start(std::size_t lane) {
  const std::uint64_t starts[DIGEST_LANES] = {XXH_32_3, XXH_64_1, XXH_64_2, XXH_64_3, XXH_64_4, XXH_32_2, XXH_64_5, XXH_32_1};
  return starts[lane];
}

/// One stripe: the lane's own word, keyed and folded, and its neighbour's word as it is.
template <std::size_t ALIGNMENT = 1>
PRIME_DEVICE std::uint64_t lane_step(std::uint64_t sum, const std::byte* stripe, const std::byte* secret, std::size_t lane) {
  const std::uint64_t keyed = read_word<ALIGNMENT>(stripe + 8 * lane) ^ read_word<ALIGNMENT>(secret + 8 * lane);
  return sum + read_word<ALIGNMENT>(stripe + 8 * (lane ^ 1)) + (keyed & 0xFFFFFFFFU) * (keyed >> 32);
}

PRIME_DEVICE inline std::uint64_t lane_scramble(std::uint64_t sum, const std::byte* secret, std::size_t lane) {
  return (sum ^ sum >> 47 ^ read_word(secret + DIGEST_SECRET_BYTES - STRIPE_BYTES + 8 * lane)) * XXH_32_1;
}

/// How many blocks of a chunk end with a scramble: the last one, whole or not, does not.
PRIME_DEVICE constexpr std::size_t scrambled_blocks(std::size_t bytes) { return (bytes - 1) / DIGEST_BLOCK_BYTES; }

/// What the stripes of a block add to a lane. A scramble needs the one before it; these sums need nothing, so many can be made at once.
template <std::size_t ALIGNMENT>
PRIME_DEVICE std::uint64_t lane_block(const std::byte* block, std::size_t stripes, const std::byte* secret, std::size_t lane) {
  std::uint64_t sum = 0;
  for (std::size_t stripe = 0; stripe < stripes; ++stripe)
    sum = lane_step<ALIGNMENT>(sum, block + stripe * STRIPE_BYTES, secret + 8 * stripe, lane);
  return sum;
}

/// How many whole stripes follow the scrambled blocks.
PRIME_DEVICE constexpr std::size_t rest_stripes(std::size_t bytes) { return (bytes - 1) % DIGEST_BLOCK_BYTES / STRIPE_BYTES; }

/// What the last stripe adds, which ends where the chunk does.
PRIME_DEVICE inline std::uint64_t lane_end(const std::byte* chunk, std::size_t bytes, const std::byte* secret, std::size_t lane) {
  return lane_step(0, chunk + bytes - STRIPE_BYTES, secret + DIGEST_SECRET_BYTES - STRIPE_BYTES - 7, lane);
}

/// `bytes` is more than DIGEST_LANES_MINIMUM; chunk and secret are aligned to ALIGNMENT, at most 8.
template <std::size_t ALIGNMENT>
PRIME_DEVICE std::uint64_t lane_sum(const std::byte* chunk, std::size_t bytes, const std::byte* secret, std::size_t lane) {
  std::uint64_t sum = lane_start(lane);
  for (std::size_t block = 0; block < scrambled_blocks(bytes); ++block)
    sum = lane_scramble(sum + lane_block<ALIGNMENT>(chunk + block * DIGEST_BLOCK_BYTES, STRIPES_OF_BLOCK, secret, lane), secret, lane);
  const std::byte* rest = chunk + scrambled_blocks(bytes) * DIGEST_BLOCK_BYTES;
  return sum + lane_block<ALIGNMENT>(rest, rest_stripes(bytes), secret, lane) + lane_end(chunk, bytes, secret, lane);
}

/// The two halves of the 128-bit product, folded.
PRIME_DEVICE inline std::uint64_t folded_product(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t low_low = (a & 0xFFFFFFFFU) * (b & 0xFFFFFFFFU);
  const std::uint64_t high_low = (a >> 32) * (b & 0xFFFFFFFFU);
  const std::uint64_t low_high = (a & 0xFFFFFFFFU) * (b >> 32);
  const std::uint64_t cross = (low_low >> 32) + (high_low & 0xFFFFFFFFU) + low_high;
  return ((high_low >> 32) + (cross >> 32) + (a >> 32) * (b >> 32)) ^ (cross << 32 | (low_low & 0xFFFFFFFFU));
}

PRIME_DEVICE inline std::uint64_t merged_lanes(const std::uint64_t* sums, const std::byte* secret, std::uint64_t start) {
  std::uint64_t result = start;
  for (std::size_t lane = 0; lane < DIGEST_LANES; lane += 2)
    result += folded_product(sums[lane] ^ read_word(secret + 8 * lane), sums[lane + 1] ^ read_word(secret + 8 * lane + 8));
  result = (result ^ result >> 37) * 0x165667919E3779F9U;
  return result ^ result >> 32;
}

PRIME_DEVICE inline std::uint64_t digest_low(const std::uint64_t* sums, std::size_t bytes, const std::byte* secret) {
  return merged_lanes(sums, secret + 11, bytes * XXH_64_1);
}
PRIME_DEVICE inline std::uint64_t digest_high(const std::uint64_t* sums, std::size_t bytes, const std::byte* secret) {
  return merged_lanes(sums, secret + DIGEST_SECRET_BYTES - STRIPE_BYTES - 11, ~(bytes * XXH_64_2));
}

}  // namespace prime::kernels
