// Owns the closed step: with `Plan::overlap` its fragments are reduced while the next one is trained. Pure.
#pragma once

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator::outer_step {

/// Once the work on the step that is trained is there for all fragments, the next one begins beside the reduces.
void close_when_due(State& state, Instant now, Effects& effects);
/// Where too few are left of those who worked on a closed step, others train for it: those who have no part in the next one if there are
/// any. Nobody else can: who has a part in it brings nothing of the next one before this one is committed.
void reinforce(State& state, Instant now, Effects& effects);
/// Those whose work on a closed step is awaited. None is slow: they began when the others had made it.
std::vector<PeerId> awaited_for_closed(const State& state);
/// Whether the work on a closed step is known, and of enough members: a coordinator that was restarted has yet to be told.
bool is_closed_work_there(const State& state);

/// To a coordinator that has not heard it, or its predecessor has; whether it is of a closed step.
bool note_closed(State& state, PeerId from, const Ready& message);
/// Of a member that is back: it says it again.
void ask_for_closed(State& state, PeerId member, std::uint32_t rank, Effects& effects);

}  // namespace prime::coordinator::outer_step
