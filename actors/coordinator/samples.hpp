// Owns who trains on which samples (law 12): ranges are handed out once, and come back where no fragment has the work on them. Pure.
#pragma once

#include <set>

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator::samples {

/// What nobody has trained on yet comes first.
[[nodiscard]] std::uint64_t next_range(State& state);
/// First samples of the ranges that a member was told to train on, as long as no fragment has its work.
[[nodiscard]] std::set<std::uint64_t> unused_by(const State& state, PeerId member);
/// A fragment has a member's work on that range.
void note_taken(State& state, PeerId member, std::uint64_t first_sample);

}  // namespace prime::coordinator::samples
