#include "actors/membership/seating.hpp"

#include <algorithm>

#include "actors/membership/departures.hpp"
#include "actors/membership/presence.hpp"
#include "actors/membership/replicas.hpp"
#include "actors/membership/transfer.hpp"
#include "kernels/digest/digest.hpp"
#include "messages/data_listing.hpp"

namespace prime::membership {
namespace {

/// Between the second and the third attempt of a fetch; grows with each further one.
constexpr Duration RETRY_FETCH_AFTER = 250ms;

/// Whether it has what the joiner needs, and is there to give it.
bool can_give(const Roster& roster, const Peer& peer, const Peer& joiner) {
  return peer.hello.peer != joiner.hello.peer && peer.hello.shard == joiner.hello.shard && !peer.absent &&
         holds_current_state(roster, peer);
}

/// In a large run nobody looks at all the others for each joiner: from its own place in the view it takes the next who holds the state.
std::optional<PeerId> donor_in_turn(const Roster& roster, const Peer& joiner) {
  const auto& members = roster.view.members;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto id = members[(joiner.ordinal + joiner.fetch.failures + i) % members.size()].id;
    if (can_give(roster, roster.peers.at(id), joiner)) return id;
  }
  return std::nullopt;
}

/// The holder with the fewest fetches on it; the oldest among equals.
std::optional<PeerId> choose_donor(const Roster& roster, PeerId id_of_joiner, PeerId avoid) {
  const auto& joiner = roster.peers.at(id_of_joiner);
  if (roster.peers.size() > LOOKED_AT_AFTER_EACH) return donor_in_turn(roster, joiner);
  std::map<PeerId, std::size_t> fetches;
  for (const auto& [id, peer] : roster.peers)
    if (peer.seat == Seat::Fetching) ++fetches[peer.fetch.donor];
  const Peer* best = nullptr;
  std::size_t best_load = 0;
  for (const auto& [id, peer] : roster.peers) {
    if (!can_give(roster, peer, joiner)) continue;
    const auto counted = fetches.find(id);
    auto load = counted != fetches.end() ? counted->second : 0;
    if (id == avoid) load += roster.peers.size();  // only when there is no other
    if (best == nullptr || load < best_load || (load == best_load && peer.ordinal < best->ordinal)) {
      best = &peer;
      best_load = load;
    }
  }
  return best != nullptr ? std::optional<PeerId>{best->hello.peer} : std::nullopt;
}

/// Members that may reach the donor where the joiner does not: others with each attempt.
std::vector<Member> fetch_relays(const Roster& roster, const Peer& joiner, PeerId donor) {
  const auto& members = roster.view.members.list();
  std::vector<Member> relays;
  for (std::size_t i = 0; i < members.size() && relays.size() < MAX_FETCH_RELAYS; ++i) {
    const auto& member = members[(joiner.fetch.failures * MAX_FETCH_RELAYS + i) % members.size()];
    const auto peer = roster.peers.find(member.id);
    // Those of its shard have the lanes to each other.
    const bool may_relay = peer != roster.peers.end() && !peer->second.absent && peer->second.hello.shard == joiner.hello.shard;
    if (member.id != donor && may_relay) relays.push_back(member);
  }
  return relays;
}

/// As it told them; of one fragment the state is its only part.
std::vector<Digest> parts_of(const Seated& seated) { return seated.parts.empty() ? std::vector{seated.state} : seated.parts; }

/// The peers of its replica, where all of them are seated and none fetches.
std::vector<Peer*> seated_replica(Roster& roster, const Peer& peer) {
  std::vector<Peer*> replica;
  for (const auto id : replica_of(roster, peer)) replica.push_back(&roster.peers.at(id));
  const bool seated = std::ranges::all_of(replica, [](const Peer* each) { return each->seat == Seat::Seated; });
  return seated && replica.size() == roster.options.shards ? replica : std::vector<Peer*>{};
}

/// What a replica holds is the run's state: of a run that has none yet, or of a saved one whose shards are not known by themselves.
std::string adopt_state(Roster& roster, const Peer& peer, Instant now, Effects& effects) {
  const auto replica = seated_replica(roster, peer);
  std::vector<std::vector<Digest>> parts;
  for (const auto* each : replica) parts.push_back(parts_of(each->seated));
  const bool fits =
      !roster.digest || std::ranges::all_of(replica, [&](const Peer* each) { return each->seated.revision == roster.revision; });
  if (replica.empty() || !fits || (roster.digest && whole_digest(parts) != *roster.digest)) return peer.hello.name + " waits for a donor";
  const bool founds = !roster.digest;
  for (auto* each : replica) {
    auto& shard = roster.shards[each->hello.shard];
    shard.state = each->seated.state;
    shard.parts = parts_of(each->seated);
    set_seat(*each, Seat::CaughtUp, now);
    if (founds) effects.emplace_back(events::StateFounded{who(*each), *shard.state, shard.elements});
  }
  roster.digest = whole_digest(parts);
  return party(peer.hello) + (founds ? " founds the shared state" : " holds the current state already");
}

/// Whether all peers of its replica have bound their tensors. Before that none of them fetches: it would be overtaken in vain.
bool is_bound(const Roster& roster, const Peer& peer) {
  return is_whole(roster, peer) &&
         std::ranges::none_of(replica_of(roster, peer), [&](PeerId id) { return roster.peers.at(id).seat == Seat::Greeted; });
}

/// Sends a seated peer to a donor, or makes it the founder of a run that has no state yet.
std::string assign(Roster& roster, Peer& peer, PeerId avoid, Instant now, Effects& effects) {
  const auto waits = [&](const std::string& what) {
    set_seat(peer, Seat::Seated, now);
    return peer.hello.name + " waits for " + what;
  };
  if (peer.seat == Seat::Greeted) set_seat(peer, Seat::Seated, now);
  if (!is_bound(roster, peer)) return waits("the others of its replica");
  auto& shard = roster.shards[peer.hello.shard];
  if (!shard.state) {
    set_seat(peer, Seat::Seated, now);
    return adopt_state(roster, peer, now, effects);
  }
  if (peer.seated.revision == roster.revision && peer.seated.state == *shard.state) {
    if (shard.parts.empty()) shard.parts = parts_of(peer.seated);
    set_seat(peer, Seat::CaughtUp, now);
    return peer.hello.name + " holds the current state already";
  }
  const auto donor = choose_donor(roster, peer.hello.peer, avoid);
  if (!donor) return waits("a donor");
  const auto& giver = roster.peers.at(*donor);
  set_seat(peer, Seat::Fetching, now);
  if (peer.fetch.revision != roster.revision) peer.fetch.attempts = 0;  // one that lacked the last may hold this
  peer.fetch.donor = *donor;
  peer.fetch.revision = roster.revision;
  peer.fetch.state = *shard.state;
  begin_transfer(peer, now);
  ++peer.fetch.attempts;
  effects.emplace_back(events::PeerFetching{who(peer), giver.hello.name, roster.revision, peer.fetch.attempts});
  effects.emplace_back(
      Send{peer.hello.peer, FetchState{*donor, giver.hello.lanes, roster.revision, *shard.state, fetch_relays(roster, peer, *donor),
                                       shard.parts, roster.made, roster.tokens, roster.cursor, roster.unused}});
  return peer.hello.name + " fetches revision " + std::to_string(roster.revision.value) + " from " + giver.hello.name;
}

void found_data(Roster& roster, const Peer& peer, const DataIdentity& data, bool lent, Effects& effects) {
  roster.data = data;
  roster.data_lent = lent;
  roster.data.summary.resize(std::min(data.summary.size(), MAX_DATA_SUMMARY_BYTES));
  roster.data.listing.resize(std::min(data.listing.size(), MAX_DATA_LISTING_BYTES));
  events::DataFounded founded{who(peer), roster.data.summary, std::nullopt};
  if (const auto& before = roster.options.origin_data; before.told() && before.digest != roster.data.digest) {
    const auto files = listings_differ(roster.data.listing, before.listing, "there");
    founded.differs = files.empty() ? "there it was " + before.summary : files;
  }
  effects.emplace_back(std::move(founded));
}

/// As it is told of itself, and the others of its replica of it.
std::string self(const Peer& peer) { return peer.hello.replica.empty() ? "this peer" : place_of(peer.hello); }

/// Who trains on other samples under the same numbers trains on some that others hold out.
Error data_mismatch(const Roster& roster, const Peer& peer, const DataIdentity& data) {
  const auto files = listings_differ(data.listing, roster.data.listing, "in the run");
  return Error{ErrorName::DataMismatch, (files.empty() ? "" : files + ". In detail: ") + self(peer) + " finds " + data.summary +
                                            "; the run trains on " + roster.data.summary};
}

/// The first who tells founds the run's data; before the first view a founder's replaces that of a joiner who was faster. Those who
/// have other data are dismissed.
bool trains_on_data_of_run(Roster& roster, const Peer& peer, const DataIdentity& data, Instant now, Effects& effects) {
  if (!data.told()) return true;
  const auto& founders = roster.options.founders;
  const bool founder = std::ranges::find(founders, party(peer.hello)) != founders.end();
  const bool differs = data.digest != roster.data.digest;
  const bool replaces = differs && founder && roster.data_lent && roster.view.members.empty();
  if (!roster.data.told() || replaces) found_data(roster, peer, data, !founder && !founders.empty(), effects);
  else if (founder && !differs) roster.data_lent = false;
  else if (differs) {
    Departures{roster, now, effects}.dismiss(peer.hello.peer, data_mismatch(roster, peer, data));
    return false;
  }
  if (!replaces) return true;
  std::vector<std::pair<PeerId, Error>> others;
  for (const auto& [id, other] : roster.peers)
    if (const auto& its = other.seated.data; its.told() && its.digest != data.digest)
      others.emplace_back(id, data_mismatch(roster, other, its));
  Departures departures{roster, now, effects};
  for (const auto& [id, error] : others) departures.dismiss(id, error);
  return true;
}

/// Of one fragment the state is its only part.
bool divides_as_run(const Roster& roster, const std::vector<Digest>& told, const Digest& state) {
  const auto parts = told.empty() ? std::vector{state} : told;
  return parts.size() == roster.options.fragments && kernels::digest_of_parts(parts) == state;
}

/// Whether nothing but its fetch keeps its replica out.
bool may_enter(const Roster& roster, const Peer& peer) {
  return is_bound(roster, peer) && !any_of_replica(roster, peer.hello.peer, [](const Peer& each) { return each.absent; });
}

}  // namespace

