// Owns the median that all benchmarks tell: of an even count the mean of the two in the middle.
#pragma once

#include <algorithm>
#include <vector>

namespace prime::bench {

/// `values`: one at least.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

}  // namespace prime::bench
