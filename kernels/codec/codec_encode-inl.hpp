// Owns the vectors that encode. Included once for each instruction set, hence no #pragma once.
#if defined(PRIME_CODEC_ENCODE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PRIME_CODEC_ENCODE_INL
#undef PRIME_CODEC_ENCODE_INL
#else
#define PRIME_CODEC_ENCODE_INL
#endif

#include <algorithm>
#include <bit>
#include <cstring>
#include <hwy/highway.h>

#include "kernels/codec/codec_random-inl.hpp"
#include "kernels/codec/codec_reference.hpp"

HWY_BEFORE_NAMESPACE();
namespace prime::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t INT4_BLOCK_BYTES = block_bytes(block_layout(Codec::Int4Block), ROW);
constexpr std::size_t INT4_GROUP_BYTES = ROWS * INT4_BLOCK_BYTES;

// What the lanes of a block share.
struct LaneScale {
  FloatVector inverse;
  FloatVector middle;
  FloatVector centre;  // what is added after the scaling
};

// A power of two that moves into the inverse at no loss: that stays normal (ORDINARY_TO).
template <Codec CODEC, Rounding ROUNDING>
constexpr float UNITS = ROUNDING == Rounding::Nearest ? 1.0F
                        : CODEC == Codec::E3M0        ? 0.5F
                                                      : NOISE_UNITS;

template <Codec CODEC, Rounding ROUNDING>
HWY_INLINE LaneScale lane_scale(const BlockScale& scale) {
  const float centre = CODEC == Codec::Int8MinMax ? HALF_OF_255 : scale.zero;
  return {number(scale.inverse * UNITS<CODEC, ROUNDING>), number(scale.middle),
          number(ROUNDING == Rounding::Stochastic ? (scale.zero - 128.0F) * NOISE_UNITS : centre)};
}

// All that follow leave a code in byte PLACE of its word, and of other bytes nothing that counts.

// A min-max block needs no clamp here: no value is further from the middle than half the range, and the two roundings of the scaling add
// at most a quarter of a unit to its 127.5 steps. That is rounded off: above by a unit of 1, below (less than 2^23) as a tie to even.
template <Codec CODEC, int PLACE>
HWY_INLINE WordVector noisy_codes(const LaneScale& scale, FloatVector values, Random random) {
  if constexpr (CODEC == Codec::Int8MinMax) values = hn::Sub(values, scale.middle);
  auto units = hn::Mul(values, scale.inverse);
  if constexpr (CODEC == Codec::Int8ZeroPoint) units = hn::Min(hn::Add(units, scale.centre), number(127.0F * NOISE_UNITS));
  constexpr float MIDDLE = CODEC == Codec::Int8MinMax ? 0.5F * NOISE_UNITS : 0.0F;
  const auto sum = hn::Add(words_of(hn::Add(units, number(ROUNDER - MIDDLE))), noise<NOISE_BITS>(random));
  static_assert((ROUNDER_BITS >> NOISE_BITS & 0xFFU) == 128);  // just what the affine codes want; Int8 takes it away in encode_quad
  return moved<NOISE_BITS - 8 * PLACE>(sum);
}

// An ordinary value never lies past the last level, so nothing is clamped here.
template <Codec CODEC, int PLACE>
HWY_INLINE WordVector nearest_codes(const LaneScale& scale, FloatVector values) {
  if constexpr (CODEC == Codec::Int8MinMax) values = hn::Sub(values, scale.middle);
  auto steps = hn::Mul(values, scale.inverse);
  if constexpr (is_affine(CODEC)) steps = hn::Add(steps, scale.centre);
  return moved<-8 * PLACE>(words_of(hn::Add(steps, number(ROUNDER))));  // the code is the low byte: ROUNDER's own is 0
}

template <Codec CODEC, Rounding ROUNDING, int PLACE>
HWY_INLINE WordVector linear_codes(const LaneScale& scale, FloatVector values, Random random) {
  if constexpr (ROUNDING == Rounding::Stochastic) return noisy_codes<CODEC, PLACE>(scale, values, random);
  else return nearest_codes<CODEC, PLACE>(scale, values);
}

