// Owns the operations in flight: reduce → vote → commit, or void and again. Several fragments may be at it at once, started one after the
// other. They share members and links: what goes wrong with one of them makes all void. Pure; see coordinator_state.hpp.
#pragma once

#include <optional>
#include <string>

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator::operations {

/// Whether a fragment may begin beside those in flight.
[[nodiscard]] bool may_start(const State& state, const Round& round);
/// Begins to reduce it.
void start(State& state, Round& round, Instant now, Effects& effects);

std::string vote(State& state, PeerId from, const Vote& message, Instant now, Effects& effects);
std::string failed(State& state, PeerId from, const ReduceFailed& message, Instant now, Effects& effects);
std::string in_doubt(State& state, PeerId from, const InDoubt& message, Effects& effects);
/// A member hears what was decided while it was away; of operations that it still has in hand it asks by itself. Where its vote is
/// awaited, what is in flight is void: what it said may be lost.
void answer_returned(State& state, PeerId member, const std::string& name, Instant now, Effects& effects);

/// Whose doing it is that operations are void, where it is somebody's, and how that went.
struct Because {
  std::optional<PeerId> peer = {};
  std::string name = {};
  Error error = {};
};
/// Aborts what is in flight; the readiness of the members stays, their inputs are as they were (law 2).
void abort(State& state, AbortCause cause, const Because& because, Instant now, Effects& effects);
/// Gives up what stands still, and the members because of whom it does; whether it did.
bool give_up_overdue(State& state, Instant now, Effects& effects);
/// So much time counts against nobody.
void forgive(State& state, Duration time, Instant now);

}  // namespace prime::coordinator::operations
