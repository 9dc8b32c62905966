// Owns who takes part: hello, seats, state fetches, admission, heartbeats, farewells. Pure; see coordinator_state.hpp.
#pragma once

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator::membership {

/// A handler appends effects and returns the reason. None of them starts, aborts or commits an operation by itself.
using Effects = std::vector<Effect>;

/// Why somebody who greets cannot have a seat.
std::optional<Error> refusal(const State& state, const Hello& message);
std::string refuse(const State& state, PeerId from, const Hello& message, const Error& cause, Effects& effects);
std::string without_seat(const State& state, PeerId from, Effects& effects);
std::string hello(State& state, PeerId from, const Hello& message, Instant now, Effects& effects);
/// A joiner is back over another connection: it takes its seat anew, with what it has fetched meanwhile.
std::string returned(State& state, PeerId from, const Hello& message, Instant now, Effects& effects);
std::string seated(State& state, PeerId from, const Seated& message, Instant now, Effects& effects);
std::string fetched(State& state, PeerId from, const Fetched& message, Instant now, Effects& effects);
std::string fetch_failed(State& state, PeerId from, const FetchFailed& message, Instant now, Effects& effects);

/// Sends one peer away; for several at once see Departures.
void dismiss(State& state, PeerId peer, const Error& cause, Instant now, Effects& effects);

/// As events name it.
Who who(const Peer& peer);
bool holds_current_state(const State& state, const Peer& peer);
/// Whether this peer holds the current state, and no other one does.
bool is_last_holder(const State& state, PeerId peer);
/// Whether it holds the current state and was heard lately.
bool is_here_with_state(const State& state, const Peer& peer, Instant now);
/// Whether it holds what the run has trained so far, and no other one does that is here: without it the run could not go on.
bool is_needed(const State& state, PeerId peer, Instant now);
/// A peer's connection is gone; its seat is kept for it, and it is looked for.
void miss(State& state, PeerId peer, const std::string& why, Instant now, Effects& effects);
/// Whether those who are away are there at all is asked again.
void look_for_absent(State& state, Instant now, Effects& effects);
/// A missed peer said something.
void heard_again(State& state, PeerId peer, Effects& effects);
/// Admits all who are caught up, if the phase allows it; returns those admitted.
std::vector<PeerId> admit(State& state, Instant now, Effects& effects);
/// Those caught up at an older revision fetch again; fetches from peers that are gone, or that failed, get another donor.
void refresh_fetches(State& state, Instant now, Effects& effects);
/// A coordinator that stood still itself (frozen, or its disk was slow) cannot judge the silence or the slowness of others: what they did
/// meanwhile is still on its way. That time counts against nobody. To be called before each event.
void notice_standstill(State& state, Instant now);
/// For longer than this nobody is slow because the coordinator is.
Duration patience(const State& state);
/// The time since the last tick counts against nobody: no deadline of a peer comes nearer.
void forgive_since_tick(State& state, Instant now);
/// Whether the coordinator itself stood still lately: then the peers' connections broke because of that.
bool was_frozen(const State& state, Instant now);
/// Dismisses the silent and the overdue, and misses those without whom the run could not go on; whether a member is concerned.
bool expire(State& state, Instant now, Effects& effects);
/// A joiner that was overtaken too often and for which the next reduce waits; empty when there is none.
std::optional<PeerId> held_for(const State& state, Instant now);

}  // namespace prime::coordinator::membership
