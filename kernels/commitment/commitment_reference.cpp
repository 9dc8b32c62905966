// Owns the commitment as it is written down: sort, search, Lagrange, Horner. Slow, and obviously right.
#include <algorithm>
#include <set>
#include <vector>

#include "kernels/commitment/commitment.hpp"

namespace prime::kernels {
namespace {

constexpr std::uint64_t FIELD_SIZE = COMMITMENT_PRIME;

std::uint64_t power(std::uint64_t base, std::uint64_t exponent) {
  std::uint64_t result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result = result * base % FIELD_SIZE;
    base = base * base % FIELD_SIZE;
  }
  return result;
}

}  // namespace

std::optional<std::size_t> top_values_reference(std::span<const std::uint16_t> bits, std::span<TopValue> out) {
  const auto magnitude = [](const TopValue& value) { return value.bits & 0x7FFF; };
  std::vector<TopValue> all;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    all.push_back({static_cast<std::uint32_t>(i), bits[i]});
    if (magnitude(all.back()) >= BF16_INFINITY) return i;
  }
  std::stable_sort(all.begin(), all.end(), [&](const TopValue& a, const TopValue& b) { return magnitude(a) > magnitude(b); });
  std::copy_n(all.begin(), out.size(), out.begin());
  return std::nullopt;
}

std::uint32_t injective_modulus_reference(std::span<const TopValue> points) {
  for (std::uint32_t modulus = COMMITMENT_PRIME; modulus > 0; --modulus) {
    std::set<std::uint32_t> residues;
    for (const auto& point : points) residues.insert(point.index % modulus);
    if (residues.size() == points.size()) return modulus;
  }
  return 0;
}

void interpolate_reference(std::span<const TopValue> points, std::uint32_t modulus, std::span<std::uint16_t> coefficients) {
  std::vector<std::uint64_t> sum(coefficients.size(), 0);
  for (const auto& here : points) {
    // bits · Π (x − x_j) / (x_here − x_j), factor by factor.
    const std::uint64_t x = here.index % modulus;
    std::vector<std::uint64_t> basis{1};
    std::uint64_t divisor = 1;
    for (const auto& other : points) {
      if (&other == &here) continue;
      const std::uint64_t root = other.index % modulus;
      basis.push_back(0);
      for (std::size_t i = basis.size(); i-- > 0;) basis[i] = ((i > 0 ? basis[i - 1] : 0) + (FIELD_SIZE - root) * basis[i]) % FIELD_SIZE;
      divisor = divisor * (x + FIELD_SIZE - root) % FIELD_SIZE;
    }
    const std::uint64_t factor = here.bits * power(divisor, FIELD_SIZE - 2) % FIELD_SIZE;
    for (std::size_t i = 0; i < basis.size(); ++i) sum[i] = (sum[i] + factor * basis[i]) % FIELD_SIZE;
  }
  for (std::size_t i = 0; i < sum.size(); ++i) coefficients[i] = static_cast<std::uint16_t>(sum[i]);
}

void evaluate_reference(std::span<const std::uint16_t> coefficients, std::uint32_t modulus, std::span<const TopValue> own,
                        std::span<std::uint16_t> out) {
  for (std::size_t i = 0; i < own.size(); ++i) {
    std::uint64_t value = 0;
    for (std::size_t j = coefficients.size(); j-- > 0;) value = (value * (own[i].index % modulus) + coefficients[j]) % FIELD_SIZE;
    out[i] = static_cast<std::uint16_t>(value);
  }
}

Comparison compare_reference(std::span<const std::uint16_t> committed, std::span<const TopValue> own) {
  Comparison result;
  result.values = own.size();
  std::vector<int> errors;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const int mine = own[i].bits, theirs = committed[i];
    if ((mine >> 7 & 0xFF) != (theirs >> 7 & 0xFF)) {
      ++result.exponent_mismatches;
      continue;
    }
    if (mine >> 15 != theirs >> 15) ++result.sign_mismatches;
    errors.push_back(std::abs((mine & 0x7F) - (theirs & 0x7F)));
  }
  result.mantissa_mean = result.mantissa_median = 0x1p64;
  if (errors.empty()) return result;
  std::sort(errors.begin(), errors.end());
  double sum = 0;
  for (const int error : errors) sum += error;
  const std::size_t count = errors.size();
  result.mantissa_mean = sum / static_cast<double>(count);
  result.mantissa_median = (errors[(count - 1) / 2] + errors[count / 2]) / 2.0;
  return result;
}

}  // namespace prime::kernels
