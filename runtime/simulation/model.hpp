// Owns the stand-in for a model: a few real numbers that show every wrong divisor, stale input and double count.
#pragma once

#include <array>
#include <cstdint>

#include "messages/ids.hpp"

namespace prime::sim {

using Numbers = std::array<double, 3>;

/// The shared state as one peer holds it.
struct Model {
  Numbers numbers{};
  Revision revision;
  std::uint64_t cursor = 0;
};

/// Hash of everything that the peers must agree on.
Digest digest_of(const Model& model);
/// What a peer's trainer makes of a base state: a function of who, when, from where and on which data.
Numbers pseudo_gradient(PeerId peer, OuterStep step, const Model& base, std::uint64_t first_sample);
/// Tokens that a peer trains on in a step; differs between peers, so that a plain mean is told from a weighted one.
std::uint64_t weight_of(PeerId peer, OuterStep step);
/// The values that a trainer is born with.
Model initial_model(std::uint64_t seed);

}  // namespace prime::sim
