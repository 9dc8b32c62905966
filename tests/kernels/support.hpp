// Owns the numbers that kernel tests feed in: all kinds of floats at every alignment.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace prime::kernels::test {

/// Sizes around the widths of vectors and blocks.
inline const std::vector<std::size_t> SIZES{0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 100, 2047, 2048, 2049, 4096, 5003};

/// Normal, tiny, huge, denormal and zero values of both signs; finite.
inline float any_float(std::mt19937_64& random) {
  const auto kind = random() % 8;
  const auto bits = static_cast<std::uint32_t>(random());
  if (kind == 0) return std::bit_cast<float>(bits & 0x807FFFFFU);  // denormal or zero
  if (kind == 1) return std::bit_cast<float>(bits & 0x80000000U);  // zero
  if (kind == 2) return std::bit_cast<float>((bits & 0xFEFFFFFFU) | 0x00800000U);
  return std::normal_distribution<float>(0, 1)(random);
}

/// A span that begins `offset` floats into its own storage.
struct Shifted {
  std::vector<float> storage;
  std::size_t offset;
  Shifted(std::size_t count, std::size_t shift) : storage(count + shift), offset(shift) {}
  Shifted(std::size_t count, std::size_t shift, std::mt19937_64& random) : Shifted(count, shift) {
    for (auto& value : storage) value = any_float(random);
  }
  std::span<float> span() { return std::span{storage}.subspan(offset); }
};

/// Bits, not values: -0 differs from 0, and a NaN equals itself.
inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

}  // namespace prime::kernels::test
