// Owns the stand-in for a model: a few real numbers that show every wrong divisor, stale input and double count.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "messages/ids.hpp"

namespace prime::sim {

using Numbers = std::array<double, 3>;
/// Each has a number at least.
inline constexpr std::uint32_t FRAGMENTS_MAX = std::tuple_size_v<Numbers>;

/// The shared state as one peer holds it. Its fragments are the numbers in turn.
struct Model {
  Numbers numbers{};
  Revision revision;
  std::uint64_t cursor = 0;
  std::vector<OuterStep> versions = std::vector<OuterStep>(1);  ///< by fragment; at most as many as there are numbers
};

/// Hash of everything that the peers must agree on.
Digest digest_of(const Model& model);
/// Of one fragment at its version; of the only one it is that of the model.
Digest digest_of(const Model& model, std::uint32_t fragment);
/// Of each fragment.
std::vector<Digest> parts_of(const Model& model);
/// After a reduce of a fragment: the mean is taken off its numbers.
Model next_of(const Model& model, std::uint32_t fragment, const Numbers& mean, std::uint64_t next_sample);
/// After its commit: the fragment as it is in `from`, in what the commits before have made of the others.
Model with_fragment(Model model, const Model& from, std::uint32_t fragment, std::uint64_t next_sample);
/// What a peer's trainer makes of a base state: a function of who, when, from where and on which data.
Numbers pseudo_gradient(PeerId peer, OuterStep step, const Model& base, std::uint64_t first_sample);
/// Tokens that a peer trains on in a step; differs between peers, so that a plain mean is told from a weighted one.
std::uint64_t weight_of(PeerId peer, OuterStep step);
/// The values that a trainer is born with.
Model initial_model(std::uint64_t seed, std::uint32_t fragments);

}  // namespace prime::sim
