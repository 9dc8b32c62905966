// Owns the end of a run: after the last outer step one peer saves the final state and all evaluate it; or the run ends before. Pure; see
// coordinator_state.hpp.
#pragma once

#include "actors/coordinator/coordinator_state.hpp"
#include "actors/coordinator/waits.hpp"

namespace prime::coordinator::run_end {

/// The last outer step is committed: all are told; one of them is to save the final state, and all who are free evaluate a part each.
void finish(State& state, Instant now, Effects& effects);
std::string state_saved(State& state, PeerId from, const StateSaved& message, Instant now, Effects& effects);
std::string final_report(State& state, PeerId from, const FinalReport& message);
/// What a member that came back is told of the end.
RunDone told(const State& state, PeerId peer);
void advance(State& state, Instant now, Effects& effects);
/// Before the last step, because of `cause`; or with nothing left to do.
void end(State& state, std::optional<Error> cause, Instant now, Effects& effects);
/// Ends the run now because somebody wants it to: one whose final state is saved is done, without what is not evaluated yet.
void stop(State& state, Error cause, Instant now, Effects& effects);

/// How long a member may write the final state before another one is asked as well.
Duration save_limit(const State& state);
/// Members that have not answered for their part of the evaluation.
Named evaluating(const State& state);

}  // namespace prime::coordinator::run_end
