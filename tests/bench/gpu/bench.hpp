// Owns what the two parts of the benchmark share: what they measure with, and the lines that compare.py reads.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

namespace prime::bench::gpu {

/// Of an outer step: small, and different everywhere that matters.
inline std::vector<float> drawn(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.01F);
  const std::size_t own = std::min<std::size_t>(count, 1U << 16);  // drawing them all would take longer than the benchmark
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = i < own ? normal(random) : values[i - own] + static_cast<float>(i / own) * 1e-6F;
  return values;
}

template <class Work>
double seconds_of(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Print a line for each figure; false when a result is not that of the CPU. `part`: kernels, or all, or some of them by their name here:
/// codecs, sums, digest, top, bare.
bool time_kernels(std::string_view part, std::size_t count, std::size_t repeats);
bool time_reduces(std::size_t bytes, std::size_t repeats);

}  // namespace prime::bench::gpu
