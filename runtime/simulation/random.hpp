// Owns the simulation's randomness: a few lines of our own, so that a seed means the same run with every standard library.
#pragma once

#include <cstdint>

#include "messages/units.hpp"

namespace prime::sim {

/// SplitMix64: every bit of the state moves every bit of the output.
inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(mix(seed)) {}

  std::uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15ULL); }
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }
  bool chance(double probability) { return unit() < probability; }
  double unit() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }
  Duration between(Duration low, Duration high) {
    return low + Duration{static_cast<Duration::rep>(below(static_cast<std::uint64_t>((high - low).count()) + 1))};
  }

 private:
  std::uint64_t state_;
};

}  // namespace prime::sim
