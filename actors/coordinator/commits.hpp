// Owns a commit: what the ledger, the journal and every member learn when a fragment has its next version. Pure.
#pragma once

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator::commits {

/// The operation led to `part`: that is the fragment's version now. Returns whether all fragments have made the step.
bool apply(State& state, const Operation& operation, std::uint32_t fragment, const Digest& part, Instant now, Effects& effects);
/// The last one of each fragment, in the order in which they were decided.
[[nodiscard]] std::vector<Decided> in_order(const State& state);

}  // namespace prime::coordinator::commits
