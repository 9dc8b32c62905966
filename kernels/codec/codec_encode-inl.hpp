// Owns the vectors that encode. Included once for each instruction set, hence no #pragma once.
#if defined(PRIME_CODEC_ENCODE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PRIME_CODEC_ENCODE_INL
#undef PRIME_CODEC_ENCODE_INL
#else
#define PRIME_CODEC_ENCODE_INL
#endif

#include <cstring>
#include <hwy/highway.h>

#include "kernels/codec/codec_reference.hpp"
#include "kernels/codec/codec_vector.hpp"

HWY_BEFORE_NAMESPACE();
namespace prime::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 32 values share the words of one row (philox.hpp) and are one block of Int4.
constexpr std::size_t ROW = 2 * RANDOM_LANES;
constexpr std::size_t ROWS = GROUP_VALUES / ROW;
constexpr std::size_t ROWS_OF_WORDS = 4;
constexpr std::size_t INT4_GROUP_BYTES = ROWS * block_bytes(block_layout(Codec::Int4Block), ROW);

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

// The words of a group of 256 values: eight rows of RANDOM_LANES. Four chains of rounds at a time hide each other's latency.
HWY_INLINE void fill_words(const Encoding& encoding, std::uint64_t index, std::uint32_t* HWY_RESTRICT words) {
  const Pairs pairs;
  const std::size_t lanes = hn::Lanes(Words());
  const std::uint64_t counter = index / RANDOM_GROUP * RANDOM_LANES;
  const auto even_lanes = hn::Add(hn::Iota(pairs, 0), hn::Iota(pairs, 0));
  const auto versions = hn::Set(pairs, encoding.version);
  const Counters start{{even_lanes, hn::Set(pairs, counter >> 32), versions, hn::ShiftRight<32>(versions)}};
  for (std::size_t lane = 0; lane < RANDOM_LANES; lane += lanes) {
    Counters chains[4] = {start, start, start, start};  // even and odd counters of the first, then of the second half
    for (std::size_t chain = 0; chain < 4; ++chain)
      chains[chain].word[0] = hn::Add(even_lanes, hn::Set(pairs, (counter & 0xFFFFFFFFU) + lane + chain / 2 * RANDOM_LANES + chain % 2));
    auto key_0 = static_cast<std::uint32_t>(encoding.seed);
    auto key_1 = static_cast<std::uint32_t>(encoding.seed >> 32);
    for (int round = 0; round < PHILOX_ROUNDS; ++round, key_0 += PHILOX_WEYL_0, key_1 += PHILOX_WEYL_1)
      for (auto& chain : chains) philox_round(chain, hn::Set(pairs, std::uint64_t{key_0}), hn::Set(pairs, std::uint64_t{key_1}));
    for (std::size_t row = 0; row < ROWS; ++row) {
      const std::size_t half = row / ROWS_OF_WORDS;
      const auto even = chains[2 * half].word[row % ROWS_OF_WORDS];
      const auto odd = chains[2 * half + 1].word[row % ROWS_OF_WORDS];
      hn::Store(interleave(even, odd), Words(), words + row * RANDOM_LANES + lane);
    }
  }
}

// What the lanes of a block share.
struct LaneScale {
  FloatVector inverse;
  FloatVector middle;
  FloatVector centre;  // what is added after the scaling
};

// Powers of two move into the inverse at no loss.
template <Codec CODEC, Rounding ROUNDING>
HWY_INLINE LaneScale lane_scale(const BlockScale& scale) {
  constexpr bool NOISY = ROUNDING == Rounding::Stochastic && CODEC != Codec::E3M0;
  const float centre = CODEC == Codec::Int8MinMax ? HALF_OF_255 : scale.zero;
  return {number(NOISY ? scale.inverse * NOISE_UNITS : scale.inverse), number(scale.middle),
          number(NOISY ? (scale.zero - 128.0F) * NOISE_UNITS : centre)};
}

