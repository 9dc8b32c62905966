// Owns the arithmetic of one value and one block of each codec: the definition that every vector width and the GPU must equal.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/codec/codec.hpp"
#include "kernels/codec/philox.hpp"
#include "kernels/small_floats.hpp"

namespace prime::kernels {

struct BlockLayout {
  std::size_t values;  ///< in one block
  std::size_t head_bytes;
  std::size_t bits;  ///< of one code
};

PRIME_DEVICE constexpr BlockLayout block_layout(Codec codec) {
  switch (codec) {
    case Codec::None: return {CODEC_ALIGNMENT, 0, 32};
    case Codec::F16:
    case Codec::BF16: return {CODEC_ALIGNMENT, 0, 16};
    case Codec::Int8MinMax: return {256, 8, 8};
    case Codec::Int8ZeroPoint: return {256, 5, 8};
    case Codec::Int8Block: return {256, 4, 8};
    case Codec::Int4Block: return {32, 4, 4};
    case Codec::E3M0: return {256, 4, 4};
  }
  return {1, 0, 0};
}

/// Of one block of `values` values, which may be the short last one.
PRIME_DEVICE constexpr std::size_t block_bytes(const BlockLayout& layout, std::size_t values) {
  return layout.head_bytes + (values * layout.bits + 7) / 8;
}

/// A magnitude of these bits or more cannot be carried: it is not finite, or would not be after rounding.
PRIME_DEVICE constexpr std::uint32_t refused_bits(Codec codec) {
  if (codec == Codec::F16) return 0x477FF000U;   // 65520
  if (codec == Codec::BF16) return 0x7F7F8000U;  // half a step above the largest bf16
  return INFINITY_BITS;
}

/// What a block's scale depends on.
struct BlockRange {
  float minimum;
  float maximum;
  std::uint32_t magnitude;  ///< the greatest |x|, as bits
};

/// How the values of a block become codes and back. `step`, `middle` and `zero` travel; the rest is the encoder's.
struct BlockScale {
  float step = 0;
  float middle = 0;
  float zero = 0;  ///< a whole number from 0 to 255
  float inverse = 0;
  bool extreme = false;  ///< f32 would overflow or lose its denormals on the way: divide in f64
};

inline constexpr float HALF_OF_255 = 127.5F;
inline constexpr float SQUARE_ROOT_OF_2 = 1.41421356F;

/// Between these the inverse of a step, and its half (with which the vectors encode E3M0), are normal, and so are products with it.
inline constexpr float ORDINARY_FROM = 0x1p-64F;
inline constexpr float ORDINARY_TO = 0x1p125F;
PRIME_DEVICE constexpr bool is_extreme(std::uint32_t magnitude) {
  constexpr auto FROM = std::bit_cast<std::uint32_t>(ORDINARY_FROM);
  constexpr auto TO = std::bit_cast<std::uint32_t>(ORDINARY_TO);
  return (magnitude != 0) & (magnitude - FROM >= TO - FROM);
}

/// range/levels; where that is denormal, up, so that the levels still span the range.
PRIME_DEVICE inline float extreme_step(double range, double levels) {
  const auto step = static_cast<float>(range / levels);
  const auto bits = std::bit_cast<std::uint32_t>(step);
  const bool short_of_range = static_cast<double>(step) * levels < range;
  return bits < 0x00800000U && short_of_range ? std::bit_cast<float>(bits + 1) : step;
}

PRIME_DEVICE constexpr float symmetric_levels(Codec codec) { return codec == Codec::Int4Block ? 7.0F : 127.0F; }

PRIME_DEVICE inline float round_up(float value) {
  const float nearest = (value + ROUNDER) - ROUNDER;
  return nearest < value ? nearest + 1.0F : nearest;
}

/// In f32. Sums end with + 0 so that a zero of either sign makes the same bits, in whatever order the minimum was found.
PRIME_DEVICE inline BlockScale ordinary_scale(Codec codec, Rounding rounding, const BlockRange& range) {
  BlockScale scale;
  const float magnitude = std::bit_cast<float>(range.magnitude);
  if (codec == Codec::Int8Block || codec == Codec::Int4Block) {
    scale.step = magnitude / symmetric_levels(codec);
    scale.inverse = magnitude == 0 ? 0.0F : symmetric_levels(codec) / magnitude;
  } else if (codec == Codec::E3M0) {
    scale.step = magnitude;
    scale.inverse = magnitude == 0 ? 0.0F : (rounding == Rounding::Stochastic ? 1.0F : SQUARE_ROOT_OF_2) / magnitude;
  } else if (codec == Codec::Int8MinMax) {
    scale.middle = (range.minimum * 0.5F + range.maximum * 0.5F) + 0.0F;
    const float above = range.maximum - scale.middle;
    const float below = scale.middle - range.minimum;
    const float half = (above > below ? above : below) + 0.0F;  // they differ where the middle had to be rounded
    scale.step = half / HALF_OF_255;
    scale.inverse = half == 0 ? 0.0F : HALF_OF_255 / half;
  } else if (codec == Codec::Int8ZeroPoint) {
    const float low = range.minimum < 0 ? range.minimum : 0.0F;
    const float high = range.maximum > 0 ? range.maximum : 0.0F;
    const float span = high - low;
    scale.step = span / 254.0F;
    scale.inverse = span == 0 ? 0.0F : 254.0F / span;
    scale.zero = round_up(-(low * scale.inverse) + 0.0F);
  }
  return scale;
}

PRIME_DEVICE inline BlockScale extreme_scale(Codec codec, const BlockRange& range) {
  BlockScale scale;
  scale.extreme = true;
  const double magnitude = static_cast<double>(std::bit_cast<float>(range.magnitude));
  const auto minimum = static_cast<double>(range.minimum);
  const auto maximum = static_cast<double>(range.maximum);
  if (codec == Codec::Int8Block || codec == Codec::Int4Block) {
    scale.step = extreme_step(magnitude, static_cast<double>(symmetric_levels(codec)));
  } else if (codec == Codec::E3M0) {
    scale.step = std::bit_cast<float>(range.magnitude);
  } else if (codec == Codec::Int8MinMax) {
    scale.middle = static_cast<float>((minimum + maximum) * 0.5) + 0.0F;
    const double above = maximum - static_cast<double>(scale.middle);
    const double below = static_cast<double>(scale.middle) - minimum;
    scale.step = extreme_step(above > below ? above : below, 127.5);
  } else if (codec == Codec::Int8ZeroPoint) {
    const double low = minimum < 0 ? minimum : 0.0;
    scale.step = extreme_step((maximum > 0 ? maximum : 0.0) - low, 254.0);
    scale.zero = round_up(static_cast<float>(-low / static_cast<double>(scale.step)) + 0.0F);
  }
  return scale;
}

PRIME_DEVICE inline BlockScale block_scale(Codec codec, Rounding rounding, const BlockRange& range) {
  return is_extreme(range.magnitude) ? extreme_scale(codec, range) : ordinary_scale(codec, rounding, range);
}

/// The value in steps of its block.
PRIME_DEVICE inline float in_steps(Codec codec, const BlockScale& scale, float value) {
  if (!scale.extreme) return codec == Codec::Int8MinMax ? (value - scale.middle) * scale.inverse : value * scale.inverse;
  if (scale.step == 0) return 0;  // all values of a min-max block are equal
  const double offset = codec == Codec::Int8MinMax ? static_cast<double>(scale.middle) : 0.0;
  return static_cast<float>((static_cast<double>(value) - offset) / static_cast<double>(scale.step));
}

PRIME_DEVICE inline std::uint32_t round_to_even(float value) { return std::bit_cast<std::uint32_t>(value + ROUNDER) - ROUNDER_BITS; }

PRIME_DEVICE inline float clamp_to(float value, float low, float high) {
  const float bounded = value < high ? value : high;
  return bounded > low ? bounded : low;
}

/// The lowest level but zero, relative to the scale, and what stands in the exponent of the level below it.
inline constexpr float E3M0_LEAST = 0.015625F;
inline constexpr std::uint32_t E3M0_EXPONENT = 120;

/// Sign and three bits. Nearest in the logarithm: the exponent of √2·|x|/scale. Stochastic: random bits below the mantissa carry into
/// the exponent with the probability of the fraction; below the least level, adding that level makes the fraction linear down to zero.
PRIME_DEVICE inline std::uint32_t e3m0_code(const BlockScale& scale, Rounding rounding, float value, std::uint32_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  float ratio = std::bit_cast<float>(bits & ~SIGN_BIT);
  if (!scale.extreme) ratio = ratio * scale.inverse;
  else
    ratio = static_cast<float>(static_cast<double>(ratio) / static_cast<double>(scale.step) *
                               (rounding == Rounding::Stochastic ? 1.0 : static_cast<double>(SQUARE_ROOT_OF_2)));
  auto level = std::bit_cast<std::uint32_t>(ratio);
  if (rounding == Rounding::Stochastic) {
    if (ratio < E3M0_LEAST) level = std::bit_cast<std::uint32_t>(ratio + E3M0_LEAST) - (1U << 23);
    level += (random << 7) | 0x40U;
  } else if (level < E3M0_EXPONENT << 23) {
    level = E3M0_EXPONENT << 23;
  }
  return (bits >> 31 << 3) | ((level >> 23) - E3M0_EXPONENT);
}

PRIME_DEVICE inline std::uint32_t f16_code(Rounding rounding, float value, std::uint32_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & ~SIGN_BIT;
  const std::uint32_t sign = (bits & SIGN_BIT) >> 16;
  if (rounding == Rounding::Nearest) return sign | f16_magnitude(magnitude);
  const std::uint32_t noise = random >> 3;  // f16 drops 13 bits
  if (magnitude < F16_NORMAL_BITS) {
    const float in_units = std::bit_cast<float>(magnitude) * 16777216.0F;
    return sign | round_to_even(in_units + (std::bit_cast<float>(0x3F800200U | (noise << 10)) - 1.5F));
  }
  const std::uint32_t code = (magnitude - F16_EXPONENT_SHIFT + noise) >> 13;
  return sign | (code < 0x7BFFU ? code : 0x7BFFU);
}

PRIME_DEVICE inline std::uint32_t bf16_code(Rounding rounding, float value, std::uint32_t random) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (rounding == Rounding::Nearest) return f32_to_bf16(value);
  const std::uint32_t code = ((bits & ~SIGN_BIT) + random) >> 16;
  return (bits & SIGN_BIT) >> 16 | (code < 0x7F7FU ? code : 0x7F7FU);
}

