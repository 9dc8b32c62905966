// Owns the arithmetic of a TOPLOC commitment (arXiv:2501.16007): the largest activations of a segment as a polynomial over a prime field,
// and the comparison of that polynomial with somebody's own activations. Every version (reference, each vector width, CUDA) gives the
// same points, coefficients and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace prime::kernels {

/// The field is GF(65497): a prime above every finite bf16 pattern, whose numbers fit 16 bits.
inline constexpr std::uint32_t COMMITMENT_PRIME = 65497;
/// The most values that one commitment holds: interpolation costs the square of them.
inline constexpr std::size_t COMMITTED_MAXIMUM = 8192;
/// The most values of a segment: an index has 32 bits.
inline constexpr std::size_t SEGMENT_VALUES_MAXIMUM = std::size_t{1} << 32;
/// The first bf16 magnitude that is not finite.
inline constexpr std::uint16_t BF16_INFINITY = 0x7F80;

/// One activation: where it lies in its flattened segment, and its bf16 pattern.
struct TopValue {
  std::uint32_t index = 0;
  std::uint16_t bits = 0;
  friend bool operator==(const TopValue&, const TopValue&) = default;
};

/// The values with the largest magnitude, the largest first, of equal ones the lower index first.
/// Shapes: bits holds at most SEGMENT_VALUES_MAXIMUM values; out holds at most as many, and at most COMMITTED_MAXIMUM.
/// Returns the index of the first NaN or infinity; then out holds nothing of use.
[[nodiscard]] std::optional<std::size_t> top_values(std::span<const std::uint16_t> bits, std::span<TopValue> out);
[[nodiscard]] std::optional<std::size_t> top_values_reference(std::span<const std::uint16_t> bits, std::span<TopValue> out);

/// The largest m ≤ 65497 for which all indices differ modulo m; 0 when there is none. The indices themselves differ.
[[nodiscard]] std::uint32_t injective_modulus(std::span<const TopValue> points);
[[nodiscard]] std::uint32_t injective_modulus_reference(std::span<const TopValue> points);

/// The polynomial of the lowest degree through (index mod modulus, bits), as ascending coefficients. Shapes: coefficients holds at least as
/// many as there are points, and at most COMMITTED_MAXIMUM; what is more is 0. The modulus is one that injective_modulus gave.
void interpolate(std::span<const TopValue> points, std::uint32_t modulus, std::span<std::uint16_t> coefficients);
void interpolate_reference(std::span<const TopValue> points, std::uint32_t modulus, std::span<std::uint16_t> coefficients);

/// out[i] = the polynomial at own[i].index mod modulus. Coefficients are below COMMITMENT_PRIME, 1 ≤ modulus ≤ COMMITMENT_PRIME.
/// Shapes: out has the size of own.
void evaluate(std::span<const std::uint16_t> coefficients, std::uint32_t modulus, std::span<const TopValue> own,
              std::span<std::uint16_t> out);
void evaluate_reference(std::span<const std::uint16_t> coefficients, std::uint32_t modulus, std::span<const TopValue> own,
                        std::span<std::uint16_t> out);

/// How far committed values are from one's own.
struct Comparison {
  std::size_t values = 0;               ///< how many were compared
  std::size_t exponent_mismatches = 0;  ///< values whose exponent fields differ
  std::size_t sign_mismatches = 0;      ///< of the others, those whose signs differ, which TOPLOC itself does not look at
  double mantissa_mean = 0;             ///< of |difference of the 7 mantissa bits| over equal exponents; 2^64 when none is equal
  double mantissa_median = 0;           ///< the mean of the two in the middle where their count is even
  [[nodiscard]] std::size_t exponent_intersections() const { return values - exponent_mismatches; }
  friend bool operator==(const Comparison&, const Comparison&) = default;
};
/// Shapes: as many committed patterns as own values.
[[nodiscard]] Comparison compare(std::span<const std::uint16_t> committed, std::span<const TopValue> own);
[[nodiscard]] Comparison compare_reference(std::span<const std::uint16_t> committed, std::span<const TopValue> own);

}  // namespace prime::kernels
