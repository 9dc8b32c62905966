// Owns the vectors that encode. Included once for each instruction set, hence no #pragma once.
#if defined(PRIME_CODEC_ENCODE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PRIME_CODEC_ENCODE_INL
#undef PRIME_CODEC_ENCODE_INL
#else
#define PRIME_CODEC_ENCODE_INL
#endif

#include <algorithm>
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

// Philox on the low halves of 64-bit lanes: the multiplication reads nothing else, so what stands above may stay.
HWY_INLINE void philox_lanes(PairVector& c0, PairVector& c1, PairVector& c2, PairVector& c3, std::uint64_t seed) {
  const auto multiplier_0 = hn::Set(Pairs(), std::uint64_t{PHILOX_MULTIPLIER_0});
  const auto multiplier_1 = hn::Set(Pairs(), std::uint64_t{PHILOX_MULTIPLIER_1});
  auto key_0 = static_cast<std::uint32_t>(seed);
  auto key_1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < PHILOX_ROUNDS; ++round) {
    const auto product_0 = product(c0, multiplier_0);
    const auto product_1 = product(c2, multiplier_1);
    c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product_1), c1), hn::Set(Pairs(), std::uint64_t{key_0}));
    c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product_0), c3), hn::Set(Pairs(), std::uint64_t{key_1}));
    c1 = product_1;
    c3 = product_0;
    key_0 += PHILOX_WEYL_0;
    key_1 += PHILOX_WEYL_1;
  }
}

HWY_INLINE WordVector interleave(PairVector even, PairVector odd) {
  return hn::OddEven(hn::BitCast(Words(), hn::ShiftLeft<32>(odd)), hn::BitCast(Words(), even));
}

// The words of a group of 256 values: eight rows of RANDOM_LANES.
HWY_INLINE void fill_words(const Encoding& encoding, std::uint64_t index, std::uint32_t* HWY_RESTRICT words) {
  const Pairs pairs;
  const std::size_t lanes = hn::Lanes(Words());
  const auto twice_iota = hn::Add(hn::Iota(pairs, 0), hn::Iota(pairs, 0));
  for (std::size_t half = 0; half < 2; ++half) {
    const std::uint64_t counter = (index / RANDOM_GROUP + half) * RANDOM_LANES;
    for (std::size_t lane = 0; lane < RANDOM_LANES; lane += lanes) {
      auto a0 = hn::Add(twice_iota, hn::Set(pairs, (counter & 0xFFFFFFFFU) + lane));
      auto b0 = hn::Add(a0, hn::Set(pairs, std::uint64_t{1}));
      auto a1 = hn::Set(pairs, counter >> 32);
      auto a2 = hn::Set(pairs, encoding.version);
      auto a3 = hn::Set(pairs, encoding.version >> 32);
      auto b1 = a1;
      auto b2 = a2;
      auto b3 = a3;
      philox_lanes(a0, a1, a2, a3, encoding.seed);
      philox_lanes(b0, b1, b2, b3, encoding.seed);
      std::uint32_t* to = words + half * ROWS_OF_WORDS * RANDOM_LANES + lane;
      hn::Store(interleave(a0, b0), Words(), to);
      hn::Store(interleave(a1, b1), Words(), to + RANDOM_LANES);
      hn::Store(interleave(a2, b2), Words(), to + 2 * RANDOM_LANES);
      hn::Store(interleave(a3, b3), Words(), to + 3 * RANDOM_LANES);
    }
  }
}

// What the lanes of a block share.
struct LaneScale {
  FloatVector inverse;
  FloatVector middle;
  FloatVector centre;  // what is added after the scaling
};

HWY_INLINE LaneScale lane_scale(Codec codec, const BlockScale& scale) {
  return {number(scale.inverse), number(scale.middle), number(codec == Codec::Int8MinMax ? HALF_OF_255 : scale.zero)};
}

