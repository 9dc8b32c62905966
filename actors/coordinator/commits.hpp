// Owns a commit: what the ledger, the journal and every member learn when a fragment has its next version. Pure.
#pragma once

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator::commits {

/// The operation that is under way led to `part`: that is the fragment's version now. Returns whether all fragments have made the step.
bool apply(State& state, const Digest& part, Instant now, Effects& effects);

}  // namespace prime::coordinator::commits
