#include "actors/coordinator/membership_machine.hpp"

#include <algorithm>

#include "actors/coordinator/departures.hpp"
#include "actors/coordinator/progress.hpp"
#include "actors/coordinator/topology_machine.hpp"

namespace prime::coordinator::membership {
namespace {

/// Between the second and the third attempt of a fetch; grows with each further one.
constexpr Duration RETRY_FETCH_AFTER = 250ms;

void set_seat(Peer& peer, Seat seat, Instant now) {
  peer.seat = seat;
  peer.since = now;
}

/// In a large run nobody looks at all the others for each joiner: from its own place in the view it takes the next who holds the state.
std::optional<PeerId> donor_in_turn(const State& state, const Peer& joiner) {
  const auto& members = state.view.members;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto id = members[(joiner.ordinal + joiner.fetch.attempts + i) % members.size()].id;
    const auto& peer = state.peers.at(id);
    if (id != joiner.hello.peer && !peer.absent && holds_current_state(state, peer)) return id;
  }
  return std::nullopt;
}

/// The holder with the fewest fetches on it; the oldest among equals.
std::optional<PeerId> choose_donor(const State& state, PeerId joiner, PeerId avoid) {
  if (state.peers.size() > LOOKED_AT_AFTER_EACH) return donor_in_turn(state, state.peers.at(joiner));
  std::map<PeerId, std::size_t> fetches;
  for (const auto& [id, peer] : state.peers)
    if (peer.seat == Seat::Fetching) ++fetches[peer.fetch.donor];
  const Peer* best = nullptr;
  std::size_t best_load = 0;
  for (const auto& [id, peer] : state.peers) {
    if (id == joiner || peer.absent || !holds_current_state(state, peer)) continue;
    const auto counted = fetches.find(id);
    auto load = counted != fetches.end() ? counted->second : 0;
    if (id == avoid) load += state.peers.size();  // only when there is no other
    if (best == nullptr || load < best_load || (load == best_load && peer.ordinal < best->ordinal)) {
      best = &peer;
      best_load = load;
    }
  }
  return best != nullptr ? std::optional<PeerId>{best->hello.peer} : std::nullopt;
}

/// Members that may reach the donor where the joiner does not: others with each attempt.
std::vector<Member> fetch_relays(const State& state, const Peer& joiner, PeerId donor) {
  const auto& members = state.view.members.list();
  std::vector<Member> relays;
  for (std::size_t i = 0; i < members.size() && relays.size() < MAX_FETCH_RELAYS; ++i) {
    const auto& member = members[(joiner.fetch.attempts * MAX_FETCH_RELAYS + i) % members.size()];
    const auto peer = state.peers.find(member.id);
    if (member.id != donor && peer != state.peers.end() && !peer->second.absent) relays.push_back(member);
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

/// Sends a seated peer to a donor, or makes it the founder of a run that has no state yet.
std::string assign(State& state, Peer& peer, PeerId avoid, Instant now, Effects& effects) {
  if (!state.digest) {
    state.digest = peer.seated.state;
    set_seat(peer, Seat::CaughtUp, now);
    effects.emplace_back(events::StateFounded{who(peer), *state.digest, state.elements});
    return peer.hello.name + " founds the shared state";
  }
  if (peer.seated.revision == state.revision && peer.seated.state == *state.digest) {
    set_seat(peer, Seat::CaughtUp, now);
    return peer.hello.name + " holds the current state already";
  }
  const auto donor = choose_donor(state, peer.hello.peer, avoid);
  if (!donor) {
    set_seat(peer, Seat::Seated, now);
    return peer.hello.name + " waits for a donor";
  }
  const auto& giver = state.peers.at(*donor);
  set_seat(peer, Seat::Fetching, now);
  peer.fetch.donor = *donor;
  peer.fetch.revision = state.revision;
  peer.fetch.state = *state.digest;
  progress::begin(peer, now);
  ++peer.fetch.attempts;
  effects.emplace_back(events::PeerFetching{who(peer), giver.hello.name, state.revision, peer.fetch.attempts});
  effects.emplace_back(
      Send{peer.hello.peer, FetchState{*donor, giver.hello.lanes, state.revision, *state.digest, fetch_relays(state, peer, *donor)}});
  return peer.hello.name + " fetches revision " + std::to_string(state.revision.value) + " from " + giver.hello.name;
}

}  // namespace

std::optional<Error> refusal(const State& state, const Hello& message) {
  if (message.protocol != PROTOCOL_VERSION)
    return Error{ErrorName::VersionMismatch,
                 "the run speaks protocol " + std::to_string(PROTOCOL_VERSION) + ", the peer " + std::to_string(message.protocol)};
  if (message.run != state.options.run)
    return Error{ErrorName::WrongRun, "run `" + state.options.run + "`, the invite names `" + message.run + "`"};
  if (state.options.shards == 1 && !message.replica.empty())
    return Error{ErrorName::Usage, "this run is not sharded, and the peer says that it holds shard " + std::to_string(message.shard)};
  if (message.name.size() > 64 || !are_sane(message.lanes))
    return Error{ErrorName::ProtocolViolation, "its name is too long, or it tells more or longer addresses than are taken"};
  for (const auto& [id, cause] : state.gone)
    if (id == message.peer && cause.name == ErrorName::RolledBack) return cause;
    else if (id == message.peer)
      return Error{ErrorName::Evicted, "it went with: " + (cause.name == ErrorName::Evicted ? cause.detail : to_string(cause))};
  if (state.phase == Phase::Finishing || state.phase == Phase::Over)
    return Error{ErrorName::RunDone, state.revision.value >= state.options.outer_steps
                                         ? "all outer steps are committed"
                                         : "it failed after outer step " + std::to_string(state.revision.value)};
  if (message.returning)
    return Error{ErrorName::Evicted, "it has no seat in epoch " + std::to_string(state.view.epoch.value) + " any more"};
  if (state.peers.size() >= state.options.max_peers) {
    const auto limit = std::to_string(state.options.max_peers);
    return Error{ErrorName::RunFull, limit + " of " + limit};
  }
  return std::nullopt;
}

std::string refuse(const State& state, PeerId from, const Hello& message, const Error& cause, Effects& effects) {
  effects.emplace_back(events::PeerRefused{{from, message.name}, cause});
  effects.emplace_back(Send{from, Dismissed{told(state, cause)}});
  return "refused " + message.name + ": " + to_string(cause);
}

Who who(const Peer& peer) { return {peer.hello.peer, peer.hello.name}; }

bool holds_current_state(const State& state, const Peer& peer) {
  return state.digest && (peer.seat == Seat::CaughtUp || peer.seat == Seat::Member) && peer.seated.revision == state.revision;
}

std::string without_seat(const State& state, PeerId from, Effects& effects) {
  const Error cause{ErrorName::Evicted, "it has no seat in epoch " + std::to_string(state.view.epoch.value)};
  effects.emplace_back(Send{from, Dismissed{told(state, cause)}});
  return "a message from a peer without a seat";
}

std::string hello(State& state, PeerId from, const Hello& message, Instant now, Effects& effects) {
  const auto refused = from == message.peer ? refusal(state, message)
                                            : Error{ErrorName::ProtocolViolation, "the hello names another peer than the connection"};
  if (refused) return refuse(state, from, message, *refused, effects);
  Peer peer;
  peer.hello = message;
  peer.ordinal = state.next_ordinal++;
  peer.heard = now;
  set_seat(peer, Seat::Greeted, now);
  effects.emplace_back(events::PeerJoining{who(peer), message.pid, text_of(message.lanes)});
  effects.emplace_back(Send{from, Welcome{peer.ordinal, state.options.manifest}});
  effects.emplace_back(LookFor{from, message.lanes});
  state.peers.emplace(from, std::move(peer));
  return message.name + " is welcome";
}

std::string returned(State& state, PeerId from, const Hello& message, Instant now, Effects& effects) {
  auto& peer = state.peers.at(from);
  peer.hello = message;
  set_seat(peer, Seat::Greeted, now);
  heard_again(state, from, effects);
  effects.emplace_back(Send{from, Welcome{peer.ordinal, state.options.manifest}});
  return message.name + " is welcome again";
}

std::string seated(State& state, PeerId from, const Seated& message, Instant now, Effects& effects) {
  auto& peer = state.peers.at(from);
  if (peer.seat != Seat::Greeted) return peer.hello.name + " is seated already";
  if (!state.layout) {
    state.layout = message.layout;
    state.elements = message.elements;
  }
  if (message.layout != *state.layout) {
    dismiss(state, from,
            Error{ErrorName::LayoutMismatch,
                  (state.options.shards > 1 ? "the trainers of its replica bind " : "the trainer of this peer binds ") +
                      std::to_string(message.elements) + " elements, those of the run bind " + std::to_string(state.elements) +
                      (message.elements == state.elements ? ", with other names, shapes or dtypes" : "")},
            now, effects);
    return "layout differs";
  }
  if (message.data.told() && !state.data.told()) {
    state.data = message.data;
    state.data.summary.resize(std::min(state.data.summary.size(), MAX_DATA_SUMMARY_BYTES));
    effects.emplace_back(events::DataFounded{who(peer), state.data.summary});
  }
  // Who trains on other samples under the same numbers trains on some that others hold out.
  if (message.data.told() && message.data.digest != state.data.digest) {
    dismiss(state, from,
            Error{ErrorName::DataMismatch, "this peer finds " + message.data.summary + "; the run trains on " + state.data.summary}, now,
            effects);
    return "data differs";
  }
  peer.seated = message;
  effects.emplace_back(events::PeerSeated{who(peer), message.trainer_pid, message.state});
  return assign(state, peer, PeerId{}, now, effects);
}

std::string fetched(State& state, PeerId from, const Fetched& message, Instant now, Effects& effects) {
  auto& peer = state.peers.at(from);
  // A peer takes nothing but the state that it was sent for. What it was sent for before may have been of another founder.
  if (peer.seat != Seat::Fetching || message.revision != peer.fetch.revision || message.state != peer.fetch.state)
    return "a fetch that nobody waits for";
  peer.seated.revision = message.revision;
  peer.seated.state = message.state;
  if (message.revision != state.revision) {
    ++peer.fetch.stale;  // a commit overtook it
    peer.fetch.attempts = 0;
  }
  // The founder may have gone meanwhile: then there is no state, or that of another founder.
  if (message.revision != state.revision || state.digest != message.state) return assign(state, peer, PeerId{}, now, effects);
  set_seat(peer, Seat::CaughtUp, now);
  effects.emplace_back(events::PeerFetched{who(peer), message.revision, message.state});
  return peer.hello.name + " holds revision " + std::to_string(message.revision.value);
}

std::string fetch_failed(State& state, PeerId from, const FetchFailed& message, Instant now, Effects& effects) {
  auto& peer = state.peers.at(from);
  if (peer.seat != Seat::Fetching || message.donor != peer.fetch.donor || message.revision != peer.fetch.revision)
    return "a fetch that nobody waits for";
  effects.emplace_back(events::FetchFailed{who(peer), message.donor, message.error});
  if (message.revision != state.revision) {
    ++peer.fetch.stale;  // the donor has moved on: no fault of anybody
    peer.fetch.attempts = 0;
  } else if (peer.fetch.attempts >= MAX_FETCH_ATTEMPTS) {
    dismiss(state, from,
            Error{ErrorName::FetchFailed, std::to_string(peer.fetch.attempts) + " attempts; the last: " + to_string(message.error)}, now,
            effects);
    return "no donor could serve it";
  }
  peer.fetch.retry_at = now;
  if (peer.fetch.attempts > 1) peer.fetch.retry_at += RETRY_FETCH_AFTER * (peer.fetch.attempts - 1);
  set_seat(peer, Seat::Seated, now);
  refresh_fetches(state, now, effects);
  return peer.hello.name + " tries another donor";
}

bool is_last_holder(const State& state, PeerId id) {
  return holds_current_state(state, state.peers.at(id)) && std::none_of(state.peers.begin(), state.peers.end(), [&](const auto& entry) {
           return entry.first != id && holds_current_state(state, entry.second);
         });
}

bool is_here_with_state(const State& state, const Peer& peer, Instant now) {
  // Two of its heartbeats fit into the limit: who has missed one may be about to be silent, too.
  return !peer.absent && now - peer.heard <= state.options.heartbeat_limit / 2 && holds_current_state(state, peer);
}

bool is_needed(const State& state, PeerId id, Instant now) {
  const bool unsaved = state.phase < Phase::Finishing || (state.phase == Phase::Finishing && !state.saved);
  return state.has_trained() && unsaved && holds_current_state(state, state.peers.at(id)) &&
         std::none_of(state.peers.begin(), state.peers.end(),
                      [&](const auto& entry) { return entry.first != id && is_here_with_state(state, entry.second, now); });
}

void dismiss(State& state, PeerId id, const Error& cause, Instant now, Effects& effects) {
  Departures{state, now, effects}.dismiss(id, cause);
}

void miss(State& state, PeerId id, const std::string& why, Instant now, Effects& effects) {
  auto& peer = state.peers.at(id);
  if (peer.absent) return;
  peer.absent = true;
  effects.emplace_back(events::PeerAbsent{who(peer), why});
  look_for(peer, now, effects);
}

void look_for_absent(State& state, Instant now, Effects& effects) {
  for (auto& [id, peer] : state.peers)
    if (peer.absent && now >= peer.look_at) look_for(peer, now, effects);
}

void heard_again(State& state, PeerId id, Effects& effects) {
  auto& peer = state.peers.at(id);
  peer.absent = false;
  effects.emplace_back(events::PeerReturned{who(peer)});
  effects.emplace_back(LookFor{id, peer.hello.lanes});
}

std::vector<PeerId> admit(State& state, Instant now, Effects& effects) {
  if (state.phase != Phase::Waiting && state.phase != Phase::Training) return {};
  // Who was sent away for a link that is broken joins anew in a moment: the step that it held up ends first, without it.
  if (state.phase == Phase::Training && state.unlinked_in == state.step) return {};
  std::vector<Peer*> admitted;
  for (auto& [id, peer] : state.peers)
    if (peer.seat == Seat::CaughtUp && !peer.absent && peer.seated.revision == state.revision) admitted.push_back(&peer);
  // The first view waits for its quorum, so that all begin the first step together.
  if (admitted.empty() || (state.view.members.empty() && !state.has_trained() && admitted.size() < state.options.start_quorum)) return {};
  std::sort(admitted.begin(), admitted.end(), [](const Peer* a, const Peer* b) { return a->ordinal < b->ordinal; });
  auto& members = state.view.members.edit();
  std::vector<PeerId> ids;
  for (auto* peer : admitted) {
    set_seat(*peer, Seat::Member, now);
    peer->fetch = {};
    peer->contributes = false;
    peer->begun = OuterStep{};
    peer->ready.reset();
    peer->vote.reset();
    ids.push_back(peer->hello.peer);
    members.push_back(Member{peer->hello.peer, peer->hello.name, peer->hello.lanes, peer->ordinal});
    effects.emplace_back(events::PeerAdmitted{.who = who(*peer), .epoch = state.view.epoch, .revision = state.revision});
  }
  std::ranges::sort(members, {}, &Member::ordinal);
  topology::members_changed(state);
  return ids;
}

void refresh_fetches(State& state, Instant now, Effects& effects) {
  for (auto& [id, peer] : state.peers) {
    if (peer.absent) continue;
    const bool overtaken = peer.seat == Seat::CaughtUp && peer.seated.revision != state.revision;
    // Only for the same bits is another donor named at once: what else a peer fetched is not known before it reports.
    const bool orphaned = peer.seat == Seat::Fetching && !state.peers.contains(peer.fetch.donor) && state.digest == peer.fetch.state;
    if (overtaken) ++peer.fetch.stale;
    const bool waits_for_donor = peer.seat == Seat::Seated && now >= peer.fetch.retry_at;
    if (overtaken || orphaned || waits_for_donor) assign(state, peer, waits_for_donor ? peer.fetch.donor : PeerId{}, now, effects);
  }
}

void notice_standstill(State& state, Instant now) {
  const auto gap = now - state.ticked;
  if (gap <= patience(state)) return;
  if (gap > state.options.heartbeat_limit / 2) {
    state.thawed = now;
    for (auto& [id, peer] : state.peers) peer.heard = now;
  }
  forgive_since_tick(state, now);
  state.ticked = now;
}

Duration patience(const State& state) { return std::min(state.options.heartbeat_limit / 2, state.options.deadline / 4); }

void forgive_since_tick(State& state, Instant now) {
  const auto gap = now - state.ticked;
  for (auto* since : {&state.first_ready, &state.quorum_since})
    if (*since) *since = std::min(now, **since + gap);
  state.operation.since = std::min(now, state.operation.since + gap);
  for (auto& [id, peer] : state.peers) {
    peer.since = std::min(now, peer.since + gap);
    peer.transfer.last = std::min(now, peer.transfer.last + gap);
  }
}

bool was_frozen(const State& state, Instant now) {
  const bool now_waking = now - state.ticked > state.options.heartbeat_limit / 2;
  return now_waking || (state.thawed && now - *state.thawed <= state.options.heartbeat_limit);
}

bool expire(State& state, Instant now, Effects& effects) {
  state.ticked = now;
  const bool deserted = state.has_trained() && std::none_of(state.peers.begin(), state.peers.end(), [&](const auto& entry) {
                          return is_here_with_state(state, entry.second, now);
                        });
  if (deserted) state.deserted = now;
  // When one of them has come back, the others have a heartbeat limit more.
  const bool waits = state.deserted && now - *state.deserted <= state.options.heartbeat_limit;
  std::vector<std::pair<PeerId, Error>> overdue;
  const auto& options = state.options;
  bool missed = false;
  for (const auto& [id, peer] : state.peers) {
    const auto silence = now - peer.heard;
    if (silence > options.heartbeat_limit && silence <= options.return_limit() && waits && holds_current_state(state, peer)) {
      missed = missed || !peer.absent;
      miss(state, id, "no heartbeat for " + format_duration(silence), now, effects);
    } else if (silence > options.heartbeat_limit)
      overdue.emplace_back(
          id, Error{ErrorName::Evicted, (peer.absent ? "it did not come back for " : "no heartbeat for ") + format_duration(silence)});
    else if (peer.seat == Seat::Fetching && progress::fetch_stands_still(state, peer, now))
      overdue.emplace_back(
          id, Error{ErrorName::DeadlineExceeded, "nothing of its state fetch moved for " + format_duration(options.deadline) +
                                                     " (`sync.deadline`); " + progress::to_string(progress::of_fetch(state, peer, now))});
  }
  Departures departures{state, now, effects};
  for (const auto& [id, cause] : overdue) departures.dismiss(id, cause);
  return departures.settle() || missed;
}

std::optional<PeerId> held_for(const State& state, Instant now) {
  if (state.held_since && now - *state.held_since > state.options.deadline) return std::nullopt;
  for (const auto& [id, peer] : state.peers)
    if (!peer.absent && (peer.seat == Seat::Fetching || peer.seat == Seat::Seated) && peer.fetch.stale >= MAX_STALE_FETCHES) return id;
  return std::nullopt;
}

}  // namespace prime::coordinator::membership