template <Rounding ROUNDING, int PLACE>
HWY_INLINE WordVector e3m0_codes(const LaneScale& scale, FloatVector values, Random random) {
  const auto ratio = hn::Mul(hn::Abs(values), scale.inverse);
  const auto sign = moved<28 - 8 * PLACE>(words_of(values));
  const auto sign_bit = word(8U << (8 * PLACE));
  // The level is the low bits of an exponent whose next bit is set, where the sign belongs.
  static_assert(E3M0_EXPONENT % 16 == 8);
  if constexpr (ROUNDING == Rounding::Stochastic) {
    // Here `ratio` is half of it. Below the least level the sum is half of (ratio + least), else the ratio.
    const auto sum = words_of(hn::Add(hn::Max(ratio, number(E3M0_LEAST / 2)), ratio));
    constexpr std::uint32_t CLEARS = 0U - (8U << 23);
    const auto bits = hn::Add(sum, hn::OrAnd(word(CLEARS | 0x40U), noise_among_others<16, 7>(random), word(0x7FFF80U)));
    return hn::OrAnd(moved<23 - 8 * PLACE>(bits), sign, sign_bit);
  } else {
    const auto bits = hn::Max(words_of(ratio), word(E3M0_EXPONENT << 23));
    return hn::Xor(moved<23 - 8 * PLACE>(bits), hn::AndNot(sign, sign_bit));
  }
}

template <Rounding ROUNDING>
HWY_INLINE WordVector f16_codes(FloatVector values, Random random) {
  const auto bits = words_of(values);
  const auto magnitude = hn::AndNot(word(SIGN_BIT), bits);
  const auto sign = hn::ShiftRight<16>(hn::And(bits, word(SIGN_BIT)));
  WordVector small;
  WordVector normal;
  if constexpr (ROUNDING == Rounding::Stochastic) {
    const auto lost = noise<13>(random);
    const auto dither = hn::Sub(floats_of(hn::Or(hn::ShiftLeft<10>(lost), word(0x3F800200U))), number(1.5F));
    const auto in_units = hn::Mul(floats_of(magnitude), number(16777216.0F));
    small = hn::Sub(words_of(hn::Add(hn::Add(in_units, dither), number(ROUNDER))), word(ROUNDER_BITS));
    normal = hn::ShiftRight<13>(hn::Add(hn::Sub(magnitude, word(F16_EXPONENT_SHIFT)), lost));
    normal = hn::Min(normal, word(0x7BFFU));
  } else {
    small = hn::Sub(words_of(hn::Add(floats_of(magnitude), number(0.5F))), word(0x3F000000U));
    const auto half = hn::Add(hn::And(hn::ShiftRight<13>(magnitude), word(1)), word(0xFFFU - F16_EXPONENT_SHIFT));
    normal = hn::ShiftRight<13>(hn::Add(magnitude, half));
  }
  return hn::Or(sign, hn::IfThenElse(hn::Lt(magnitude, word(F16_NORMAL_BITS)), small, normal));
}

template <Rounding ROUNDING>
HWY_INLINE WordVector bf16_codes(FloatVector values, Random random) {
  const auto bits = words_of(values);
  if constexpr (ROUNDING == Rounding::Stochastic) {
    const auto sign = hn::ShiftRight<16>(hn::And(bits, word(SIGN_BIT)));
    const auto sum = hn::Add(hn::AndNot(word(SIGN_BIT), bits), noise<16>(random));
    return hn::Or(sign, hn::Min(hn::ShiftRight<16>(sum), word(0x7F7FU)));
  }
  const auto half = hn::Add(hn::And(hn::ShiftRight<16>(bits), word(1)), word(0x7FFFU));
  return hn::ShiftRight<16>(hn::Add(bits, half));
}

template <Codec CODEC, Rounding ROUNDING, int PLACE>
HWY_INLINE WordVector codes_of(const LaneScale& scale, FloatVector values, Random random) {
  if constexpr (CODEC == Codec::F16) return f16_codes<ROUNDING>(values, random);
  else if constexpr (CODEC == Codec::BF16) return bf16_codes<ROUNDING>(values, random);
  else if constexpr (CODEC == Codec::E3M0) return e3m0_codes<ROUNDING, PLACE>(scale, values, random);
  else return linear_codes<CODEC, ROUNDING, PLACE>(scale, values, random);
}

