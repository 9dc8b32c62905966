#include "actors/membership/membership_machine.hpp"

#include <algorithm>

#include "actors/membership/departures.hpp"
#include "actors/membership/replicas.hpp"
#include "actors/membership/transfer.hpp"
#include "kernels/digest/digest.hpp"
#include "messages/data_listing.hpp"

namespace prime::membership {
namespace {

/// Between the second and the third attempt of a fetch; grows with each further one.
constexpr Duration RETRY_FETCH_AFTER = 250ms;

void set_seat(Peer& peer, Seat seat, Instant now) {
  peer.seat = seat;
  peer.since = now;
}

/// Whether it has what the joiner needs, and is there to give it.
bool can_give(const Roster& roster, const Peer& peer, const Peer& joiner) {
  return peer.hello.peer != joiner.hello.peer && peer.hello.shard == joiner.hello.shard && !peer.absent &&
         holds_current_state(roster, peer);
}

/// In a large run nobody looks at all the others for each joiner: from its own place in the view it takes the next who holds the state.
std::optional<PeerId> donor_in_turn(const Roster& roster, const Peer& joiner) {
  const auto& members = roster.view.members;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto id = members[(joiner.ordinal + joiner.fetch.attempts + i) % members.size()].id;
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
    const auto& member = members[(joiner.fetch.attempts * MAX_FETCH_RELAYS + i) % members.size()];
    const auto peer = roster.peers.find(member.id);
    // Those of its shard have the lanes to each other.
    const bool may_relay = peer != roster.peers.end() && !peer->second.absent && peer->second.hello.shard == joiner.hello.shard;
    if (member.id != donor && may_relay) relays.push_back(member);
  }
  return relays;
}

/// No more than is believed, and nothing that no host is called.
bool are_sane(const Addresses& addresses) {
  return addresses.list.size() <= MAX_ADDRESSES &&
         std::all_of(addresses.list.begin(), addresses.list.end(), [](const Endpoint& each) { return each.host.size() <= 255; });
}

/// While it is away.
void look_for(Peer& peer, Instant now, Effects& effects) {
  peer.look_at = now + LOOK_EVERY;
  effects.emplace_back(LookFor{peer.hello.peer, peer.hello.lanes});
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

}  // namespace

std::optional<Error> refusal(const Roster& roster, const Hello& message, const std::optional<Error>& closed) {
  if (message.protocol != PROTOCOL_VERSION)
    return Error{ErrorName::VersionMismatch,
                 "the run speaks protocol " + std::to_string(PROTOCOL_VERSION) + ", the peer " + std::to_string(message.protocol)};
  if (message.run != roster.options.run)
    return Error{ErrorName::WrongRun, "run `" + roster.options.run + "`, the invite names `" + message.run + "`"};
  if (roster.options.shards == 1 && (!message.replica.empty() || message.shard > 0))
    return Error{ErrorName::Usage, "this run is not sharded, and the peer says that it holds shard " + std::to_string(message.shard)};
  if (message.name.size() > 64 || !are_sane(message.lanes))
    return Error{ErrorName::ProtocolViolation, "its name is too long, or it tells more or longer addresses than are taken"};
  if (roster.left.contains(message.peer)) return Error{ErrorName::PeerLost, "its replica left"};
  for (const auto& [id, cause] : roster.gone)
    if (id == message.peer && cause.name == ErrorName::RolledBack) return cause;
    else if (id == message.peer)
      return Error{ErrorName::Evicted, "it went with: " + (cause.name == ErrorName::Evicted ? cause.detail : to_string(cause))};
  if (closed) return closed;
  if (message.returning)
    return Error{ErrorName::Evicted, "it has no seat in epoch " + std::to_string(roster.view.epoch.value) + " any more"};
  if (whole_replicas(roster) >= roster.options.max_peers) {
    const auto limit = std::to_string(roster.options.max_peers);
    return Error{ErrorName::RunFull, limit + " of " + limit};
  }
  return std::nullopt;
}

std::string refuse(const Roster& roster, PeerId from, const Hello& message, const Error& cause, Effects& effects) {
  effects.emplace_back(events::PeerRefused{{from, message.name}, cause});
  effects.emplace_back(Send{from, Dismissed{told(roster, cause)}});
  return "refused " + message.name + ": " + to_string(cause);
}

Who who(const Peer& peer) { return {peer.hello.peer, peer.hello.name, peer.hello.replica, peer.hello.shard}; }

bool holds_current_state(const Roster& roster, const Peer& peer) {
  return roster.digest && (peer.seat == Seat::CaughtUp || peer.seat == Seat::Member) && peer.seated.revision == roster.revision;
}

std::string without_seat(const Roster& roster, PeerId from, Effects& effects) {
  const Error cause{ErrorName::Evicted, "it has no seat in epoch " + std::to_string(roster.view.epoch.value)};
  effects.emplace_back(Send{from, Dismissed{told(roster, cause)}});
  return "a message from a peer without a seat";
}

/// Until the run has trained, the peers that started with it have their ranks by their order there, however fast each of them is: who goes
/// on from a checkpoint has what the peer of its rank left.
std::uint64_t ordinal_for(Roster& roster, const Hello& hello) {
  if (const auto replica = replica_without(roster, hello)) return *replica;
  const auto& name = party(hello);
  const auto& founders = roster.options.founders;
  const auto place = static_cast<std::uint64_t>(std::ranges::find(founders, name) - founders.begin());
  const bool taken = std::ranges::any_of(roster.peers, [&](const auto& entry) { return entry.second.ordinal == place; });
  return place < founders.size() && !taken && !roster.has_trained() ? place : roster.next_ordinal++;
}

std::string hello(Roster& roster, PeerId from, const Hello& message, const std::optional<Error>& closed, Instant now, Effects& effects) {
  auto refused = from == message.peer ? refusal(roster, message, closed)
                                      : Error{ErrorName::ProtocolViolation, "the hello names another peer than the connection"};
  if (!refused) refused = misplaced(roster, message, now);
  if (refused) return refuse(roster, from, message, *refused, effects);
  Peer peer;
  peer.hello = message;
  peer.ordinal = ordinal_for(roster, message);
  peer.heard = peer.greeted = now;
  set_seat(peer, Seat::Greeted, now);
  const auto& newcomer = roster.peers.emplace(from, std::move(peer)).first->second;
  effects.emplace_back(Send{from, Welcome{newcomer.ordinal, roster.options.manifest}});
  effects.emplace_back(LookFor{from, message.lanes});
  tell_replica(roster, newcomer, effects);
  return message.name + " is welcome";
}

std::string returned(Roster& roster, PeerId from, const Hello& message, Instant now, Effects& effects) {
  auto& peer = roster.peers.at(from);
  peer.hello = message;
  set_seat(peer, Seat::Greeted, now);
  if (peer.absent) heard_again(roster, from, effects);
  effects.emplace_back(Send{from, Welcome{peer.ordinal, roster.options.manifest}});
  if (!is_whole(roster, peer)) effects.emplace_back(Send{from, ReplicaLacks{missing_in(roster, peer)}});
  return message.name + " is welcome again";
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
  peer.fetch.attempts = 0;                                      // that it may have to fetch again is no fault of its donors
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
  if (message.revision != roster.revision) {
    ++peer.fetch.stale;  // the donor has moved on: no fault of anybody
    peer.fetch.attempts = 0;
  } else if (const auto donor = roster.peers.find(message.donor);
             peer.fetch.attempts >= MAX_FETCH_ATTEMPTS && donor != roster.peers.end() && is_here_with_state(roster, donor->second, now)) {
    // One that may be dead, which is known in a moment, proves nothing.
    Departures{roster, now, effects}.dismiss(
        from, Error{ErrorName::FetchFailed, std::to_string(peer.fetch.attempts) + " attempts; the last: " + to_string(message.error)});
    return "no donor could serve it";
  }
  peer.fetch.retry_at = now;
  if (peer.fetch.attempts > 1) peer.fetch.retry_at += RETRY_FETCH_AFTER * (peer.fetch.attempts - 1);
  set_seat(peer, Seat::Seated, now);
  refresh_fetches(roster, now, effects);
  return peer.hello.name + " tries another donor";
}

/// Whether this applies to the peer or to another one of its replica, which would go with it.
template <class Predicate>
bool any_of_replica(const Roster& roster, PeerId id, Predicate applies) {
  return std::ranges::any_of(replica_of(roster, roster.peers.at(id)), [&](PeerId each) { return applies(roster.peers.at(each)); });
}

/// Whether it holds the current state of its shard, and nobody else does of whom this is true.
template <class Predicate>
bool holds_alone(const Roster& roster, const Peer& peer, Predicate also_holds) {
  return holds_current_state(roster, peer) && std::ranges::none_of(roster.peers, [&](const auto& entry) {
           return entry.first != peer.hello.peer && entry.second.hello.shard == peer.hello.shard && also_holds(entry.second);
         });
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

std::vector<PeerId> admit(Roster& roster, Instant now, Effects& effects) {
  std::vector<Peer*> admitted;
  std::map<std::uint64_t, std::uint32_t> caught_up;  // peers of each replica
  for (auto& [id, peer] : roster.peers) {
    if (peer.seat != Seat::CaughtUp || peer.absent || peer.seated.revision != roster.revision) continue;
    admitted.push_back(&peer);
    ++caught_up[peer.ordinal];
  }
  std::erase_if(admitted, [&](const Peer* peer) { return caught_up.at(peer->ordinal) < roster.options.shards; });
  // The first view waits for its quorum, so that all begin the first step together.
  const bool first = roster.view.members.empty() && !roster.has_trained();
  if (admitted.empty() || (first && admitted.size() / roster.options.shards < roster.options.start_quorum)) return {};
  if (first && roster.data_lent && !roster.founders_awaited.empty()) return {};  // nobody trains on a stranger's data
  std::ranges::sort(admitted, {}, [](const Peer* peer) { return std::pair{peer->ordinal, peer->hello.shard}; });
  auto& members = roster.view.members.edit();
  std::vector<PeerId> ids;
  for (auto* peer : admitted) {
    set_seat(*peer, Seat::Member, now);
    peer->fetch = {};
    ids.push_back(peer->hello.peer);
    members.push_back(Member{peer->hello.peer, peer->hello.name, peer->hello.lanes, peer->ordinal});
    effects.emplace_back(events::PeerAdmitted{.who = who(*peer), .epoch = roster.view.epoch, .revision = roster.revision});
  }
  std::ranges::stable_sort(members, {}, &Member::ordinal);  // those of one ordinal came together, by shard
  return ids;
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

/// Whether nothing but its fetch keeps its replica out.
bool may_enter(const Roster& roster, const Peer& peer) {
  return is_bound(roster, peer) && !any_of_replica(roster, peer.hello.peer, [](const Peer& each) { return each.absent; });
}

std::optional<PeerId> overtaken(const Roster& roster) {
  for (const auto& [id, peer] : roster.peers)
    if (!peer.absent && (peer.seat == Seat::Fetching || peer.seat == Seat::Seated) && peer.fetch.stale >= MAX_STALE_FETCHES &&
        may_enter(roster, peer))
      return id;
  return std::nullopt;
}

}  // namespace prime::membership
