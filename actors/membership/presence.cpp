#include "actors/membership/presence.hpp"

#include <algorithm>

#include "actors/membership/replicas.hpp"
#include "actors/membership/transfer.hpp"

namespace prime::membership {
namespace {

/// While it is away.
void look_for(Peer& peer, Instant now, Effects& effects) {
  peer.look_at = now + LOOK_EVERY;
  effects.emplace_back(LookFor{peer.hello.peer, peer.hello.lanes});
}

/// Whether it holds the current state of its shard, and nobody else does of whom this is true.
template <class Predicate>
bool holds_alone(const Roster& roster, const Peer& peer, Predicate also_holds) {
  return holds_current_state(roster, peer) && std::ranges::none_of(roster.peers, [&](const auto& entry) {
           return entry.first != peer.hello.peer && entry.second.hello.shard == peer.hello.shard && also_holds(entry.second);
         });
}

}  // namespace

bool holds_current_state(const Roster& roster, const Peer& peer) {
  return roster.digest && (peer.seat == Seat::CaughtUp || peer.seat == Seat::Member) && peer.seated.revision == roster.revision;
}

bool is_last_holder(const Roster& roster, PeerId id) {
  const auto holds = [&](const Peer& other) { return holds_current_state(roster, other); };
  return any_of_replica(roster, id, [&](const Peer& peer) { return holds_alone(roster, peer, holds); });
}

bool is_here_with_state(const Roster& roster, const Peer& peer, Instant now) {
  // Two of its heartbeats fit into the limit: who has missed one may be about to be silent, too.
  return !peer.absent && now - peer.heard <= roster.options.heartbeat_limit / 2 && holds_current_state(roster, peer);
}

bool is_needed(const Roster& roster, PeerId id, Instant now) {
  const auto is_here = [&](const Peer& other) { return is_here_with_state(roster, other, now); };
  return roster.has_trained() && !roster.safe &&
         any_of_replica(roster, id, [&](const Peer& peer) { return holds_alone(roster, peer, is_here); });
}

bool is_deserted(const Roster& roster, Instant now) {
  std::map<std::uint64_t, std::uint32_t> here;  // peers of each replica
  for (const auto& [id, peer] : roster.peers)
    if (is_here_with_state(roster, peer, now) && ++here[peer.ordinal] == roster.options.shards) return false;
  return true;
}

bool is_lost(const Roster& roster, PeerId id, Instant now) {
  const auto known = roster.peers.find(id);
  if (known == roster.peers.end() || !known->second.absent) return false;
  return known->second.seat != Seat::Member || !is_needed(roster, id, now);
}

void miss(Roster& roster, PeerId id, const std::string& why, Instant now, Effects& effects) {
  auto& peer = roster.peers.at(id);
  if (peer.absent) return;
  peer.absent = true;
  effects.emplace_back(events::PeerAbsent{who(peer), why});
  look_for(peer, now, effects);
}

void look_for_absent(Roster& roster, Instant now, Effects& effects) {
  for (auto& [id, peer] : roster.peers)
    if (peer.absent && now >= peer.look_at) look_for(peer, now, effects);
}

void heard_again(Roster& roster, PeerId id, Effects& effects) {
  auto& peer = roster.peers.at(id);
  peer.absent = false;
  effects.emplace_back(events::PeerReturned{who(peer)});
  effects.emplace_back(LookFor{id, peer.hello.lanes});
}

std::optional<Duration> notice_standstill(Roster& roster, Instant now) {
  const auto gap = now - roster.ticked;
  if (gap <= patience(roster)) return std::nullopt;
  if (gap > roster.options.heartbeat_limit / 2) {
    roster.thawed = now;
    for (auto& [id, peer] : roster.peers) peer.heard = now;
  }
  roster.ticked = now;
  return gap;
}

Duration patience(const Roster& roster) { return std::min(roster.options.heartbeat_limit / 2, roster.options.deadline / 4); }

void forgive(Roster& roster, Duration time, Instant now) {
  for (auto& [id, peer] : roster.peers) {
    peer.since = std::min(now, peer.since + time);
    peer.transfer.last = std::min(now, peer.transfer.last + time);
  }
}

bool was_frozen(const Roster& roster, Instant now) {
  const bool now_waking = now - roster.ticked > roster.options.heartbeat_limit / 2;
  return now_waking || (roster.thawed && now - *roster.thawed <= roster.options.heartbeat_limit);
}

Overdue overdue(Roster& roster, Instant now, Effects& effects) {
  roster.ticked = now;
  if (roster.has_trained() && is_deserted(roster, now)) roster.deserted = now;
  // When one of them has come back, the others have a heartbeat limit more.
  const auto& options = roster.options;
  const bool waits = roster.deserted && now - *roster.deserted <= options.heartbeat_limit;
  Overdue found;
  for (const auto& [id, peer] : roster.peers) {
    const auto silence = now - peer.heard;
    if (silence > options.heartbeat_limit && silence <= options.return_limit() && waits && holds_current_state(roster, peer)) {
      found.missed = found.missed || !peer.absent;
      miss(roster, id, "no heartbeat for " + format_duration(silence), now, effects);
    } else if (silence > options.heartbeat_limit)
      found.peers.emplace_back(
          id, Error{ErrorName::Evicted, (peer.absent ? "it did not come back for " : "no heartbeat for ") + format_duration(silence)});
    else if (peer.seat == Seat::Fetching && fetch_stands_still(roster, peer, now))
      found.peers.emplace_back(
          id, Error{ErrorName::DeadlineExceeded, "nothing of its state fetch moved for " + format_duration(options.deadline) +
                                                     " (`sync.deadline`); " + to_string(of_fetch(roster, peer, now))});
  }
  return found;
}

}  // namespace prime::membership
