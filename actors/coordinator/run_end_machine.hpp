// Owns the end of a run: after the last outer step one peer evaluates and reports; or the run ends before. Pure; see coordinator_state.hpp.
#pragma once

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator::run_end {

using Effects = std::vector<Effect>;

/// The last outer step is committed: all are told, and one of them is to evaluate the final state.
void finish(State& state, const Digest& digest, Instant now, Effects& effects);
std::string final_report(State& state, PeerId from, const FinalReport& message, Effects& effects);
/// Does what the state allows next while the run finishes.
void advance(State& state, Instant now, Effects& effects);
/// Ends the run, well or with a cause; all peers are told.
void end(State& state, std::optional<Error> cause, Instant now, Effects& effects);

}  // namespace prime::coordinator::run_end
