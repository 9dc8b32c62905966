// Owns the door to the vector versions of the commitment. Numbers of the field are 32 bits each, all below COMMITMENT_PRIME.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace prime::kernels {

/// Arrays of points are padded to a multiple of this many: whole vectors of every instruction set.
inline constexpr std::size_t FIELD_PADDING = 16;
constexpr std::size_t padded(std::size_t count) { return (count + FIELD_PADDING - 1) / FIELD_PADDING * FIELD_PADDING; }

/// The first place at or after `from` whose magnitude is above the threshold; the size of bits when there is none.
std::size_t next_above(std::span<const std::uint16_t> bits, std::size_t from, std::uint16_t threshold);

/// out[i] = the polynomial at points[i]. Shapes: points and out have one padded size.
void evaluate_many(std::span<const std::uint32_t> coefficients, std::span<const std::uint32_t> points, std::span<std::uint32_t> out);

/// polynomial *= (x − root); `degree` before. Shape: polynomial holds FIELD_PADDING numbers more than it will have coefficients, 0 above.
void multiply_by_root(std::span<std::uint32_t> polynomial, std::size_t degree, std::uint32_t root);

/// coefficients[j] = Σ_i weights[i] · (coefficient j of master / (x − points[i])). Shapes: points and weights have one padded size, master
/// one coefficient more than coefficients.
void sum_of_quotients(std::span<const std::uint32_t> master, std::span<const std::uint32_t> points, std::span<const std::uint32_t> weights,
                      std::span<std::uint16_t> coefficients);

}  // namespace prime::kernels
