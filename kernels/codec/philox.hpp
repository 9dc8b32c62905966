// Owns the counter-based random generator of stochastic rounding: Philox-4x32-7 (Salmon, Moraes, Dror, Shaw, SC'11). Seven rounds are
// the fewest that pass BigCrush; ten, the authors' default, would cost a third more and buy nothing for rounding.
#pragma once

#include <cstdint>

#include "kernels/host_device.hpp"

namespace prime::kernels {

struct PhiloxWords {
  std::uint32_t word[4];
};

inline constexpr std::uint32_t PHILOX_MULTIPLIER_0 = 0xD2511F53U;
inline constexpr std::uint32_t PHILOX_MULTIPLIER_1 = 0xCD9E8D57U;
inline constexpr std::uint32_t PHILOX_WEYL_0 = 0x9E3779B9U;
inline constexpr std::uint32_t PHILOX_WEYL_1 = 0xBB67AE85U;
inline constexpr int PHILOX_ROUNDS = 7;

PRIME_DEVICE inline PhiloxWords philox(PhiloxWords counter, std::uint32_t key_0, std::uint32_t key_1) {
  for (int round = 0; round < PHILOX_ROUNDS; ++round) {
    const std::uint64_t product_0 = std::uint64_t{PHILOX_MULTIPLIER_0} * counter.word[0];
    const std::uint64_t product_1 = std::uint64_t{PHILOX_MULTIPLIER_1} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(product_1 >> 32) ^ counter.word[1] ^ key_0, static_cast<std::uint32_t>(product_1),
                static_cast<std::uint32_t>(product_0 >> 32) ^ counter.word[3] ^ key_1, static_cast<std::uint32_t>(product_0)}};
    key_0 += PHILOX_WEYL_0;
    key_1 += PHILOX_WEYL_1;
  }
  return counter;
}

/// 256 successive values share 16 counters: value 64·row + 16·window + lane takes 16 bits of word `row` of counter `lane`, those from
/// bit 8·window on, around its end. So each byte is the high one of one value and the low one of another: every value has 16 even bits
/// at the price of 8, and what two of them share decides a rounding once in 256 times. A vector of up to 16 lanes meets the words of
/// neighbouring counters and never has to shuffle them.
inline constexpr std::uint64_t RANDOM_LANES = 16;
inline constexpr std::uint64_t RANDOM_WINDOWS = 4;
inline constexpr std::uint64_t RANDOM_GROUP = 4 * RANDOM_WINDOWS * RANDOM_LANES;

/// The words of one counter: the seed is the key, the version the high half of the counter.
PRIME_DEVICE inline PhiloxWords random_words(std::uint64_t seed, std::uint64_t version, std::uint64_t counter) {
  return philox({{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), static_cast<std::uint32_t>(version),
                  static_cast<std::uint32_t>(version >> 32)}},
                static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

/// 16 random bits of the value at `index`.
PRIME_DEVICE inline std::uint32_t random_bits(std::uint64_t seed, std::uint64_t version, std::uint64_t index) {
  const PhiloxWords words = random_words(seed, version, index / RANDOM_GROUP * RANDOM_LANES + index % RANDOM_LANES);
  const std::uint64_t word = words.word[index % RANDOM_GROUP / (RANDOM_WINDOWS * RANDOM_LANES)];
  return (word | word << 32) >> (8 * (index / RANDOM_LANES % RANDOM_WINDOWS)) & 0xFFFFU;
}

}  // namespace prime::kernels