// Four vectors of successive values are encoded together, so that their codes fill one vector of bytes.
constexpr std::size_t LANES = hn::MaxLanes(Words());
constexpr std::size_t QUAD = 4 * LANES;
using Bytes = hn::Repartition<std::uint8_t, Words>;

// The codes of the vector at `position` of a quad that begins `base` values into the group.
template <Codec CODEC, Rounding ROUNDING, int POSITION>
HWY_INLINE WordVector codes_at(const LaneScale& scale, const float* HWY_RESTRICT values, const std::uint32_t* HWY_RESTRICT words,
                               std::size_t base) {
  const std::size_t at = base + POSITION * LANES;
  Random random{hn::Zero(Words()), at};
  if constexpr (ROUNDING == Rounding::Stochastic)
    random.words = hn::Load(Words(), words + at / (RANDOM_WINDOWS * RANDOM_LANES) * RANDOM_LANES + at % RANDOM_LANES);
  return codes_of<CODEC, ROUNDING, POSITION>(scale, hn::LoadU(Floats(), values + at), random);
}

// Byte j of lane i becomes byte j·LANES + i: a transposition within each 128 bits, then of their words.
struct Transposition {
  std::uint8_t bytes[16];
  std::uint32_t words[LANES];
};
constexpr Transposition transposition() {
  Transposition made{};
  for (std::size_t i = 0; i < 16; ++i) made.bytes[i] = static_cast<std::uint8_t>(i % 4 * 4 + i / 4);
  for (std::size_t i = 0; i < LANES; ++i) made.words[i] = static_cast<std::uint32_t>(i % (LANES / 4) * 4 + i / (LANES / 4));
  return made;
}
alignas(64) constexpr Transposition TRANSPOSITION = transposition();

// Byte 0 of the words of `a`, byte 1 of those of `b` and so on, in the order of the values.
HWY_INLINE hn::Vec<Bytes> packed(WordVector a, WordVector b, WordVector c, WordVector d) {
  const hn::Repartition<std::uint16_t, Words> halves;
  const auto low = hn::OddEven(hn::BitCast(Bytes(), b), hn::BitCast(Bytes(), a));
  const auto high = hn::OddEven(hn::BitCast(Bytes(), d), hn::BitCast(Bytes(), c));
  const auto both = hn::OddEven(hn::BitCast(halves, high), hn::BitCast(halves, low));
  const auto blocks = hn::TableLookupBytes(hn::BitCast(Bytes(), both), hn::LoadDup128(Bytes(), TRANSPOSITION.bytes));
  if constexpr (LANES == 4) return blocks;
  else return hn::BitCast(Bytes(), hn::TableLookupLanes(hn::BitCast(Words(), blocks), hn::SetTableIndices(Words(), TRANSPOSITION.words)));
}

HWY_INLINE void store_halves(WordVector codes, std::uint8_t* out) {
  const hn::Rebind<std::uint16_t, Words> halves;
  hn::StoreU(hn::TruncateTo(halves, codes), halves, reinterpret_cast<std::uint16_t*>(out));
}

// `out` is where the quad's codes go. The first and the last two vectors may have scales of their own.
template <Codec CODEC, Rounding ROUNDING>
HWY_INLINE void encode_quad(const LaneScale& first, const LaneScale& last, const float* HWY_RESTRICT values,
                            const std::uint32_t* HWY_RESTRICT words, std::size_t base, std::uint8_t* HWY_RESTRICT out,
                            std::uint8_t* HWY_RESTRICT out_last) {
  const auto a = codes_at<CODEC, ROUNDING, 0>(first, values, words, base);
  const auto b = codes_at<CODEC, ROUNDING, 1>(first, values, words, base);
  const auto c = codes_at<CODEC, ROUNDING, 2>(last, values, words, base);
  const auto d = codes_at<CODEC, ROUNDING, 3>(last, values, words, base);
  if constexpr (block_layout(CODEC).bits == 16) {
    store_halves(a, out);
    store_halves(b, out + 2 * LANES);
    store_halves(c, out_last);
    store_halves(d, out_last + 2 * LANES);
  } else if constexpr (block_layout(CODEC).bits == 8) {
    auto codes = packed(a, b, c, d);
    if constexpr (CODEC == Codec::Int8Block && ROUNDING == Rounding::Stochastic) codes = hn::Xor(codes, hn::Set(Bytes(), 128));
    hn::StoreU(codes, Bytes(), out);
  } else {
    const hn::Repartition<std::uint16_t, Words> pairs;
    const hn::Rebind<std::uint8_t, decltype(pairs)> bytes;
    const auto codes = hn::BitCast(pairs, hn::And(packed(a, b, c, d), hn::Set(Bytes(), 0xF)));
    const auto nibbles = hn::TruncateTo(bytes, hn::Or(codes, hn::ShiftRight<4>(codes)));
    const hn::Half<decltype(bytes)> half;
    hn::StoreU(hn::LowerHalf(half, nibbles), half, out);
    hn::StoreU(hn::UpperHalf(half, nibbles), half, out_last);
  }
}