// Random bits come in the upper half of each word.
template <Codec CODEC>
HWY_INLINE WordVector noisy_codes(const LaneScale& scale, FloatVector values, WordVector random) {
  if constexpr (CODEC == Codec::Int8MinMax) values = hn::Sub(values, scale.middle);
  auto units = hn::Mul(values, scale.inverse);
  float rounder = ROUNDER;
  if constexpr (CODEC == Codec::Int8MinMax) {
    units = hn::Max(hn::Min(units, number(HALF_OF_255 * NOISE_UNITS)), number(-HALF_OF_255 * NOISE_UNITS));
    rounder = ROUNDER - 0.5F * NOISE_UNITS;
  }
  if constexpr (CODEC == Codec::Int8ZeroPoint) units = hn::Min(hn::Add(units, scale.centre), number(127.0F * NOISE_UNITS));
  const auto sum = hn::Add(words_of(hn::Add(units, number(rounder))), hn::ShiftRight<17>(random));
  const auto codes = hn::ShiftRight<NOISE_BITS>(sum);
  static_assert((ROUNDER_BITS >> NOISE_BITS & 0xFFU) == 128);  // just what the affine codes want, and the others not
  return CODEC == Codec::Int8Block ? hn::Xor(codes, word(128)) : codes;
}

// An ordinary value never lies past the last level, so nothing is clamped here.
template <Codec CODEC>
HWY_INLINE WordVector nearest_codes(const LaneScale& scale, FloatVector values) {
  if constexpr (CODEC == Codec::Int8MinMax) values = hn::Sub(values, scale.middle);
  auto steps = hn::Mul(values, scale.inverse);
  if constexpr (is_affine(CODEC)) steps = hn::Add(steps, scale.centre);
  return words_of(hn::Add(steps, number(ROUNDER)));  // the code is the low byte: ROUNDER's own is 0
}

template <Codec CODEC, Rounding ROUNDING>
HWY_INLINE WordVector linear_codes(const LaneScale& scale, FloatVector values, WordVector random) {
  if constexpr (ROUNDING == Rounding::Stochastic) return noisy_codes<CODEC>(scale, values, random);
  else return nearest_codes<CODEC>(scale, values);
}

template <Rounding ROUNDING>
HWY_INLINE WordVector e3m0_codes(const LaneScale& scale, FloatVector values, WordVector random) {
  const auto ratio = hn::Mul(hn::Abs(values), scale.inverse);
  auto bits = words_of(ratio);
  if constexpr (ROUNDING == Rounding::Stochastic) {
    const auto below = hn::Sub(words_of(hn::Add(ratio, number(E3M0_LEAST))), word(1U << 23));
    bits = hn::IfThenElse(hn::RebindMask(Words(), hn::Lt(ratio, number(E3M0_LEAST))), below, bits);
    bits = hn::Add(bits, hn::Or(hn::And(hn::ShiftRight<9>(random), word(0x7FFF80U)), word(0x40U)));
  } else {
    bits = hn::Max(bits, word(E3M0_EXPONENT << 23));
  }
  const auto level = hn::Sub(hn::ShiftRight<23>(bits), word(E3M0_EXPONENT));
  return hn::Or(level, hn::And(hn::ShiftRight<28>(words_of(values)), word(8)));
}

template <Rounding ROUNDING>
HWY_INLINE WordVector f16_codes(FloatVector values, WordVector random) {
  const auto bits = words_of(values);
  const auto magnitude = hn::AndNot(word(SIGN_BIT), bits);
  const auto sign = hn::ShiftRight<16>(hn::And(bits, word(SIGN_BIT)));
  WordVector small;
  WordVector normal;
  if constexpr (ROUNDING == Rounding::Stochastic) {
    const auto noise = hn::ShiftRight<19>(random);
    const auto dither = hn::Sub(floats_of(hn::Or(hn::ShiftLeft<10>(noise), word(0x3F800200U))), number(1.5F));
    const auto in_units = hn::Mul(floats_of(magnitude), number(16777216.0F));
    small = hn::Sub(words_of(hn::Add(hn::Add(in_units, dither), number(ROUNDER))), word(ROUNDER_BITS));
    normal = hn::ShiftRight<13>(hn::Add(hn::Sub(magnitude, word(F16_EXPONENT_SHIFT)), noise));
    normal = hn::Min(normal, word(0x7BFFU));
  } else {
    small = hn::Sub(words_of(hn::Add(floats_of(magnitude), number(0.5F))), word(0x3F000000U));
    const auto half = hn::Add(hn::And(hn::ShiftRight<13>(magnitude), word(1)), word(0xFFFU - F16_EXPONENT_SHIFT));
    normal = hn::ShiftRight<13>(hn::Add(magnitude, half));
  }
  return hn::Or(sign, hn::IfThenElse(hn::Lt(magnitude, word(F16_NORMAL_BITS)), small, normal));
}