std::string seated(Roster& roster, PeerId from, const Seated& message, Instant now, Effects& effects) {
  auto& peer = roster.peers.at(from);
  if (peer.seat != Seat::Greeted) return peer.hello.name + " is seated already";
  auto& shard = roster.shards[peer.hello.shard];
  if (shard.layout && message.layout != *shard.layout) {
    Departures{roster, now, effects}.dismiss(
        from, Error{ErrorName::LayoutMismatch, "the trainer of " + self(peer) + " binds " + std::to_string(message.elements) +
                                                   " elements, those of the run bind " + std::to_string(shard.elements) +
                                                   (message.elements == shard.elements ? ", with other names, shapes or dtypes" : "")});
    return "layout differs";
  }
  if (!trains_on_data_of_run(roster, peer, message.data, now, effects)) return "data differs";
  if (!divides_as_run(roster, message.parts, message.state)) {
    Departures{roster, now, effects}.dismiss(
        from, Error{ErrorName::LayoutMismatch, self(peer) + " divides its state into " + std::to_string(parts_of(message).size()) +
                                                   " fragments, the run into " + std::to_string(roster.options.fragments)});
    return "fragments differ";
  }
  if (!shard.layout) {
    shard.layout = message.layout;
    shard.elements = message.elements;
  }
  peer.seated = message;
  effects.emplace_back(events::PeerSeated{who(peer), message.trainer_pid, message.state});
  auto reason = assign(roster, peer, PeerId{}, now, effects);
  if (!is_bound(roster, peer)) return reason;
  roster.founders_awaited.erase(party(peer.hello));
  for (const auto id : replica_of(roster, peer))  // those who waited for this one
    if (auto& other = roster.peers.at(id); id != from && other.seat == Seat::Seated) assign(roster, other, PeerId{}, now, effects);
  return reason;
}