// Of values as bits. Read with a sign, the greatest is the greatest value unless all are negative; without one, the least value unless
// all are positive. Where all have one sign both are the value furthest from zero, and `nearest`, the least with a sign, is the nearest.
// What is not finite is greater than all that is in the one or the other.
struct LaneRange {
  hn::Vec<Integers> greatest;
  WordVector lowest;
  hn::Vec<Integers> nearest;
};

template <Codec CODEC>
HWY_INLINE void widen(LaneRange& range, FloatVector values) {
  if constexpr (is_affine(CODEC)) {
    range.greatest = hn::Max(range.greatest, hn::BitCast(Integers(), values));
    range.lowest = hn::Max(range.lowest, words_of(values));
  } else {
    range.greatest = hn::Max(range.greatest, hn::BitCast(Integers(), hn::Abs(values)));
  }
  if constexpr (CODEC == Codec::Int8MinMax) range.nearest = hn::Min(range.nearest, hn::BitCast(Integers(), values));
}

HWY_INLINE float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// Two ranges grow side by side, since each waits for its last comparison.
template <Codec CODEC>
HWY_INLINE BlockRange range_of(const float* HWY_RESTRICT values) {
  const std::size_t lanes = hn::Lanes(Floats());
  const auto first = is_affine(CODEC) ? hn::LoadU(Floats(), values) : hn::Zero(Floats());
  LaneRange range{hn::BitCast(Integers(), first), words_of(first), hn::BitCast(Integers(), first)};
  LaneRange other = range;
  for (std::size_t i = 0; i < GROUP_VALUES; i += 2 * lanes) {
    widen<CODEC>(range, hn::LoadU(Floats(), values + i));
    widen<CODEC>(other, hn::LoadU(Floats(), values + i + lanes));
  }
  const auto bits_of = [](auto vector) HWY_ATTR { return static_cast<std::uint32_t>(hn::GetLane(vector)); };
  const auto greatest = bits_of(hn::MaxOfLanes(Integers(), hn::Max(range.greatest, other.greatest)));
  if constexpr (!is_affine(CODEC)) return {0, 0, greatest};
  const auto lowest = bits_of(hn::MaxOfLanes(Words(), hn::Max(range.lowest, other.lowest)));
  const std::uint32_t magnitude = std::max(greatest & ~SIGN_BIT, lowest & ~SIGN_BIT);
  if constexpr (CODEC == Codec::Int8ZeroPoint) return {float_of(lowest), float_of(greatest), magnitude};  // its range holds zero
  const auto nearest = bits_of(hn::MinOfLanes(Integers(), hn::Min(range.nearest, other.nearest)));
  const bool all_positive = (nearest & SIGN_BIT) == 0;
  const bool all_negative = (greatest & SIGN_BIT) != 0;
  return {float_of(all_positive ? nearest : lowest), float_of(all_negative ? nearest : greatest), magnitude};
}

using FourFloats = hn::CappedTag<float, 4>;
using FourWords = hn::Rebind<std::uint32_t, FourFloats>;