template <Rounding ROUNDING>
HWY_INLINE WordVector bf16_codes(FloatVector values, WordVector random) {
  const auto bits = words_of(values);
  if constexpr (ROUNDING == Rounding::Stochastic) {
    const auto sign = hn::ShiftRight<16>(hn::And(bits, word(SIGN_BIT)));
    const auto sum = hn::Add(hn::AndNot(word(SIGN_BIT), bits), hn::ShiftRight<16>(random));
    return hn::Or(sign, hn::Min(hn::ShiftRight<16>(sum), word(0x7F7FU)));
  }
  const auto half = hn::Add(hn::And(hn::ShiftRight<16>(bits), word(1)), word(0x7FFFU));
  return hn::ShiftRight<16>(hn::Add(bits, half));
}

template <Codec CODEC, Rounding ROUNDING>
HWY_INLINE void store_codes(const LaneScale& scale, FloatVector values, WordVector random, std::size_t position, std::uint8_t* out) {
  if constexpr (CODEC == Codec::F16 || CODEC == Codec::BF16) {
    const auto codes = CODEC == Codec::F16 ? f16_codes<ROUNDING>(values, random) : bf16_codes<ROUNDING>(values, random);
    const hn::Rebind<std::uint16_t, Words> halves;
    hn::StoreU(hn::TruncateTo(halves, codes), halves, reinterpret_cast<std::uint16_t*>(out + 2 * position));
  } else if constexpr (CODEC == Codec::E3M0 || CODEC == Codec::Int4Block) {
    WordVector codes;
    if constexpr (CODEC == Codec::E3M0) codes = e3m0_codes<ROUNDING>(scale, values, random);
    else codes = hn::And(linear_codes<CODEC, ROUNDING>(scale, values, random), word(0xFU));
    const auto pairs = hn::BitCast(Pairs(), codes);
    const hn::Rebind<std::uint8_t, Pairs> bytes;
    hn::StoreU(hn::TruncateTo(bytes, hn::Or(pairs, hn::ShiftRight<28>(pairs))), bytes, out + position / 2);
  } else {
    const hn::Rebind<std::uint8_t, Words> bytes;
    hn::StoreU(hn::TruncateTo(bytes, linear_codes<CODEC, ROUNDING>(scale, values, random)), bytes, out + position);
  }
}

struct LaneRange {
  FloatVector minimum;
  FloatVector maximum;
  hn::Vec<Integers> magnitude;
};

template <Codec CODEC>
HWY_INLINE void widen(LaneRange& range, FloatVector values) {
  range.magnitude = hn::Max(range.magnitude, hn::BitCast(Integers(), hn::Abs(values)));
  if constexpr (is_affine(CODEC)) {
    range.minimum = hn::Min(range.minimum, values);
    range.maximum = hn::Max(range.maximum, values);
  }
}

// Two ranges grow side by side, since each waits for its last comparison.
template <Codec CODEC>
HWY_INLINE BlockRange range_of(const float* HWY_RESTRICT values) {
  const std::size_t lanes = hn::Lanes(Floats());
  const auto first = hn::LoadU(Floats(), values);
  LaneRange range{first, first, hn::Zero(Integers())};
  LaneRange other = range;
  for (std::size_t i = 0; i < GROUP_VALUES; i += 2 * lanes) {
    widen<CODEC>(range, hn::LoadU(Floats(), values + i));
    widen<CODEC>(other, hn::LoadU(Floats(), values + i + lanes));
  }
  const auto magnitude = hn::MaxOfLanes(Integers(), hn::Max(range.magnitude, other.magnitude));
  const auto bits = static_cast<std::uint32_t>(hn::GetLane(magnitude));
  if constexpr (!is_affine(CODEC)) return {0, 0, bits};
  const auto minimum = hn::MinOfLanes(Floats(), hn::Min(range.minimum, other.minimum));
  const auto maximum = hn::MaxOfLanes(Floats(), hn::Max(range.maximum, other.maximum));
  return {hn::GetLane(minimum), hn::GetLane(maximum), bits};
}

