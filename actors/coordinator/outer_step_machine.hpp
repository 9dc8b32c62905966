// Owns the outer step: begin → ready → all fragments reduced (operations.hpp) → the next one. Pure; see coordinator_state.hpp.
#pragma once

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator::outer_step {

std::string ready(State& state, PeerId from, const Ready& message, Instant now, Effects& effects);

/// All fragments have made the step; `last` was the last of its operations.
void complete(State& state, const Operation& last, Instant now, Effects& effects);
/// Ends the run before its last step; every peer is told, so that it saves what it holds.
void stop(State& state, const std::string& why, Instant now, Effects& effects);
/// No step begins from now on, until `resume`; one that is under way ends first. The members keep their seats, and nobody is waited for in
/// vain.
std::string pause(State& state, Instant now, Effects& effects);
std::string resume(State& state, Instant now, Effects& effects);
/// A member is back at a coordinator that was restarted: it is told what was decided, and what it is to do.
std::string returned(State& state, PeerId from, const Hello& message, Instant now, Effects& effects);
/// Why nobody new is let in; empty while the run goes on.
std::optional<Error> closed(const State& state);
/// Admits who is caught up, if this is a safe point; new members enter the current step without weight (law 4).
void admit(State& state, Instant now, Effects& effects);
/// So much time counts against nobody.
void forgive(State& state, Duration time, Instant now);
/// Does whatever the state allows next: begins, reduces, waits, ends. Called after every event.
void advance(State& state, Instant now, Effects& effects);

}  // namespace prime::coordinator::outer_step
