// Owns the way back to a checkpoint, after a loss that the manifest says so of. Pure; see coordinator_state.hpp.
#pragma once

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator::rollback {

/// What was committed since the checkpoint is void: everybody is sent away and joins anew, with the checkpoint or to fetch it.
void roll_back(State& state, Instant now, Effects& effects);
/// No step begins before somebody has brought the checkpoint.
void await_checkpoint(State& state, Instant now);
/// Why a peer is sent away while the run waits for those with the checkpoint.
Error cause(OuterStep to);
/// Its line in the journal; durable, and before anybody hears of it.
events::RolledBack rolled_back(Epoch epoch, Revision from, const Origin& to);

}  // namespace prime::coordinator::rollback
