// Owns the vectors that decode. Included once for each instruction set, hence no #pragma once.
#if defined(PRIME_CODEC_DECODE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef PRIME_CODEC_DECODE_INL
#undef PRIME_CODEC_DECODE_INL
#else
#define PRIME_CODEC_DECODE_INL
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "kernels/codec/codec_vector.hpp"

HWY_BEFORE_NAMESPACE();
namespace prime::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DecodedFloats = hn::CappedTag<float, 16>;
using DecodedWords = hn::Rebind<std::uint32_t, DecodedFloats>;
using DecodedIntegers = hn::Rebind<std::int32_t, DecodedFloats>;
using DecodedPairs = hn::Repartition<std::uint64_t, DecodedWords>;

template <Codec CODEC>
HWY_INLINE hn::Vec<DecodedWords> load_codes(const std::uint8_t* bytes, std::size_t position) {
  const DecodedWords words;
  if constexpr (block_layout(CODEC).bits == 16) {
    const hn::Rebind<std::uint16_t, DecodedWords> halves;
    return hn::PromoteTo(words, hn::LoadU(halves, reinterpret_cast<const std::uint16_t*>(bytes + 2 * position)));
  } else if constexpr (block_layout(CODEC).bits == 8) {
    const hn::Rebind<std::uint8_t, DecodedWords> codes;
    return hn::BitCast(words, hn::PromoteTo(DecodedIntegers(), hn::LoadU(codes, bytes + position)));
  } else {
    const hn::Rebind<std::uint8_t, DecodedPairs> codes;
    const hn::Rebind<std::uint32_t, DecodedPairs> between;
    const auto pairs = hn::PromoteTo(DecodedPairs(), hn::PromoteTo(between, hn::LoadU(codes, bytes + position / 2)));
    return hn::And(hn::BitCast(words, hn::Or(pairs, hn::ShiftLeft<28>(pairs))), hn::Set(words, 0xFU));
  }
}

template <Codec CODEC>
HWY_INLINE hn::Vec<DecodedFloats> values_of(const BlockScale& scale, hn::Vec<DecodedWords> codes) {
  const DecodedFloats floats;
  const DecodedWords words;
  const DecodedIntegers integers;
  const auto step = hn::Set(floats, scale.step);
  if constexpr (CODEC == Codec::F16) {
    const auto sign = hn::ShiftLeft<16>(hn::And(codes, hn::Set(words, 0x8000U)));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(codes, hn::Set(words, 0x7FFFU)));
    const auto finite = hn::BitCast(words, hn::Mul(hn::BitCast(floats, magnitude), hn::Set(floats, TWO_TO_112)));
    const auto not_finite = hn::Or(magnitude, hn::Set(words, INFINITY_BITS));
    const auto is_finite = hn::Lt(magnitude, hn::Set(words, 0x7C00U << 13));
    return hn::BitCast(floats, hn::Or(sign, hn::IfThenElse(is_finite, finite, not_finite)));
  } else if constexpr (CODEC == Codec::BF16) {
    return hn::BitCast(floats, hn::ShiftLeft<16>(codes));
  } else if constexpr (CODEC == Codec::E3M0) {
    const auto level = hn::And(codes, hn::Set(words, 7U));
    const auto sign = hn::ShiftLeft<28>(hn::And(codes, hn::Set(words, 8U)));
    const auto power = hn::ShiftLeft<23>(hn::Add(level, hn::Set(words, 120U)));
    const auto magnitude = hn::IfThenZeroElse(hn::Eq(level, hn::Set(words, 0U)), power);
    return hn::Mul(hn::BitCast(floats, hn::Or(sign, magnitude)), step);
  } else {
    auto whole = hn::BitCast(integers, codes);
    if constexpr (CODEC == Codec::Int8Block) whole = hn::ShiftRight<24>(hn::ShiftLeft<24>(whole));
    if constexpr (CODEC == Codec::Int4Block) whole = hn::ShiftRight<28>(hn::ShiftLeft<28>(whole));
    auto value = hn::ConvertTo(floats, whole);
    if constexpr (CODEC == Codec::Int8ZeroPoint) value = hn::Sub(value, hn::Set(floats, scale.zero));
    if constexpr (CODEC == Codec::Int8MinMax) value = hn::Sub(value, hn::Set(floats, HALF_OF_255));
    value = hn::Mul(value, step);
    if constexpr (CODEC == Codec::Int8MinMax) value = hn::Add(hn::Set(floats, scale.middle), value);
    return value;
  }
}

template <Codec CODEC, Placement PLACEMENT>
HWY_NOINLINE void decode_these_groups(const std::byte* HWY_RESTRICT bytes, std::size_t groups, float* HWY_RESTRICT out) {
  constexpr auto LAYOUT = block_layout(CODEC);
  const DecodedFloats floats;
  const std::size_t lanes = hn::Lanes(floats);
  for (const float* end = out + groups * GROUP_VALUES; out != end; out += LAYOUT.values) {
    const auto scale = load_head(CODEC, bytes);
    const auto* codes = reinterpret_cast<const std::uint8_t*>(bytes + LAYOUT.head_bytes);
    for (std::size_t i = 0; i < LAYOUT.values; i += lanes) {
      const auto values = values_of<CODEC>(scale, load_codes<CODEC>(codes, i));
      if constexpr (PLACEMENT == Placement::Stream) hn::Stream(values, floats, out + i);
      else hn::StoreU(values, floats, out + i);
    }
    bytes += block_bytes(LAYOUT, LAYOUT.values);
  }
  if constexpr (PLACEMENT == Placement::Stream) hwy::FlushStream();
}

template <Placement PLACEMENT>
DecodeGroups decode_groups_of(Codec codec) {
  switch (codec) {
    case Codec::None: break;
    case Codec::F16: return &decode_these_groups<Codec::F16, PLACEMENT>;
    case Codec::BF16: return &decode_these_groups<Codec::BF16, PLACEMENT>;
    case Codec::Int8MinMax: return &decode_these_groups<Codec::Int8MinMax, PLACEMENT>;
    case Codec::Int8ZeroPoint: return &decode_these_groups<Codec::Int8ZeroPoint, PLACEMENT>;
    case Codec::Int8Block: return &decode_these_groups<Codec::Int8Block, PLACEMENT>;
    case Codec::Int4Block: return &decode_these_groups<Codec::Int4Block, PLACEMENT>;
    case Codec::E3M0: return &decode_these_groups<Codec::E3M0, PLACEMENT>;
  }
  return nullptr;
}

DecodeGroups decode_groups_here(Codec codec, Placement placement) {
  return placement == Placement::Stream ? decode_groups_of<Placement::Stream>(codec) : decode_groups_of<Placement::Store>(codec);
}

}  // namespace prime::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // PRIME_CODEC_DECODE_INL