PRIME_DEVICE inline float e3m0_value(float scale, std::uint32_t code) {
  const std::uint32_t level = code & 7U;
  const std::uint32_t sign = (code & 8U) << 28;
  return std::bit_cast<float>(sign | (level == 0 ? 0U : (level + E3M0_EXPONENT) << 23)) * scale;
}

/// `code` as it stands in the bytes: 4, 8 or 16 low bits.
PRIME_DEVICE inline float value_of(Codec codec, const BlockScale& scale, std::uint32_t code) {
  switch (codec) {
    case Codec::None: return std::bit_cast<float>(code);
    case Codec::F16: return f16_to_f32(static_cast<std::uint16_t>(code));
    case Codec::BF16: return bf16_to_f32(static_cast<std::uint16_t>(code));
    case Codec::Int8MinMax: return scale.middle + (static_cast<float>(code) - HALF_OF_255) * scale.step;
    case Codec::Int8ZeroPoint: return (static_cast<float>(code) - scale.zero) * scale.step;
    case Codec::Int8Block: return static_cast<float>(static_cast<std::int8_t>(code)) * scale.step;
    case Codec::Int4Block: return static_cast<float>(static_cast<std::int32_t>(code ^ 8U) - 8) * scale.step;
    case Codec::E3M0: return e3m0_value(scale.step, code);
  }
  return 0;
}

