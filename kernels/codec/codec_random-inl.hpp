// Owns the vectors that draw random bits, and the lanes that all encoding works on. Included once for each instruction set, hence no
// #pragma once.
#if defined(PRIME_CODEC_RANDOM_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PRIME_CODEC_RANDOM_INL
#undef PRIME_CODEC_RANDOM_INL
#else
#define PRIME_CODEC_RANDOM_INL
#endif

#include <hwy/highway.h>

#include "kernels/codec/codec_vector.hpp"

HWY_BEFORE_NAMESPACE();
namespace prime::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Of 32 values, a block of Int4.
constexpr std::size_t ROW = 32;
constexpr std::size_t ROWS = GROUP_VALUES / ROW;
constexpr std::size_t RANDOM_ROWS = 4;
static_assert(GROUP_VALUES == RANDOM_GROUP);

using Floats = hn::CappedTag<float, RANDOM_LANES>;
using Words = hn::Rebind<std::uint32_t, Floats>;
using Integers = hn::Rebind<std::int32_t, Floats>;
using Pairs = hn::Repartition<std::uint64_t, Words>;
using FloatVector = hn::Vec<Floats>;
using WordVector = hn::Vec<Words>;
using PairVector = hn::Vec<Pairs>;

HWY_INLINE WordVector words_of(FloatVector values) { return hn::BitCast(Words(), values); }
HWY_INLINE FloatVector floats_of(WordVector words) { return hn::BitCast(Floats(), words); }
HWY_INLINE WordVector word(std::uint32_t value) { return hn::Set(Words(), value); }
HWY_INLINE FloatVector number(float value) { return hn::Set(Floats(), value); }

HWY_INLINE PairVector product(PairVector a, PairVector b) { return hn::MulEven(hn::BitCast(Words(), a), hn::BitCast(Words(), b)); }

// The four words of a Philox counter, each in the low halves of 64-bit lanes: the multiplication reads nothing else, so what stands
// above may stay.
struct Counters {
  PairVector word[4];
};

HWY_INLINE void philox_round(Counters& counters, PairVector key_0, PairVector key_1) {
  const auto product_0 = product(counters.word[0], hn::Set(Pairs(), std::uint64_t{PHILOX_MULTIPLIER_0}));
  const auto product_1 = product(counters.word[2], hn::Set(Pairs(), std::uint64_t{PHILOX_MULTIPLIER_1}));
  counters = {{hn::Xor3(hn::ShiftRight<32>(product_1), counters.word[1], key_0), product_1,
               hn::Xor3(hn::ShiftRight<32>(product_0), counters.word[3], key_1), product_0}};
}

HWY_INLINE WordVector interleave(PairVector even, PairVector odd) {
  return hn::OddEven(hn::BitCast(Words(), hn::ShiftLeft<32>(odd)), hn::BitCast(Words(), even));
}

// What all counters of an encoding share, made once.
struct RandomKeys {
  std::uint64_t key_0[PHILOX_ROUNDS];
  std::uint64_t key_1[PHILOX_ROUNDS];
  std::uint64_t version;
};

inline RandomKeys random_keys(const Encoding& encoding) {
  RandomKeys keys{{}, {}, encoding.version};
  auto key_0 = static_cast<std::uint32_t>(encoding.seed);
  auto key_1 = static_cast<std::uint32_t>(encoding.seed >> 32);
  for (int round = 0; round < PHILOX_ROUNDS; ++round, key_0 += PHILOX_WEYL_0, key_1 += PHILOX_WEYL_1)
    keys.key_0[round] = key_0, keys.key_1[round] = key_1;
  return keys;
}

// The words of a group: four rows of RANDOM_LANES. Even and odd counters are a chain of rounds each.
HWY_INLINE void fill_words(const RandomKeys& keys, std::uint64_t index, std::uint32_t* HWY_RESTRICT words) {
  const Pairs pairs;
  const std::size_t lanes = hn::Lanes(Words());
  const std::uint64_t counter = index / RANDOM_GROUP * RANDOM_LANES;
  const auto even_lanes = hn::Add(hn::Iota(pairs, 0), hn::Iota(pairs, 0));
  const auto versions = hn::Set(pairs, keys.version);
  const Counters start{{even_lanes, hn::Set(pairs, counter >> 32), versions, hn::ShiftRight<32>(versions)}};
  for (std::size_t lane = 0; lane < RANDOM_LANES; lane += lanes) {
    Counters even = start;
    Counters odd = start;
    even.word[0] = hn::Add(even_lanes, hn::Set(pairs, (counter & 0xFFFFFFFFU) + lane));
    odd.word[0] = hn::Add(even_lanes, hn::Set(pairs, (counter & 0xFFFFFFFFU) + lane + 1));
    for (int round = 0; round < PHILOX_ROUNDS; ++round)
      for (auto* chain : {&even, &odd}) philox_round(*chain, hn::Set(pairs, keys.key_0[round]), hn::Set(pairs, keys.key_1[round]));
    for (std::size_t row = 0; row < RANDOM_ROWS; ++row)
      hn::Store(interleave(even.word[row], odd.word[row]), Words(), words + row * RANDOM_LANES + lane);
  }
}

// The words that a vector of values takes its random bits from, and where in its group it lies.
struct Random {
  WordVector words;
  std::size_t at;
};

// To the left where RIGHT is less than zero.
template <int RIGHT>
HWY_INLINE WordVector moved(WordVector words) {
  if constexpr (RIGHT >= 0) return hn::ShiftRight<RIGHT>(words);
  else return hn::ShiftLeft<-RIGHT>(words);
}

// Moves the upper COUNT of the 16 bits of WINDOW to bit TO of each word; others stay around them. A rotation only where they run around
// the end: before AVX-512 it takes three instructions.
template <int WINDOW, int COUNT, int TO>
HWY_INLINE WordVector moved_window(WordVector words) {
  constexpr int RIGHT = 8 * WINDOW + 16 - COUNT - TO;
  if constexpr (WINDOW == 3) return hn::RotateRight<RIGHT>(words);
  else return moved<RIGHT>(words);
}

template <int COUNT, int TO>
HWY_INLINE WordVector noise_among_others(Random random) {
  switch (random.at / RANDOM_LANES % RANDOM_WINDOWS) {
    case 0: return moved_window<0, COUNT, TO>(random.words);
    case 1: return moved_window<1, COUNT, TO>(random.words);
    case 2: return moved_window<2, COUNT, TO>(random.words);
    default: return moved_window<3, COUNT, TO>(random.words);
  }
}

// Each value's upper COUNT of its 16 bits.
template <int COUNT>
HWY_INLINE WordVector noise(Random random) {
  const auto bits = noise_among_others<COUNT, 0>(random);
  const bool alone = random.at / RANDOM_LANES % RANDOM_WINDOWS == 2;  // shifted right out of the upper half
  return alone ? bits : hn::And(bits, word((1U << COUNT) - 1U));
}

}  // namespace prime::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PRIME_CODEC_RANDOM_INL