std::string fetched(Roster& roster, PeerId from, const Fetched& message, Instant now, Effects& effects) {
  auto& peer = roster.peers.at(from);
  // A peer takes nothing but the state that it was sent for. What it was sent for before may have been of another founder.
  if (peer.seat != Seat::Fetching || message.revision != peer.fetch.revision || message.state != peer.fetch.state)
    return "a fetch that nobody waits for";
  if (!divides_as_run(roster, message.parts, message.state)) {
    Departures{roster, now, effects}.dismiss(from,
                                             Error{ErrorName::ProtocolViolation, "digests of fragments that are not of what it fetched"});
    return "parts that do not fit";
  }
  peer.seated.revision = message.revision;
  peer.seated.state = message.state;
  peer.seated.parts = message.parts;
  peer.fetch.attempts = peer.fetch.failures = 0;                // that it may have to fetch again is no fault of its donors
  if (message.revision != roster.revision) ++peer.fetch.stale;  // a commit overtook it
  // The founder may have gone meanwhile: then there is no state, or that of another founder.
  if (message.revision != roster.revision || roster.shard_of(peer).state != message.state)
    return assign(roster, peer, PeerId{}, now, effects);
  set_seat(peer, Seat::CaughtUp, now);
  effects.emplace_back(events::PeerFetched{who(peer), message.revision, message.state});
  return peer.hello.name + " holds revision " + std::to_string(message.revision.value);
}

