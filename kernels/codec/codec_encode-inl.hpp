// Owns the vectors that encode. Included once for each instruction set, hence no #pragma once.
#if defined(PRIME_CODEC_ENCODE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PRIME_CODEC_ENCODE_INL
#undef PRIME_CODEC_ENCODE_INL
#else
#define PRIME_CODEC_ENCODE_INL
#endif

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
  static_assert((ROUNDER_BITS >> NOISE_BITS & 0xFFU) == 128);  // just what the affine codes want; Int8 takes it away in encode_quad
  return hn::ShiftRight<NOISE_BITS>(sum);
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
    // Greater than the ratio's own bits just where it is less than the least level.
    const auto below = hn::Sub(words_of(hn::Add(ratio, number(E3M0_LEAST))), word(1U << 23));
    bits = hn::Add(hn::Max(below, bits), hn::OrAnd(word(0x40U), hn::ShiftRight<9>(random), word(0x7FFF80U)));
  } else {
    bits = hn::Max(bits, word(E3M0_EXPONENT << 23));
  }
  // The level is the low bits of an exponent whose next bit is set, where the sign belongs: one of a positive value clears it.
  static_assert(E3M0_EXPONENT % 16 == 8);
  return hn::Xor(hn::ShiftRight<23>(bits), hn::AndNot(hn::ShiftRight<28>(words_of(values)), word(8)));
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
HWY_INLINE WordVector codes_of(const LaneScale& scale, FloatVector values, WordVector random) {
  if constexpr (CODEC == Codec::F16) return f16_codes<ROUNDING>(values, random);
  else if constexpr (CODEC == Codec::BF16) return bf16_codes<ROUNDING>(values, random);
  else if constexpr (CODEC == Codec::E3M0) return e3m0_codes<ROUNDING>(scale, values, random);
  else return linear_codes<CODEC, ROUNDING>(scale, values, random);
}

// Four vectors of successive values are encoded together, so that their codes fill one vector of bytes.
constexpr std::size_t LANES = hn::MaxLanes(Words());
constexpr std::size_t QUAD = 4 * LANES;
using Bytes = hn::Repartition<std::uint8_t, Words>;

// The codes of the vector at `position` of a quad that begins `base` values into the group.
template <Codec CODEC, Rounding ROUNDING, std::size_t POSITION>
HWY_INLINE WordVector codes_at(const LaneScale& scale, const float* HWY_RESTRICT values, const std::uint32_t* HWY_RESTRICT words,
                               std::size_t base) {
  const std::size_t at = base + POSITION * LANES;
  auto random = hn::Zero(Words());
  if constexpr (ROUNDING == Rounding::Stochastic)
    random = window(hn::Load(Words(), words + at / (RANDOM_WINDOWS * RANDOM_LANES) * RANDOM_LANES + at % RANDOM_LANES), at);
  return codes_of<CODEC, ROUNDING>(scale, hn::LoadU(Floats(), values + at), random);
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

// The low byte of each code; the others need not be zero.
HWY_INLINE hn::Vec<Bytes> packed(WordVector a, WordVector b, WordVector c, WordVector d) {
  const auto low = hn::OddEven(hn::BitCast(hn::Repartition<std::uint8_t, Words>(), hn::ShiftLeft<8>(b)), hn::BitCast(Bytes(), a));
  const auto high = hn::OddEven(hn::BitCast(hn::Repartition<std::uint8_t, Words>(), hn::ShiftLeft<8>(d)), hn::BitCast(Bytes(), c));
  const hn::Repartition<std::uint16_t, Words> halves;
  const auto both = hn::OddEven(hn::BitCast(halves, hn::ShiftLeft<16>(hn::BitCast(Words(), high))), hn::BitCast(halves, low));
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
    for (std::size_t i = 0; i < ROW; i += lanes)
      greatest = hn::Max(greatest, hn::BitCast(integers, hn::Abs(hn::LoadU(Floats(), values + row * ROW + i))));
    return greatest;
  };
  const auto paired = [&](auto a, auto b)
                          HWY_ATTR { return hn::Max(hn::InterleaveLower(integers, a, b), hn::InterleaveUpper(integers, a, b)); };
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

// Eight blocks whose scales are computed side by side.
template <Rounding ROUNDING>
HWY_NOINLINE bool encode_int4_group(const Encoding& encoding, const float* HWY_RESTRICT values, std::uint64_t index,
                                    std::byte* HWY_RESTRICT out) {
  HWY_ALIGN float steps[ROWS];
  HWY_ALIGN float inverses[ROWS];
  if (!row_scales(values, steps, inverses))
    return !encode_reference(at_index(encoding, index), {values, GROUP_VALUES}, {out, INT4_GROUP_BYTES});
  HWY_ALIGN std::uint32_t words[RANDOM_ROWS * RANDOM_LANES];
  if constexpr (ROUNDING == Rounding::Stochastic) fill_words(encoding, index, words);
  for (std::size_t row = 0; row < ROWS; ++row) std::memcpy(out + row * INT4_BLOCK_BYTES, &steps[row], sizeof(float));
  const auto scale_at = [&](std::size_t at) HWY_ATTR {
    BlockScale scale;
    scale.inverse = inverses[at / ROW];
    return lane_scale<Codec::Int4Block, ROUNDING>(scale);
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

// One block, or sixteen bits for each value.
template <Codec CODEC, Rounding ROUNDING>
HWY_NOINLINE bool encode_one_group(const Encoding& encoding, const float* HWY_RESTRICT values, std::uint64_t index,
                                   std::byte* HWY_RESTRICT out) {
  constexpr auto LAYOUT = block_layout(CODEC);
  static_assert(LAYOUT.values == GROUP_VALUES);
  const auto range = range_of<CODEC>(values);
  if (range.magnitude >= refused_bits(CODEC)) return false;
  if (LAYOUT.head_bytes > 0 && is_extreme(range.magnitude)) return !encode_block_reference(encoding, {values, GROUP_VALUES}, index, out);
  HWY_ALIGN std::uint32_t words[RANDOM_ROWS * RANDOM_LANES];
  if constexpr (ROUNDING == Rounding::Stochastic) fill_words(encoding, index, words);
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
