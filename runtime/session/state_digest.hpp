// Owns the digest of a shared state, and how the values of a file are shared out among its fragments. The same law for peers, joiners and
// checkpoints.
#pragma once

#include <span>
#include <vector>

#include "messages/ids.hpp"
#include "runtime/session/layout.hpp"

namespace prime {

/// Of one version of a fragment. Of the whole: kernels::digest_of_parts.
Digest fragment_digest(std::uint32_t fragment, OuterStep version, std::span<const float> parameters, std::span<const float> momentum,
                       unsigned threads = 1);

/// All values of a state, tensor after tensor in the order in which they were bound.
struct FlatState {
  std::span<const float> parameters;
  std::span<const float> momentum;  ///< empty: it is zero
};

/// Copies what belongs to one fragment of `layout` to where it lies.
void place(const FlatState& from, const Layout& layout, std::uint32_t fragment, std::span<float> parameters, std::span<float> momentum);

/// Of each fragment, divided as `layout` is, all at one version. Takes the memory of the largest fragment twice.
std::vector<Digest> fragment_digests(const FlatState& state, const Layout& layout, OuterStep version);

}  // namespace prime
