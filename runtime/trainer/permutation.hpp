// Owns the order of samples: a keyed bijection over [0, size), so that a pass takes every window once without a list in memory.
#pragma once

#include <array>
#include <cstdint>

namespace prime::trainer {

/// One well-mixed 64-bit number for another (the finalizer of SplitMix64); a bijection.
std::uint64_t mix(std::uint64_t value);

/// A Feistel network over the smallest even number of bits that holds `size`; values outside are walked on until they are inside.
/// Fewer than four walks on average, since the domain is at most four times too large.
class Permutation {
 public:
  /// `size` ≥ 1. Equal (size, key, pass) give equal permutations on every machine.
  Permutation(std::uint64_t size, std::uint64_t key, std::uint64_t pass);
  /// `position` < size.
  [[nodiscard]] std::uint64_t operator()(std::uint64_t position) const;

 private:
  static constexpr std::size_t ROUNDS = 6;

  std::uint64_t size_;
  unsigned half_bits_;
  std::uint64_t half_mask_;
  std::array<std::uint64_t, ROUNDS> keys_{};
};

}  // namespace prime::trainer