PRIME_DEVICE constexpr bool is_affine(Codec codec) { return codec == Codec::Int8MinMax || codec == Codec::Int8ZeroPoint; }

/// Stochastic: the value in 2^-15 steps, plus 15 random bits, rounded down. Fine enough that the mean is right to 2^-16 of a step, coarse
/// enough that the error of the scaling does not move a value that lies on a level. The codes of the affine codecs are made around 128.
inline constexpr float NOISE_UNITS = 32768.0F;
inline constexpr int NOISE_BITS = 15;

PRIME_DEVICE inline std::uint32_t noisy_code(Codec codec, const BlockScale& scale, float value, std::uint32_t random) {
  float units = in_steps(codec, scale, value) * NOISE_UNITS;
  float rounder = ROUNDER;
  if (codec == Codec::Int8MinMax) {
    units = clamp_to(units, -HALF_OF_255 * NOISE_UNITS, HALF_OF_255 * NOISE_UNITS);
    rounder = ROUNDER - 0.5F * NOISE_UNITS;  // the middle lies half a step above code 127
  } else if (codec == Codec::Int8ZeroPoint) {
    units = clamp_to(units + (scale.zero - 128.0F) * NOISE_UNITS, -128.0F * NOISE_UNITS, 127.0F * NOISE_UNITS);
  }
  const std::uint32_t whole = (std::bit_cast<std::uint32_t>(units + rounder) + (random >> 1)) >> NOISE_BITS;
  const std::uint32_t of_rounder = (ROUNDER_BITS >> NOISE_BITS) - (is_affine(codec) ? 128U : 0U);
  return (whole - of_rounder) & (codec == Codec::Int4Block ? 0xFU : 0xFFU);
}

