// Owns the fast commitment: one pass over the activations, and O(k²) multiplications of whole vectors for the polynomial.
#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "kernels/commitment/commitment.hpp"
#include "kernels/commitment/commitment_vector.hpp"

namespace prime::kernels {
namespace {

/// A value as one number: the larger comes first, of equal magnitudes the lower index. Never 0 twice, since indices differ.
std::uint64_t key_of(std::size_t index, std::uint16_t bits) {
  return std::uint64_t{bits & 0x7FFFU} << 33 | std::uint64_t{~static_cast<std::uint32_t>(index)} << 1 | (bits >> 15);
}
std::uint16_t magnitude_of(std::uint64_t key) { return static_cast<std::uint16_t>(key >> 33); }
TopValue top_value_of(std::uint64_t key) {
  return {~static_cast<std::uint32_t>(key >> 1), static_cast<std::uint16_t>(magnitude_of(key) | (key & 1) << 15)};
}

std::uint32_t inverse(std::uint64_t value) {
  std::uint64_t result = 1;
  for (std::uint64_t exponent = COMMITMENT_PRIME - 2; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result = result * value % COMMITMENT_PRIME;
    value = value * value % COMMITMENT_PRIME;
  }
  return static_cast<std::uint32_t>(result);
}

/// Each by its inverse, with one inversion: the product of all before and the inverse of the product of all up to here give one. None is 0.
void invert_all(std::span<std::uint32_t> values) {
  std::vector<std::uint32_t> products{1};
  for (const auto value : values) products.push_back(static_cast<std::uint32_t>(std::uint64_t{products.back()} * value % COMMITMENT_PRIME));
  std::uint64_t rest = inverse(products.back());
  for (std::size_t i = values.size(); i-- > 0;) {
    const std::uint64_t value = values[i];
    values[i] = static_cast<std::uint32_t>(rest * products[i] % COMMITMENT_PRIME);
    rest = rest * value % COMMITMENT_PRIME;
  }
}

std::vector<std::uint32_t> residues(std::span<const TopValue> points, std::uint32_t modulus) {
  std::vector<std::uint32_t> at(padded(points.size()), 0);
  for (std::size_t i = 0; i < points.size(); ++i) at[i] = points[i].index % modulus;
  return at;
}

}  // namespace

std::optional<std::size_t> top_values(std::span<const std::uint16_t> bits, std::span<TopValue> out) {
  // Whoever beats the least of the best so far is kept; whenever twice as many are there as are wanted, the lesser half goes.
  const std::size_t wanted = out.size();
  const std::size_t capacity = 2 * wanted + 256;
  std::vector<std::uint64_t> kept;
  kept.reserve(capacity);
  bool full = false;
  std::uint16_t threshold = wanted == 0 ? BF16_INFINITY - 1 : 0;
  for (std::size_t i = 0;; ++i) {
    if (full || wanted == 0) i = next_above(bits, i, threshold);
    if (i >= bits.size()) break;
    if ((bits[i] & 0x7FFFU) >= BF16_INFINITY) return i;
    kept.push_back(key_of(i, bits[i]));
    if (kept.size() < capacity) continue;
    std::nth_element(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(wanted) - 1, kept.end(), std::greater<>{});
    kept.resize(wanted);
    threshold = magnitude_of(kept.back());
    full = true;
  }
  std::partial_sort(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(wanted), kept.end(), std::greater<>{});
  std::transform(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(wanted), out.begin(), top_value_of);
  return std::nullopt;
}

std::uint32_t injective_modulus(std::span<const TopValue> points) {
  const bool low = std::all_of(points.begin(), points.end(), [](const TopValue& point) { return point.index < COMMITMENT_PRIME; });
  if (low) return COMMITMENT_PRIME;
  std::array<std::uint64_t, COMMITMENT_PRIME / 64 + 1> taken{};
  for (std::uint32_t modulus = COMMITMENT_PRIME; modulus >= points.size() && modulus > 0; --modulus) {
    taken.fill(0);
    const bool distinct = std::all_of(points.begin(), points.end(), [&](const TopValue& point) {
      const std::uint32_t residue = point.index % modulus;
      auto& word = taken[residue / 64];
      const std::uint64_t bit = std::uint64_t{1} << (residue % 64);
      const bool is_new = (word & bit) == 0;
      word |= bit;
      return is_new;
    });
    if (distinct) return modulus;
  }
  return 0;
}

void interpolate(std::span<const TopValue> points, std::uint32_t modulus, std::span<std::uint16_t> coefficients) {
  // Lagrange: Σ bits_i / M'(x_i) · M / (x − x_i) with M = Π (x − x_j).
  const std::size_t count = points.size();
  const auto at = residues(points, modulus);
  std::vector<std::uint32_t> master(count + 1 + FIELD_PADDING, 0);
  master[0] = 1;
  for (std::size_t i = 0; i < count; ++i) multiply_by_root(master, i, at[i]);
  std::vector<std::uint32_t> derivative(count);
  for (std::size_t i = 0; i < count; ++i)
    derivative[i] = static_cast<std::uint32_t>(std::uint64_t{i + 1} * master[i + 1] % COMMITMENT_PRIME);
  std::vector<std::uint32_t> weights(at.size());
  evaluate_many(derivative, at, weights);
  invert_all(std::span{weights}.first(count));
  for (std::size_t i = 0; i < count; ++i)
    weights[i] = static_cast<std::uint32_t>(std::uint64_t{weights[i]} * points[i].bits % COMMITMENT_PRIME);
  std::fill(weights.begin() + static_cast<std::ptrdiff_t>(count), weights.end(), 0);
  sum_of_quotients(std::span{master}.first(count + 1), at, weights, coefficients.first(count));
  std::fill(coefficients.begin() + static_cast<std::ptrdiff_t>(count), coefficients.end(), std::uint16_t{0});
}

void evaluate(std::span<const std::uint16_t> coefficients, std::uint32_t modulus, std::span<const TopValue> own,
              std::span<std::uint16_t> out) {
  const std::vector<std::uint32_t> wide(coefficients.begin(), coefficients.end());
  const auto at = residues(own, modulus);
  std::vector<std::uint32_t> values(at.size());
  evaluate_many(wide, at, values);
  std::transform(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(out.size()), out.begin(),
                 [](std::uint32_t value) { return static_cast<std::uint16_t>(value); });
}

Comparison compare(std::span<const std::uint16_t> committed, std::span<const TopValue> own) {
  Comparison result;
  result.values = own.size();
  std::array<std::size_t, 128> errors{};  // of 7 bits there are so many: counting them finds the median, too
  std::size_t sum = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const unsigned mine = own[i].bits, theirs = committed[i];
    const bool same_exponent = ((mine ^ theirs) & 0x7F80U) == 0;
    result.exponent_mismatches += same_exponent ? 0 : 1;
    if (!same_exponent) continue;
    result.sign_mismatches += (mine ^ theirs) >> 15;
    const unsigned a = mine & 0x7FU, b = theirs & 0x7FU;
    ++errors[a > b ? a - b : b - a];
    sum += a > b ? a - b : b - a;
  }
  const std::size_t count = result.exponent_intersections();
  result.mantissa_mean = result.mantissa_median = 0x1p64;
  if (count == 0) return result;
  const auto ranked = [&](std::size_t rank) {
    std::size_t error = 0;
    for (std::size_t before = errors[0]; before <= rank; before += errors[error]) ++error;
    return error;
  };
  result.mantissa_mean = static_cast<double>(sum) / static_cast<double>(count);
  result.mantissa_median = static_cast<double>(ranked((count - 1) / 2) + ranked(count / 2)) / 2.0;
  return result;
}

}  // namespace prime::kernels