// The greatest magnitudes of four blocks of Int4: the lanes of their vectors are paired until each has one.
HWY_INLINE hn::Vec<FourWords> four_magnitudes(const float* HWY_RESTRICT values) {
  const auto of_row = [&](std::size_t row) HWY_ATTR {
    auto greatest = hn::Zero(Integers());
    for (std::size_t i = 0; i < ROW; i += LANES)
      greatest = hn::Max(greatest, hn::BitCast(Integers(), hn::Abs(hn::LoadU(Floats(), values + row * ROW + i))));
    return greatest;
  };
  const auto paired = [](auto a, auto b)
                          HWY_ATTR { return hn::Max(hn::InterleaveLower(Integers(), a, b), hn::InterleaveUpper(Integers(), a, b)); };
  const auto ab = hn::BitCast(Pairs(), paired(of_row(0), of_row(1)));
  const auto cd = hn::BitCast(Pairs(), paired(of_row(2), of_row(3)));
  const auto lower = hn::BitCast(Words(), hn::InterleaveLower(Pairs(), ab, cd));
  const auto upper = hn::BitCast(Words(), hn::InterleaveUpper(Pairs(), ab, cd));
  HWY_ALIGN std::uint32_t parts[RANDOM_LANES];
  hn::Store(hn::Max(lower, upper), Words(), parts);
  auto greatest = hn::Load(FourWords(), parts);
  for (std::size_t i = 4; i < LANES; i += 4) greatest = hn::Max(greatest, hn::Load(FourWords(), parts + i));
  return greatest;
}

// Steps of the eight blocks of Int4, as ordinary_scale has them, and inverses as lane_scale has them; false where a block is extreme or
// refused.
template <Rounding ROUNDING>
HWY_INLINE bool row_scales(const float* HWY_RESTRICT values, float* HWY_RESTRICT steps, float* HWY_RESTRICT inverses) {
  const FourFloats floats;
  for (std::size_t row = 0; row < ROWS; row += 4) {
    const auto magnitude = hn::BitCast(floats, four_magnitudes(values + row * ROW));
    const auto zeros = hn::Eq(magnitude, hn::Zero(floats));
    const auto in_range = hn::And(hn::Ge(magnitude, hn::Set(floats, ORDINARY_FROM)), hn::Lt(magnitude, hn::Set(floats, ORDINARY_TO)));
    if (!hn::AllTrue(floats, hn::Or(zeros, in_range))) return false;
    const auto levels = hn::Set(floats, symmetric_levels(Codec::Int4Block));
    hn::Store(hn::Div(magnitude, levels), floats, steps + row);
    const auto inverse = hn::IfThenZeroElse(zeros, hn::Div(levels, magnitude));
    hn::Store(hn::Mul(inverse, hn::Set(floats, UNITS<Codec::Int4Block, ROUNDING>)), floats, inverses + row);
  }
  return true;
}

// Eight blocks whose scales are computed side by side.
template <Codec CODEC, Rounding ROUNDING>
requires(CODEC == Codec::Int4Block) HWY_INLINE
    bool encode_one_group(const Encoding& encoding, const RandomKeys& keys, const float* HWY_RESTRICT values, std::uint64_t index,
                          std::byte* HWY_RESTRICT out) {
  HWY_ALIGN float steps[ROWS];
  HWY_ALIGN float inverses[ROWS];
  if (!row_scales<ROUNDING>(values, steps, inverses))
    return !encode_reference(at_index(encoding, index), {values, GROUP_VALUES}, {out, INT4_GROUP_BYTES});
  HWY_ALIGN std::uint32_t words[RANDOM_ROWS * RANDOM_LANES];
  if constexpr (ROUNDING == Rounding::Stochastic) fill_words(keys, index, words);
  for (std::size_t row = 0; row < ROWS; ++row) std::memcpy(out + row * INT4_BLOCK_BYTES, &steps[row], sizeof(float));
  const auto scale_at = [&](std::size_t at) HWY_ATTR {
    return LaneScale{number(inverses[at / ROW]), hn::Zero(Floats()), hn::Zero(Floats())};
  };
  const auto place_of = [&](std::size_t at) {
    return reinterpret_cast<std::uint8_t*>(out + at / ROW * INT4_BLOCK_BYTES + sizeof(float) + at % ROW / 2);
  };
  for (std::size_t base = 0; base < GROUP_VALUES; base += QUAD) {
    const std::size_t last = base + 2 * LANES;
    encode_quad<Codec::Int4Block, ROUNDING>(scale_at(base), scale_at(last), values, words, base, place_of(base), place_of(last));
  }
  return true;
}

