#include "actors/membership/departures.hpp"

#include <algorithm>

#include "actors/membership/presence.hpp"
#include "actors/membership/replicas.hpp"
#include "actors/membership/seating.hpp"

namespace prime::membership {

namespace {

bool joins_anew(const Error& cause) {
  return cause.name == ErrorName::Evicted || cause.name == ErrorName::DeadlineExceeded || cause.name == ErrorName::FetchFailed;
}

}  // namespace

Error told(const Roster& roster, const Error& cause) { return joins_anew(cause) ? roster.to_who_left.value_or(cause) : cause; }

bool is_farewell(const Error& cause) { return cause.name == ErrorName::RunDone || cause.name == ErrorName::RolledBack; }

JournalEvent gone(Who who, const Error& cause, bool left) {
  if (left) return events::PeerLeft{std::move(who), Cause{cause.detail}};
  return events::PeerLost{std::move(who), cause};
}

bool Departures::remove(PeerId id, const Error& cause, bool left) {
  const auto found = roster_.peers.find(id);
  if (found == roster_.peers.end()) return false;
  const auto place = place_of(found->second.hello);
  const auto why = ": " + (cause.name == ErrorName::PeerLost ? cause.detail : to_string(cause));
  return take_out(id, cause, left,
                  left ? Error{ErrorName::PeerLost, place + " left"} : Error{ErrorName::Evicted, place + " was lost" + why});
}

bool Departures::dismiss(PeerId id, const Error& cause) {
  const auto found = roster_.peers.find(id);
  if (found == roster_.peers.end()) return false;
  effects_.emplace_back(Send{id, Dismissed{told(roster_, cause)}});
  effects_.emplace_back(Fence{id});
  // What is wrong with one of them is wrong with its model; what only this one did is not the others' doing.
  const auto place = place_of(found->second.hello);
  return take_out(id, cause, is_farewell(cause),
                  joins_anew(cause) ? Error{ErrorName::Evicted, place + " was sent away: " + to_string(cause)} : cause);
}

/// The others went because of one, who is named.
Error with(const Hello& first, const Error& cause) { return Error{cause.name, "with " + first.name + ": " + cause.detail}; }

bool Departures::take_out(PeerId id, const Error& cause, bool left, const Error& to_others) {
  const auto found = roster_.peers.find(id);
  if (found == roster_.peers.end()) return false;
  anybody_ = true;
  const auto peer = found->second;
  const auto replica = replica_of(roster_, peer);
  if (!left) roster_.last_loss = peer.hello.name + ": " + to_string(cause);
  effects_.push_back(gone(who(peer), cause, left));
  note_gone(peer, cause);
  if (replica.size() < roster_.options.shards) {
    tell_who_stays(roster_, peer.ordinal, effects_);
    return true;
  }
  for (const auto other : replica) {
    if (other == id) continue;
    const auto mate = roster_.peers.at(other);
    effects_.emplace_back(Send{other, Dismissed{told(roster_, to_others)}});
    effects_.emplace_back(Fence{other});
    effects_.push_back(gone(who(mate), is_farewell(cause) ? cause : with(peer.hello, cause), left));
    if (left && !is_farewell(cause) && roster_.left.size() < MAX_GONE) roster_.left.insert(other);
    note_gone(mate, to_others);
  }
  return true;
}

/// Its id never comes back.
void Departures::note_gone(const Peer& peer, const Error& cause) {
  const auto id = peer.hello.peer;
  if (peer.seat == Seat::Member) members_.insert(id);
  roster_.founders_awaited.erase(party(peer.hello));
  roster_.peers.erase(id);
  roster_.gone.emplace_back(id, cause);
  if (roster_.gone.size() > MAX_GONE) roster_.gone.erase(roster_.gone.begin());
}

std::set<PeerId> Departures::settle() {
  if (!std::exchange(anybody_, false)) return {};
  if (!members_.empty()) {
    std::erase_if(roster_.view.members.edit(), [&](const Member& m) { return members_.contains(m.id); });
    roster_.view.epoch = roster_.view.epoch.next();
  }
  if (!roster_.has_trained() && is_state_lost()) forget_state();
  refresh_fetches(roster_, now_, effects_);
  return std::exchange(members_, {});
}

/// Whether nobody holds some shard of it.
bool Departures::is_state_lost() const {
  std::set<std::uint32_t> held;
  for (const auto& [id, peer] : roster_.peers)
    if (holds_current_state(roster_, peer)) held.insert(peer.hello.shard);
  return held.size() < roster_.options.shards;
}

/// Nothing was trained yet: the next one who is seated, or whose fetch has ended, founds the state anew.
void Departures::forget_state() {
  std::set<std::uint32_t> bound;
  for (const auto& [id, peer] : roster_.peers)
    if (peer.seat != Seat::Greeted) bound.insert(peer.hello.shard);
  if (!roster_.origin) {
    roster_.digest.reset();
    for (auto& shard : roster_.shards) {
      shard.state.reset();
      shard.parts.clear();
    }
    for (auto& [id, peer] : roster_.peers)  // those who hold another shard of it
      if (peer.seat == Seat::CaughtUp) peer.seat = Seat::Seated;
  }
  for (std::uint32_t shard = 0; shard < roster_.shards.size(); ++shard)
    if (!bound.contains(shard)) roster_.shards[shard].layout.reset();
}

}  // namespace prime::membership
