// Owns the conversions between f32 and the 16-bit floats, in integer steps that every machine rounds alike.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/host_device.hpp"

namespace prime::kernels {

inline constexpr std::uint32_t SIGN_BIT = 0x80000000U;
inline constexpr std::uint32_t INFINITY_BITS = 0x7F800000U;
/// Adding it to |t| < 2^22 leaves t, rounded to the nearest integer (ties to even), in the low bits.
inline constexpr float ROUNDER = 12582912.0F;  // 1.5·2^23
inline constexpr std::uint32_t ROUNDER_BITS = 0x4B400000U;
inline constexpr float TWO_TO_112 = 5192296858534827628530496329220096.0F;
/// Below these bits a value is denormal as f16 (2^-14).
inline constexpr std::uint32_t F16_NORMAL_BITS = 0x38800000U;
/// The distance between the exponents of f32 and f16, in place.
inline constexpr std::uint32_t F16_EXPONENT_SHIFT = 112U << 23;

/// Of finite magnitudes below 65520, given as bits without a sign.
PRIME_DEVICE inline std::uint32_t f16_magnitude(std::uint32_t magnitude) {
  // 0.5 has the spacing of f16's denormals, so the addition itself rounds.
  if (magnitude < F16_NORMAL_BITS) return std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000U;
  return (magnitude - F16_EXPONENT_SHIFT + 0xFFFU + ((magnitude >> 13) & 1U)) >> 13;
}

/// To the nearest, ties to even; 65520 and more become infinite; a NaN stays one.
PRIME_DEVICE inline std::uint16_t f32_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits & SIGN_BIT) >> 16;
  const std::uint32_t magnitude = bits & ~SIGN_BIT;
  if (magnitude > INFINITY_BITS) return static_cast<std::uint16_t>(sign | 0x7E00U);
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);
  return static_cast<std::uint16_t>(sign | f16_magnitude(magnitude));
}

PRIME_DEVICE inline float f16_to_f32(std::uint16_t code) {
  const std::uint32_t sign = (code & 0x8000U) << 16;
  const std::uint32_t magnitude = (code & 0x7FFFU) << 13;
  // The product moves the exponent and makes denormals normal; infinity and NaN keep an exponent of ones.
  const auto finite = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * TWO_TO_112);
  return std::bit_cast<float>(sign | (magnitude >= (0x7C00U << 13) ? magnitude | INFINITY_BITS : finite));
}

PRIME_DEVICE inline std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & ~SIGN_BIT) > INFINITY_BITS) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

PRIME_DEVICE inline float bf16_to_f32(std::uint16_t code) { return std::bit_cast<float>(std::uint32_t{code} << 16); }

}  // namespace prime::kernels