/// Of the codecs with a linear scale, to the nearest, ties to even.
PRIME_DEVICE inline std::uint32_t nearest_code(Codec codec, const BlockScale& scale, float value) {
  const float steps = in_steps(codec, scale, value);
  switch (codec) {
    case Codec::Int8MinMax: return round_to_even(clamp_to(steps + HALF_OF_255, 0.0F, 255.0F));
    case Codec::Int8ZeroPoint: return round_to_even(clamp_to(steps + scale.zero, 0.0F, 255.0F));
    case Codec::Int8Block: return round_to_even(clamp_to(steps, -127.0F, 127.0F)) & 0xFFU;
    case Codec::Int4Block: return round_to_even(clamp_to(steps, -7.0F, 7.0F)) & 0xFU;
    case Codec::None:
    case Codec::F16:
    case Codec::BF16:
    case Codec::E3M0: return 0;
  }
  return 0;
}

/// A level may lie beyond the largest f32 though the value does not; then the next level towards zero.
PRIME_DEVICE inline std::uint32_t finite_code(Codec codec, const BlockScale& scale, std::uint32_t code) {
  const auto bits = std::bit_cast<std::uint32_t>(value_of(codec, scale, code));
  if ((bits & ~SIGN_BIT) < INFINITY_BITS) return code;
  return ((bits & SIGN_BIT) != 0 ? code + 1 : code - 1) & (codec == Codec::Int4Block ? 0xFU : 0xFFU);
}

/// `random` are the 16 bits of this value; not looked at for Nearest.
PRIME_DEVICE inline std::uint32_t code_of(Codec codec, Rounding rounding, const BlockScale& scale, float value, std::uint32_t random) {
  switch (codec) {
    case Codec::None: return std::bit_cast<std::uint32_t>(value);
    case Codec::F16: return f16_code(rounding, value, random);
    case Codec::BF16: return bf16_code(rounding, value, random);
    case Codec::E3M0: return e3m0_code(scale, rounding, value, random);
    case Codec::Int8MinMax:
    case Codec::Int8ZeroPoint:
    case Codec::Int8Block:
    case Codec::Int4Block: {
      const std::uint32_t code =
          rounding == Rounding::Stochastic ? noisy_code(codec, scale, value, random) : nearest_code(codec, scale, value);
      return scale.extreme ? finite_code(codec, scale, code) : code;
    }
  }
  return 0;
}

PRIME_DEVICE inline void store_head(Codec codec, const BlockScale& scale, std::byte* out) {
  if (codec == Codec::Int8MinMax) {
    std::memcpy(out, &scale.middle, 4);
    std::memcpy(out + 4, &scale.step, 4);
  } else if (block_layout(codec).head_bytes > 0) {
    std::memcpy(out, &scale.step, 4);
    if (codec == Codec::Int8ZeroPoint) out[4] = static_cast<std::byte>(static_cast<std::uint8_t>(scale.zero));
  }
}

PRIME_DEVICE inline BlockScale load_head(Codec codec, const std::byte* bytes) {
  BlockScale scale;
  if (codec == Codec::Int8MinMax) {
    std::memcpy(&scale.middle, bytes, 4);
    std::memcpy(&scale.step, bytes + 4, 4);
  } else if (block_layout(codec).head_bytes > 0) {
    std::memcpy(&scale.step, bytes, 4);
    if (codec == Codec::Int8ZeroPoint) scale.zero = static_cast<float>(std::to_integer<std::uint8_t>(bytes[4]));
  }
  return scale;
}

}  // namespace prime::kernels