template <Codec CODEC, Rounding ROUNDING>
HWY_INLINE WordVector linear_codes(const LaneScale& scale, FloatVector values, WordVector random) {
  constexpr bool CENTRED = CODEC == Codec::Int8Block || CODEC == Codec::Int4Block;
  constexpr float HIGH = CODEC == Codec::Int4Block ? 7.0F : CENTRED ? 127.0F : 255.0F;
  if constexpr (CODEC == Codec::Int8MinMax) values = hn::Sub(values, scale.middle);
  auto steps = hn::Mul(values, scale.inverse);
  if constexpr (!CENTRED) steps = hn::Add(steps, scale.centre);
  if constexpr (ROUNDING == Rounding::Stochastic) {
    const auto dither = hn::Or(hn::And(hn::ShiftLeft<7>(random), word(0x7FFF00U)), word(0x3F800080U));
    steps = hn::Add(steps, hn::Sub(floats_of(dither), number(1.5F)));
  }
  steps = hn::Max(hn::Min(steps, number(HIGH)), number(CENTRED ? -HIGH : 0.0F));
  return words_of(hn::Add(steps, number(ROUNDER)));  // the code is the low byte: ROUNDER's own is 0
}

template <Rounding ROUNDING>
HWY_INLINE WordVector e3m0_codes(const LaneScale& scale, FloatVector values, WordVector random) {
  const auto ratio = hn::Mul(hn::Abs(values), scale.inverse);
  auto bits = words_of(ratio);
  WordVector noise;
  if constexpr (ROUNDING == Rounding::Stochastic) {
    noise = hn::Or(hn::ShiftLeft<7>(hn::And(random, word(0xFFFFU))), word(0x40U));
    bits = hn::Add(bits, noise);
  }
  const auto exponent = hn::Sub(hn::BitCast(Integers(), hn::ShiftRight<23>(bits)), hn::Set(Integers(), 120));
  auto level = hn::BitCast(Words(), hn::Min(hn::Max(exponent, hn::Zero(Integers())), hn::Set(Integers(), 7)));
  if constexpr (ROUNDING == Rounding::Stochastic) {
    const auto sum = hn::Add(hn::Mul(ratio, number(64.0F)), floats_of(hn::Or(noise, word(0x3F800000U))));
    const auto least = hn::IfThenElseZero(hn::RebindMask(Words(), hn::Ge(sum, number(2.0F))), word(1));
    level = hn::IfThenElse(hn::RebindMask(Words(), hn::Lt(ratio, number(0.015625F))), least, level);
  }
  const auto sign = hn::And(hn::ShiftRight<28>(words_of(values)), word(8));
  return hn::Or(level, hn::IfThenZeroElse(hn::Eq(level, word(0)), sign));
}

template <Rounding ROUNDING>
HWY_INLINE WordVector f16_codes(FloatVector values, WordVector random) {
  const auto bits = words_of(values);
  const auto magnitude = hn::AndNot(word(SIGN_BIT), bits);
  const auto sign = hn::ShiftRight<16>(hn::And(bits, word(SIGN_BIT)));
  WordVector small;
  WordVector normal;
  if constexpr (ROUNDING == Rounding::Stochastic) {
    const auto noise = hn::ShiftRight<3>(hn::And(random, word(0xFFFFU)));
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
    const auto sum = hn::Add(hn::AndNot(word(SIGN_BIT), bits), hn::And(random, word(0xFFFFU)));
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

template <Codec CODEC>
HWY_INLINE BlockRange range_of(const float* HWY_RESTRICT values, std::size_t count) {
  constexpr bool AFFINE = CODEC == Codec::Int8MinMax || CODEC == Codec::Int8ZeroPoint;
  const std::size_t lanes = hn::Lanes(Floats());
  auto minimum = hn::LoadU(Floats(), values);
  auto maximum = minimum;
  auto magnitude = hn::Zero(Integers());
  for (std::size_t i = 0; i < count; i += lanes) {
    const auto vector = hn::LoadU(Floats(), values + i);
    magnitude = hn::Max(magnitude, hn::BitCast(Integers(), hn::Abs(vector)));
    if constexpr (AFFINE) {
      minimum = hn::Min(minimum, vector);
      maximum = hn::Max(maximum, vector);
    }
  }
  const auto bits = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(Integers(), magnitude)));
  if constexpr (!AFFINE) return {0, 0, bits};
  return {hn::GetLane(hn::MinOfLanes(Floats(), minimum)), hn::GetLane(hn::MaxOfLanes(Floats(), maximum)), bits};
}

