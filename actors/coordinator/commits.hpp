// Owns a commit: what the ledger, the journal and every member learn when a fragment has its next version. Pure.
#pragma once

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator::commits {

/// The operation led to `parts`, one of each shard: that is the fragment's version now. Returns whether all fragments have made the step.
bool apply(State& state, const Operation& operation, std::uint32_t fragment, const std::vector<Digest>& parts, Instant now,
           Effects& effects);
/// As this member hears of it, who holds one shard.
[[nodiscard]] Commit told_to(const State& state, const Decided& decided, PeerId member);
/// The last one of each fragment, in the order in which they were decided.
[[nodiscard]] std::vector<Decided> in_order(const State& state);

}  // namespace prime::coordinator::commits
