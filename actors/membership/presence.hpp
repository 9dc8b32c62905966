// Owns who is here: silence, absence and return, and who of those that are here holds the state. Pure.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/membership/effects.hpp"
#include "actors/membership/roster.hpp"

namespace prime::membership {

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

}  // namespace prime::membership