// Groups that are encoded later: a group's arithmetic fills the processor's window, so it does not see far enough ahead itself.
constexpr std::size_t GROUPS_AHEAD = 12;
HWY_INLINE void fetch_group(const float* values) {
  constexpr std::size_t LINE = 64 / sizeof(float);
  for (std::size_t i = 0; i < GROUP_VALUES; i += LINE) hwy::Prefetch(values + i);
}

// One block, or sixteen bits for each value.
template <Codec CODEC, Rounding ROUNDING>
HWY_INLINE bool encode_one_group(const Encoding& encoding, const RandomKeys& keys, const float* HWY_RESTRICT values, std::uint64_t index,
                                 std::byte* HWY_RESTRICT out) {
  constexpr auto LAYOUT = block_layout(CODEC);
  static_assert(LAYOUT.values == GROUP_VALUES);
  const auto range = range_of<CODEC>(values);
  if (range.magnitude >= refused_bits(CODEC)) return false;
  if (LAYOUT.head_bytes > 0 && is_extreme(range.magnitude)) return !encode_block_reference(encoding, {values, GROUP_VALUES}, index, out);
  HWY_ALIGN std::uint32_t words[RANDOM_ROWS * RANDOM_LANES];
  if constexpr (ROUNDING == Rounding::Stochastic) fill_words(keys, index, words);
  const auto scale = ordinary_scale(CODEC, ROUNDING, range);
  store_head(CODEC, scale, out);
  const auto shared = lane_scale<CODEC, ROUNDING>(scale);
  auto* codes = reinterpret_cast<std::uint8_t*>(out + LAYOUT.head_bytes);
  for (std::size_t base = 0; base < GROUP_VALUES; base += QUAD) {
    auto* first = codes + base * LAYOUT.bits / 8;
    encode_quad<CODEC, ROUNDING>(shared, shared, values, words, base, first, first + 2 * LANES * LAYOUT.bits / 8);
  }
  return true;
}

template <Codec CODEC, Rounding ROUNDING>
HWY_NOINLINE std::size_t encode_these_groups(const Encoding& encoding, const float* HWY_RESTRICT values, std::size_t groups,
                                             std::byte* HWY_RESTRICT out) {
  const RandomKeys keys = random_keys(encoding);
  for (std::size_t group = 0; group < groups; ++group, values += GROUP_VALUES) {
    if (group + GROUPS_AHEAD < groups) fetch_group(values + GROUPS_AHEAD * GROUP_VALUES);
    if (!encode_one_group<CODEC, ROUNDING>(encoding, keys, values, encoding.first_index + group * GROUP_VALUES, out)) return group;
    out += GROUP_VALUES / block_layout(CODEC).values * block_bytes(block_layout(CODEC), block_layout(CODEC).values);
  }
  return groups;
}

template <Rounding ROUNDING>
EncodeGroups encode_groups_of(Codec codec) {
  switch (codec) {
    case Codec::None: break;
    case Codec::F16: return &encode_these_groups<Codec::F16, ROUNDING>;
    case Codec::BF16: return &encode_these_groups<Codec::BF16, ROUNDING>;
    case Codec::Int8MinMax: return &encode_these_groups<Codec::Int8MinMax, ROUNDING>;
    case Codec::Int8ZeroPoint: return &encode_these_groups<Codec::Int8ZeroPoint, ROUNDING>;
    case Codec::Int8Block: return &encode_these_groups<Codec::Int8Block, ROUNDING>;
    case Codec::Int4Block: return &encode_these_groups<Codec::Int4Block, ROUNDING>;
    case Codec::E3M0: return &encode_these_groups<Codec::E3M0, ROUNDING>;
  }
  return nullptr;
}

EncodeGroups encode_groups_here(Codec codec, Rounding rounding) {
  return rounding == Rounding::Stochastic ? encode_groups_of<Rounding::Stochastic>(codec) : encode_groups_of<Rounding::Nearest>(codec);
}

}  // namespace prime::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PRIME_CODEC_ENCODE_INL
