// Owns the door through which Python calls our commitments, in the process that has the published package: for the test against it, and
// for the benchmark beside it.
#include <algorithm>

#include "prime/commitment.hpp"

using prime::kernels::TopValue;

namespace {

std::vector<TopValue> points_of(const std::uint32_t* indices, const std::uint16_t* bits, std::size_t count) {
  std::vector<TopValue> points(count);
  for (std::size_t i = 0; i < count; ++i) points[i] = {indices[i], bits[i]};
  return points;
}

}  // namespace

extern "C" {

/// `proof` takes 2 + 2k bytes. 0, or 1 when there is none.
int bridge_build(const std::uint16_t* bits, std::size_t count, std::uint32_t k, std::uint8_t* proof) {
  const auto built = prime::build_proof({bits, count}, k);
  if (!built) return 1;
  std::ranges::copy(*built, proof);
  return 0;
}

/// `out`: exponent mismatches, sign mismatches, mantissa mean, mantissa median.
int bridge_compare(const std::uint8_t* proof, std::size_t bytes, const std::uint16_t* bits, std::size_t count, std::uint32_t k,
                   double* out) {
  const auto comparison = prime::compare_proof({proof, bytes}, {bits, count}, k);
  if (!comparison) return 1;
  out[0] = static_cast<double>(comparison->exponent_mismatches);
  out[1] = static_cast<double>(comparison->sign_mismatches);
  out[2] = comparison->mantissa_mean;
  out[3] = comparison->mantissa_median;
  return 0;
}

/// The indices of the largest values.
int bridge_top(const std::uint16_t* bits, std::size_t count, std::uint32_t k, std::uint32_t* indices) {
  std::vector<TopValue> points(k);
  if (prime::kernels::top_values({bits, count}, points)) return 1;
  std::ranges::transform(points, indices, &TopValue::index);
  return 0;
}

/// From points to coefficients, the choice of the modulus included; returns the modulus.
std::uint32_t bridge_interpolate(const std::uint32_t* indices, const std::uint16_t* bits, std::size_t count, std::uint16_t* coefficients) {
  const auto points = points_of(indices, bits, count);
  const auto modulus = prime::kernels::injective_modulus(points);
  prime::kernels::interpolate(points, modulus, {coefficients, count});
  return modulus;
}

void bridge_evaluate(const std::uint16_t* coefficients, std::size_t terms, std::uint32_t modulus, const std::uint32_t* indices,
                     std::size_t count, std::uint16_t* out) {
  prime::kernels::evaluate({coefficients, terms}, modulus, points_of(indices, out, count), {out, count});
}
}