// The greatest magnitudes of the eight blocks of Int4, four at a time: the lanes of four vectors are paired until each has one.
HWY_INLINE void row_magnitudes(const float* HWY_RESTRICT values, std::uint32_t* HWY_RESTRICT magnitudes) {
  const Integers integers;
  const hn::CappedTag<std::int32_t, 4> four;
  const std::size_t lanes = hn::Lanes(integers);
  HWY_ALIGN std::int32_t parts[RANDOM_LANES];
  const auto of_row = [&](std::size_t row) HWY_ATTR {
    auto greatest = hn::Zero(integers);
    for (std::size_t i = 0; i < ROW; i += lanes) greatest = hn::Max(greatest, hn::BitCast(integers, hn::Abs(hn::LoadU(Floats(), values + row * ROW + i))));
    return greatest;
  };
  const auto paired = [&](auto a, auto b) HWY_ATTR { return hn::Max(hn::InterleaveLower(integers, a, b), hn::InterleaveUpper(integers, a, b)); };
  for (std::size_t row = 0; row < ROWS; row += 4) {
    const auto ab = hn::BitCast(Pairs(), paired(of_row(row), of_row(row + 1)));
    const auto cd = hn::BitCast(Pairs(), paired(of_row(row + 2), of_row(row + 3)));
    const auto lower = hn::BitCast(integers, hn::InterleaveLower(Pairs(), ab, cd));
    const auto upper = hn::BitCast(integers, hn::InterleaveUpper(Pairs(), ab, cd));
    hn::Store(hn::Max(lower, upper), integers, parts);
    auto greatest = hn::Load(four, parts);
    for (std::size_t i = 4; i < lanes; i += 4) greatest = hn::Max(greatest, hn::Load(four, parts + i));
    hn::Store(greatest, four, reinterpret_cast<std::int32_t*>(magnitudes + row));
  }
}

// Steps and inverses of the eight blocks of Int4, as ordinary_scale has them; false where a block is extreme or refused.
HWY_INLINE bool row_scales(const float* HWY_RESTRICT values, float* HWY_RESTRICT steps, float* HWY_RESTRICT inverses) {
  HWY_ALIGN std::uint32_t magnitudes[ROWS];
  row_magnitudes(values, magnitudes);
  std::uint32_t extremes = 0;
  for (const auto magnitude : magnitudes) extremes |= static_cast<std::uint32_t>(is_extreme(magnitude));
  const hn::CappedTag<float, ROWS> floats;
  for (std::size_t row = 0; row < ROWS; row += hn::Lanes(floats)) {
    const auto magnitude = hn::Load(floats, reinterpret_cast<const float*>(magnitudes + row));
    const auto levels = hn::Set(floats, 7.0F);
    hn::Store(hn::Div(magnitude, levels), floats, steps + row);
    hn::Store(hn::IfThenZeroElse(hn::Eq(magnitude, hn::Zero(floats)), hn::Div(levels, magnitude)), floats, inverses + row);
  }
  return extremes == 0;
}

template <Codec CODEC, Rounding ROUNDING>
HWY_INLINE void store_row(const LaneScale& scale, const float* HWY_RESTRICT values, const std::uint32_t* HWY_RESTRICT words, std::size_t position,
                          std::byte* HWY_RESTRICT out) {
  auto* codes = reinterpret_cast<std::uint8_t*>(out);
  for (std::size_t lane = 0; lane < RANDOM_LANES; lane += hn::Lanes(Floats())) {
    auto random = hn::Zero(Words());
    if constexpr (ROUNDING == Rounding::Stochastic) random = hn::Load(Words(), words + lane);
    store_codes<CODEC, ROUNDING>(scale, hn::LoadU(Floats(), values + lane), hn::ShiftLeft<16>(random), position + lane, codes);
    const std::size_t high = lane + RANDOM_LANES;
    store_codes<CODEC, ROUNDING>(scale, hn::LoadU(Floats(), values + high), random, position + high, codes);
  }
}

