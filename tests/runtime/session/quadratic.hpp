// Owns the small problem that test trainers solve, and the same outer steps by hand.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "messages/result.hpp"

namespace prime::test {

/// For steps of a test that cannot fail unless the test has.
inline void must(const Result<void>& done) {
  if (!done) throw std::runtime_error(to_string(done.error()));
}

inline constexpr float INNER_RATE = 0.125F;

inline std::vector<float> initial_values(std::size_t count, float offset) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = offset + 0.37F * static_cast<float>(i);
  return values;
}

/// One inner step of gradient descent on ½‖values − 3‖²; returns the loss before it.
inline double descend(std::vector<float>& values) {
  double loss = 0;
  for (auto& value : values) {
    const float gradient = value - 3.0F;
    loss += 0.5 * static_cast<double>(gradient) * static_cast<double>(gradient);
    value -= INNER_RATE * gradient;
  }
  return loss;
}

/// DiLoCo with one peer, written out: what the whole machinery must equal bit for bit.
struct ByHand {
  std::vector<float> values;
  std::vector<float> momentum = std::vector<float>(values.size());
  void step(std::uint32_t inner_steps) {
    auto local = values;
    for (std::uint32_t i = 0; i < inner_steps; ++i) descend(local);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float gradient = values[i] - local[i];
      momentum[i] = 0.9F * momentum[i] + gradient;
      values[i] = values[i] - 0.7F * (gradient + 0.9F * momentum[i]);
    }
  }
};

}  // namespace prime::test