std::string fetch_failed(Roster& roster, PeerId from, const FetchFailed& message, Instant now, Effects& effects) {
  auto& peer = roster.peers.at(from);
  if (peer.seat != Seat::Fetching || message.donor != peer.fetch.donor || message.revision != peer.fetch.revision)
    return "a fetch that nobody waits for";
  effects.emplace_back(events::FetchFailed{who(peer), message.donor, message.error});
  const bool moved_on = message.revision != roster.revision;  // the donor has: no fault of anybody
  ++(moved_on ? peer.fetch.stale : peer.fetch.failures);
  if (moved_on) peer.fetch.attempts = 0;
  const auto donor = roster.peers.find(message.donor);
  const auto tried = std::max(peer.fetch.attempts, peer.fetch.failures);
  const bool in_vain = peer.fetch.attempts >= MAX_FETCH_ATTEMPTS || peer.fetch.failures >= MAX_FETCH_FAILURES;
  // One that may be dead, which is known in a moment, proves nothing.
  if (!moved_on && in_vain && donor != roster.peers.end() && is_here_with_state(roster, donor->second, now)) {
    Departures{roster, now, effects}.dismiss(
        from, Error{ErrorName::FetchFailed, std::to_string(tried) + " attempts; the last: " + to_string(message.error)});
    return "no donor could serve it";
  }
  peer.fetch.retry_at = now;
  if (peer.fetch.attempts > 1) peer.fetch.retry_at += RETRY_FETCH_AFTER * (peer.fetch.attempts - 1);
  set_seat(peer, Seat::Seated, now);
  refresh_fetches(roster, now, effects);
  return peer.hello.name + " tries another donor";
}

void refresh_fetches(Roster& roster, Instant now, Effects& effects) {
  for (auto& [id, peer] : roster.peers) {
    if (peer.absent) continue;
    const bool overtaken = peer.seat == Seat::CaughtUp && peer.seated.revision != roster.revision;
    // Only for the same bits is another donor named at once: what else a peer fetched is not known before it reports.
    // And only if there is one: who may have been served holds other values than it was seated with, and must not found a state by those.
    const bool orphaned = peer.seat == Seat::Fetching && !roster.peers.contains(peer.fetch.donor) &&
                          roster.shard_of(peer).state == peer.fetch.state && choose_donor(roster, id, PeerId{});
    if (overtaken) ++peer.fetch.stale;
    const bool waits_for_donor = peer.seat == Seat::Seated && now >= peer.fetch.retry_at;
    if (overtaken || orphaned || waits_for_donor) assign(roster, peer, waits_for_donor ? peer.fetch.donor : PeerId{}, now, effects);
  }
}

std::optional<PeerId> overtaken(const Roster& roster) {
  for (const auto& [id, peer] : roster.peers)
    if (!peer.absent && (peer.seat == Seat::Fetching || peer.seat == Seat::Seated) && peer.fetch.stale >= MAX_STALE_FETCHES &&
        may_enter(roster, peer))
      return id;
  return std::nullopt;
}

}  // namespace prime::membership