// Eight blocks whose scales are computed side by side.
template <Rounding ROUNDING>
HWY_NOINLINE bool encode_int4_group(const Encoding& encoding, const float* HWY_RESTRICT values, std::uint64_t index, std::byte* HWY_RESTRICT out) {
  HWY_ALIGN float steps[ROWS];
  HWY_ALIGN float inverses[ROWS];
  if (!row_scales(values, steps, inverses)) return !encode_reference(at_index(encoding, index), {values, GROUP_VALUES}, {out, INT4_GROUP_BYTES});
  HWY_ALIGN std::uint32_t words[GROUP_VALUES / 2];
  if constexpr (ROUNDING == Rounding::Stochastic) fill_words(encoding, index, words);
  for (std::size_t row = 0; row < ROWS; ++row, out += INT4_GROUP_BYTES / ROWS) {
    std::memcpy(out, &steps[row], sizeof(float));
    BlockScale scale;
    scale.inverse = inverses[row];
    const auto shared = lane_scale<Codec::Int4Block, ROUNDING>(scale);
    store_row<Codec::Int4Block, ROUNDING>(shared, values + row * ROW, words + row * RANDOM_LANES, 0, out + sizeof(float));
  }
  return true;
}

// One block, or sixteen bits for each value.
template <Codec CODEC, Rounding ROUNDING>
HWY_NOINLINE bool encode_one_group(const Encoding& encoding, const float* HWY_RESTRICT values, std::uint64_t index, std::byte* HWY_RESTRICT out) {
  constexpr auto LAYOUT = block_layout(CODEC);
  static_assert(LAYOUT.values == GROUP_VALUES);
  const auto range = range_of<CODEC>(values);
  if (range.magnitude >= refused_bits(CODEC)) return false;
  if (LAYOUT.head_bytes > 0 && is_extreme(range.magnitude)) return !encode_block_reference(encoding, {values, GROUP_VALUES}, index, out);
  HWY_ALIGN std::uint32_t words[GROUP_VALUES / 2];
  if constexpr (ROUNDING == Rounding::Stochastic) fill_words(encoding, index, words);
  const auto scale = ordinary_scale(CODEC, ROUNDING, range);
  store_head(CODEC, scale, out);
  const auto shared = lane_scale<CODEC, ROUNDING>(scale);
  for (std::size_t row = 0; row < ROWS; ++row)
    store_row<CODEC, ROUNDING>(shared, values + row * ROW, words + row * RANDOM_LANES, row * ROW, out + LAYOUT.head_bytes);
  return true;
}

template <Rounding ROUNDING>
EncodeGroup encode_group_of(Codec codec) {
  switch (codec) {
    case Codec::None: break;
    case Codec::F16: return &encode_one_group<Codec::F16, ROUNDING>;
    case Codec::BF16: return &encode_one_group<Codec::BF16, ROUNDING>;
    case Codec::Int8MinMax: return &encode_one_group<Codec::Int8MinMax, ROUNDING>;
    case Codec::Int8ZeroPoint: return &encode_one_group<Codec::Int8ZeroPoint, ROUNDING>;
    case Codec::Int8Block: return &encode_one_group<Codec::Int8Block, ROUNDING>;
    case Codec::Int4Block: return &encode_int4_group<ROUNDING>;
    case Codec::E3M0: return &encode_one_group<Codec::E3M0, ROUNDING>;
  }
  return nullptr;
}

EncodeGroup encode_group_here(Codec codec, Rounding rounding) {
  return rounding == Rounding::Stochastic ? encode_group_of<Rounding::Stochastic>(codec) : encode_group_of<Rounding::Nearest>(codec);
}

}  // namespace prime::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PRIME_CODEC_ENCODE_INL
