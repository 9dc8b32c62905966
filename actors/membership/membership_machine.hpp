// Owns who takes part: hello, seats, state fetches, admission, silence, absence and return. Pure. Whoever uses it decides when the doors
// are open, and what follows from a member's going.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/membership/effects.hpp"
#include "actors/membership/roster.hpp"

namespace prime::membership {

// A handler appends effects and returns the reason.

/// Why somebody who greets cannot have a seat; `closed`: why nobody new can.
std::optional<Error> refusal(const Roster& roster, const Hello& message, const std::optional<Error>& closed);
std::string refuse(const Roster& roster, PeerId from, const Hello& message, const Error& cause, Effects& effects);
std::string without_seat(const Roster& roster, PeerId from, Effects& effects);
std::string hello(Roster& roster, PeerId from, const Hello& message, const std::optional<Error>& closed, Instant now, Effects& effects);
/// A joiner is back over another connection: it takes its seat anew, with what it has fetched meanwhile.
std::string returned(Roster& roster, PeerId from, const Hello& message, Instant now, Effects& effects);
std::string seated(Roster& roster, PeerId from, const Seated& message, Instant now, Effects& effects);
std::string fetched(Roster& roster, PeerId from, const Fetched& message, Instant now, Effects& effects);
std::string fetch_failed(Roster& roster, PeerId from, const FetchFailed& message, Instant now, Effects& effects);

/// As events name it.
Who who(const Peer& peer);
bool holds_current_state(const Roster& roster, const Peer& peer);
/// Whether this peer, or another one of its replica, holds the current state of its shard, and no other one does.
bool is_last_holder(const Roster& roster, PeerId peer);
/// Whether it holds the current state and was heard lately.
bool is_here_with_state(const Roster& roster, const Peer& peer, Instant now);
/// Whether it, or another one of its replica, holds what was trained so far, and no other one of that shard does that is here: without it
/// the run could not go on.
bool is_needed(const Roster& roster, PeerId peer, Instant now);
/// Whether of some shard nobody is here who holds it.
bool is_deserted(const Roster& roster, Instant now);
/// A peer's connection is gone; its seat is kept for it, and it is looked for.
void miss(Roster& roster, PeerId peer, const std::string& why, Instant now, Effects& effects);
/// Whether those who are away are there at all is asked again.
void look_for_absent(Roster& roster, Instant now, Effects& effects);
/// A missed peer said something.
void heard_again(Roster& roster, PeerId peer, Effects& effects);
/// Whether a peer whose process is gone goes with it. Of who is here nothing is gone, whatever answers where it listens, and the last who
/// holds the state is waited for in any case.
bool is_lost(const Roster& roster, PeerId peer, Instant now);
/// Admits all who are caught up; returns those admitted, by age. The first view waits for its quorum.
std::vector<PeerId> admit(Roster& roster, Instant now, Effects& effects);
/// Those caught up at an older revision fetch again; fetches from peers that are gone, or that failed, get another donor.
void refresh_fetches(Roster& roster, Instant now, Effects& effects);
/// A coordinator that stood still itself (frozen, or its disk was slow) cannot judge the silence or the slowness of others: what they did
/// meanwhile is still on its way. Since when it did, where that was for so long that it counts against nobody. To be called before each
/// event.
std::optional<Duration> notice_standstill(Roster& roster, Instant now);
/// For longer than this nobody is slow because the coordinator is.
Duration patience(const Roster& roster);
/// So much time counts against nobody: no deadline of a peer comes nearer.
void forgive(Roster& roster, Duration time, Instant now);
/// Whether the coordinator itself stood still lately: then the peers' connections broke because of that.
bool was_frozen(const Roster& roster, Instant now);
/// The silent and the overdue.
struct Overdue {
  std::vector<std::pair<PeerId, Error>> peers;
  bool missed = false;  ///< one without whom the run could not go on: it is waited for
};
Overdue overdue(Roster& roster, Instant now, Effects& effects);
/// A joiner that was overtaken too often, if there is one.
std::optional<PeerId> overtaken(const Roster& roster);

}  // namespace prime::membership
