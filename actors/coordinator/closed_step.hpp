// Owns the closed step: with `Plan::overlap` its fragments are reduced while the next one is trained. Pure.
#pragma once

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator::outer_step {

/// Once the work on the step that is trained is there for all fragments, the next one begins beside the reduces.
void close_when_due(State& state, Instant now, Effects& effects);
/// Who has no part in a round that is short brings there what it has made for the next step. Those who have a part in it bring that only
/// once this one is committed.
void fill_up(State& state, Round& round, Effects& effects);
/// Nothing is trained behind it: others are told to train for it.
void reopen_step(State& state, Effects& effects);
/// Those who have a part in rounds that are short wait for these, and so others for them: some others train for the closed step, those who
/// have no part in the next one if there are any.
void reinforce(State& state, Effects& effects);
/// Whether the work on a closed step is known, and of enough members: a coordinator that was restarted has yet to be told.
bool is_closed_work_there(const State& state);

/// To a coordinator that has not heard it, or its predecessor has; whether it is of a closed step.
bool note_closed(State& state, PeerId from, const Ready& message);
/// Of a member that is back: it says it again.
void ask_for_closed(State& state, PeerId member, std::uint32_t rank, Effects& effects);

}  // namespace prime::coordinator::outer_step