template <Codec CODEC, Rounding ROUNDING>
HWY_NOINLINE bool encode_this_group(const Encoding& encoding, const float* HWY_RESTRICT values, std::uint64_t index, std::byte* HWY_RESTRICT out) {
  constexpr auto LAYOUT = block_layout(CODEC);
  constexpr std::size_t BLOCK_BYTES = block_bytes(LAYOUT, LAYOUT.values);
  const std::size_t lanes = hn::Lanes(Floats());
  HWY_ALIGN std::uint32_t words[GROUP_VALUES / 2] = {};
  if constexpr (ROUNDING == Rounding::Stochastic) fill_words(encoding, index, words);
  for (std::size_t begin = 0; begin < GROUP_VALUES; begin += LAYOUT.values, out += BLOCK_BYTES) {
    const auto range = range_of<CODEC>(values + begin, LAYOUT.values);
    if (range.magnitude >= refused_bits(CODEC)) return false;
    if (LAYOUT.head_bytes > 0 && is_extreme(range.magnitude)) {
      static_cast<void>(encode_block_reference(encoding, {values + begin, LAYOUT.values}, index + begin, out));
      continue;
    }
    const auto scale = ordinary_scale(CODEC, ROUNDING, range);
    store_head(CODEC, scale, out);
    const auto shared = lane_scale(CODEC, scale);
    auto* codes = reinterpret_cast<std::uint8_t*>(out + LAYOUT.head_bytes);
    for (std::size_t row = 0; row < LAYOUT.values; row += ROW) {
      for (std::size_t lane = 0; lane < RANDOM_LANES; lane += lanes) {
        const auto random = hn::Load(Words(), words + (begin + row) / 2 + lane);
        const std::size_t low = row + lane;
        const std::size_t high = low + RANDOM_LANES;
        store_codes<CODEC, ROUNDING>(shared, hn::LoadU(Floats(), values + begin + low), random, low, codes);
        store_codes<CODEC, ROUNDING>(shared, hn::LoadU(Floats(), values + begin + high), hn::ShiftRight<16>(random), high, codes);
      }
    }
  }
  return true;
}

template <Rounding ROUNDING>
EncodeGroup encode_group_of(Codec codec) {
  switch (codec) {
    case Codec::None: break;
    case Codec::F16: return &encode_this_group<Codec::F16, ROUNDING>;
    case Codec::BF16: return &encode_this_group<Codec::BF16, ROUNDING>;
    case Codec::Int8MinMax: return &encode_this_group<Codec::Int8MinMax, ROUNDING>;
    case Codec::Int8ZeroPoint: return &encode_this_group<Codec::Int8ZeroPoint, ROUNDING>;
    case Codec::Int8Block: return &encode_this_group<Codec::Int8Block, ROUNDING>;
    case Codec::Int4Block: return &encode_this_group<Codec::Int4Block, ROUNDING>;
    case Codec::E3M0: return &encode_this_group<Codec::E3M0, ROUNDING>;
  }
  return nullptr;
}

EncodeGroup encode_group_here(Codec codec, Rounding rounding) {
  return rounding == Rounding::Stochastic ? encode_group_of<Rounding::Stochastic>(codec) : encode_group_of<Rounding::Nearest>(codec);
}

}  // namespace prime::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PRIME_CODEC_ENCODE_INL
