#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/merge/merge.hpp"

namespace prime::kernels {

double length(std::span<const float> x) {
  constexpr std::size_t LANES = 16;
  std::array<double, LANES> sums{};
  const float* __restrict values = x.data();
  const std::size_t whole = x.size() - x.size() % LANES;
  for (std::size_t i = 0; i < whole; i += LANES)
    for (std::size_t lane = 0; lane < LANES; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  for (std::size_t i = whole; i < x.size(); ++i) {
    const double value = values[i];
    sums[i - whole] += value * value;
  }
  double sum = 0;
  for (const double each : sums) sum += each;
  return std::sqrt(sum);
}

void scale(std::span<float> x, double factor) {
  float* __restrict values = x.data();
  for (std::size_t i = 0; i < x.size(); ++i) values[i] = static_cast<float>(values[i] * factor);
}

double radial_factor(double radius, double unit, std::size_t contributors) {
  if (unit == 0 || radius == 0) return 0;
  return std::min(radius / unit, radius * std::sqrt(static_cast<double>(contributors)));
}

}  // namespace prime::kernels
