#include <array>
#include <cmath>

#include "kernels/merge/merge.hpp"

namespace prime::kernels {

double length_reference(std::span<const float> x) {
  std::array<double, 16> sums{};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = x[i];
    sums[i % sums.size()] += value * value;
  }
  double sum = 0;
  for (const double each : sums) sum += each;
  return std::sqrt(sum);
}

void scale_reference(std::span<float> x, double factor) {
  for (float& value : x) value = static_cast<float>(value * factor);
}

}  // namespace prime::kernels
