// Owns the order in which membership and outer step see an event.
#include <algorithm>
#include <tuple>

#include "actors/coordinator/attempts.hpp"
#include "actors/coordinator/columns.hpp"
#include "actors/coordinator/commits.hpp"
#include "actors/coordinator/decoupled.hpp"
#include "actors/coordinator/departures.hpp"
#include "actors/coordinator/operations.hpp"
#include "actors/coordinator/outer_step_machine.hpp"
#include "actors/coordinator/progress.hpp"
#include "actors/coordinator/rollback_machine.hpp"
#include "actors/coordinator/run_end_machine.hpp"
#include "actors/coordinator/topology_machine.hpp"
#include "actors/coordinator/waits.hpp"
#include "actors/membership/membership_machine.hpp"
#include "actors/membership/presence.hpp"
#include "actors/membership/replicas.hpp"
#include "actors/membership/seating.hpp"

namespace prime::coordinator {
namespace {

/// Takes a peer out; if it took part in the operation in flight, that is void, and the survivors hear of it.
void lose(State& state, PeerId peer, const Error& cause, bool left, Instant now, Effects& effects) {
  const auto found = state.peers.find(peer);
  if (found == state.peers.end()) return;
  const auto name = found->second.hello.name;
  Departures departures{state, now, effects};
  departures.remove(peer, cause, left);
  if (departures.settle()) operations::abort(state, left ? AbortCause::PeerLeft : AbortCause::PeerLost, {peer, name, cause}, now, effects);
}

/// A connection may break while both its ends live: the seat is kept until its peer is back, has been silent for too long, or is known to
/// be gone. What it takes part in goes on: if its vote is there, nothing else of it is needed.
void disconnect(State& state, PeerId id, const std::string& reason, Instant now, Effects& effects) {
  const auto known = state.peers.find(id);
  if (known == state.peers.end() || known->second.absent) return;
  // Who waits for others of its replica has nothing that is worth to be kept for it, and keeps a place from who may come.
  if (membership::waits_for_replica(state, id)) return lose(state, id, Error{ErrorName::PeerLost, reason}, false, now, effects);
  known->second.heard = now;
  membership::miss(state, id, membership::was_frozen(state, now) ? "the coordinator stood still" : reason, now, effects);
}

void vanish(State& state, PeerId id, const std::string& reason, Instant now, Effects& effects) {
  if (membership::is_lost(state, id, now)) lose(state, id, Error{ErrorName::PeerLost, reason}, false, now, effects);
}

/// That a process is gone is dealt with at once in a small run, and while a reduce is under way, which it makes void.
bool is_decided_later(const State& state) {
  return state.peers.size() > membership::LOOKED_AT_AFTER_EACH && state.phase != Phase::Reducing;
}

void vanish_all(State& state, Instant now, Effects& effects) {
  Departures departures{state, now, effects};
  for (const auto& [peer, reason] : std::exchange(state.vanished, {}))
    if (membership::is_lost(state, peer, now)) departures.remove(peer, Error{ErrorName::PeerLost, reason}, false);
}

/// Dismisses the silent and the overdue, and misses those without whom the run could not go on; whether a member is concerned.
bool expire(State& state, Instant now, Effects& effects) {
  const auto overdue = membership::overdue(state, now, effects);
  Departures departures{state, now, effects};
  for (const auto& [id, cause] : overdue.peers) departures.dismiss(id, cause);
  for (const auto& [id, cause] : membership::waited_in_vain(state, state.plan.wait_limit, now)) departures.dismiss(id, cause);
  return departures.settle() || overdue.missed;
}

/// The answer tells who leaves that it was heard, and whether it takes the last copy of the state with it.
std::string farewell(State& state, PeerId from, const Deathrattle& message, Instant now, Effects& effects) {
  const auto name = state.peers.at(from).hello.name;
  const bool last = state.has_trained() && !state.safe && membership::is_last_holder(state, from);
  if (last) {  // each of its replica saves what it holds
    for (const auto id : membership::replica_of(state, state.peers.at(from)))
      effects.emplace_back(Send{id, Dismissed{Error{ErrorName::RunStopped, "all peers have left"}}});
  } else {
    effects.emplace_back(Send{from, Dismissed{Error{ErrorName::PeerLost, "left"}}});
  }
  effects.emplace_back(Fence{from});
  lose(state, from, message.cause, message.graceful, now, effects);
  if (last && message.graceful) outer_step::stop(state, "all peers have left; " + name + " was the last", now, effects);
  return "deathrattle";
}

std::string receive(State& state, const Received& event, Instant now, Effects& effects) {
  const auto from = event.from;
  const auto known = state.peers.find(from);
  if (known == state.peers.end()) {
    if (const auto* greeting = std::get_if<Hello>(&event.message))
      return membership::hello(state, from, *greeting, outer_step::closed(state), now, effects);
    return membership::without_seat(state, from, effects);
  }
  known->second.heard = now;
  // Its connection stood all the while, and what either side said meanwhile arrives.
  if (known->second.absent && !std::holds_alternative<Hello>(event.message)) membership::heard_again(state, from, effects);
  return std::visit(overloaded{
                        [&](const Hello& m) {
                          const auto& before = known->second.hello;
                          if (std::tie(m.shard, m.replica) != std::tie(before.shard, before.replica)) {
                            const Error cause{ErrorName::ProtocolViolation, "it says that it holds another shard than before"};
                            dismiss(state, from, cause, now, effects);
                            return std::string{"another shard than before"};
                          }
                          // There is another connection now: the end of the first has yet to be heard.
                          if (!membership::waits_for_replica(state, from)) disconnect(state, from, "its connection closed", now, effects);
                          if (known->second.seat == Seat::Member) return outer_step::returned(state, from, m, now, effects);
                          return membership::returned(state, from, m, now, effects);
                        },
                        [&](const Seated& m) { return membership::seated(state, from, m, now, effects); },
                        [&](const Fetched& m) { return membership::fetched(state, from, m, now, effects); },
                        [&](const FetchFailed& m) { return membership::fetch_failed(state, from, m, now, effects); },
                        [&](const Ready& m) { return outer_step::ready(state, from, m, now, effects); },
                        [&](const Vote& m) { return operations::vote(state, from, m, now, effects); },
                        [&](const ReduceFailed& m) { return operations::failed(state, from, m, now, effects); },
                        [&](const InDoubt& m) { return operations::in_doubt(state, from, m, effects); },
                        [&](const Heartbeat& m) {
                          membership::note_moved(known->second, m.moved_bytes, now);
                          effects.emplace_back(Send{from, HeartbeatSeen{state.view.epoch}});
                          return std::string{};
                        },
                        [&](const LinkMeasured& m) { return topology::measured(state, from, m, now, effects); },
                        [&](const LaneRelayed& m) { return topology::relayed(state, from, m, effects); },
                        [&](const TrainerRestarted& m) { return attempts::trainer_restarted(state, from, m, now, effects); },
                        [&](const LeaseUsed& m) { return decoupled::lease_used(state, from, m); },
                        [&](const Deathrattle& m) { return farewell(state, from, m, now, effects); },
                        [&](const StateSaved& m) { return run_end::state_saved(state, from, m, now, effects); },
                        [&](const FinalReport& m) { return run_end::final_report(state, from, m); },
                    },
                    event.message);
}

/// Who has just come has yet to hear where else the run may be served.
void tell_coordinators(const State& s, const Event& event, Effects& effects) {
  const auto* received = std::get_if<Received>(&event);
  const bool greets = received != nullptr && std::holds_alternative<Hello>(received->message);
  if (greets && s.peers.contains(received->from) && !s.coordinators.addresses.empty())
    effects.emplace_back(Send{received->from, s.coordinators});
}

/// Whether something that all wait for may be there now. In a small run that is asked after each event.
bool concerns_all(const State& s, const Event& event, std::pair<Phase, Revision> before) {
  if (s.peers.size() <= membership::LOOKED_AT_AFTER_EACH || before != std::pair{s.phase, s.revision}) return true;
  if (std::holds_alternative<Tick>(event) || std::holds_alternative<StopRequested>(event)) return true;
  if (std::holds_alternative<PauseRequested>(event) || std::holds_alternative<ResumeRequested>(event)) return true;
  const auto* received = std::get_if<Received>(&event);
  if (s.phase == Phase::Finishing) return true;
  if (received != nullptr && std::holds_alternative<LeaseUsed>(received->message)) return true;
  if (received == nullptr || !std::holds_alternative<Ready>(received->message)) return false;
  if (s.plan.decoupled) return true;
  const bool quorum = s.plan.quorum > 0 && !s.round().quorum_since &&
                      s.view.members.size() - s.collection.unready >= std::size_t{s.plan.quorum} * s.options.shards;
  return s.collection.unready == 0 || quorum;
}

/// Changes whenever there is something new to keep.
auto decisions(const State& s) {
  return std::tuple{s.view.epoch,
                    s.view.members.size(),
                    s.sequence,
                    s.revision,
                    std::tuple{s.collection.begun, s.collection.step, s.collection.span, s.closed_span, s.given_back, s.leased},
                    s.phase < Phase::Finishing ? Phase::Waiting : s.phase,
                    s.finalist,
                    std::pair{s.pause.has_value(), s.paused_by_owner.has_value()}};
}

void note_owed(Snapshot::Owed& owed, std::uint32_t fragment, const Work& work) {
  if (fragment > 0 && !work.contributes) return;
  if (work.contributes) owed.fragments.push_back(fragment);
  owed.begun = work.begun;
  owed.base = work.base;
  owed.first_sample = work.first_sample;
  owed.taken = work.taken;
}

Work owed_work(const Snapshot::Owed& owed, std::uint32_t fragment) {
  return {.contributes = std::ranges::find(owed.fragments, fragment) != owed.fragments.end(),
          .begun = owed.begun,
          .base = owed.base,
          .first_sample = owed.first_sample,
          .taken = owed.taken};
}

Snapshot snapshot(const State& s) {
  Snapshot kept{.epoch = s.view.epoch,
                .members = {},
                .next_ordinal = s.next_ordinal,
                .phase = s.phase,
                .paused_for = s.pause ? std::optional{s.pause->members} : std::nullopt,
                .paused_by_owner = s.paused_by_owner.has_value(),
                .checkpoint = s.checkpoint,
                .restoring = s.restoring.has_value(),
                .end_cause = s.end_cause,
                .finalist = s.finalist,
                .data = s.data,
                .digest = s.digest,
                .shards = s.shards,
                .revision = s.revision,
                .versions = {},
                .cursor = s.cursor,
                .given_back = s.given_back,
                .unused = s.unused,
                .step_begun = s.collection.begun,
                .step_span = s.collection.span,
                .closed_span = s.closed_span,
                .tokens = s.tokens,
                .sequence = s.sequence,
                .operation = s.operation,
                .commits = commits::in_order(s)};
  for (const auto& round : s.rounds) kept.versions.emplace_back(round.step.value - 1);
  for (const auto& member : s.view.members) {
    const auto& peer = s.peers.at(member.id);
    Snapshot::Kept one{.member = member,
                       .pid = peer.hello.pid,
                       .trainer_pid = peer.seated.trainer_pid,
                       .shard = peer.hello.shard,
                       .replica = peer.hello.replica};
    for (std::uint32_t fragment = 0; fragment < s.rounds.size(); ++fragment) {
      const auto& round = s.rounds[fragment];
      note_owed(one.owed, fragment, round.work.at(member.id));
      if (const auto closed = round.closed.find(member.id); closed != round.closed.end()) note_owed(one.closed, fragment, closed->second);
    }
    if (const auto leases = s.leases.find(member.id); leases != s.leases.end()) one.leases = leases->second;
    kept.members.push_back(std::move(one));
  }
  return kept;
}

void note_wait(State& state, Instant now, Effects& effects) {
  auto wait = wait_of(state, now);
  if (wait == state.waiting) return;
  // An instant of this process means nothing to a reader of the journal; the line's own time does.
  events::Waiting event{.phase = state.phase, .what = wait.what};
  if (!wait.what.empty()) event.waited_s = now - wait.since;
  if (wait.until) event.left_s = std::max(*wait.until - now, Duration{});
  state.waiting = std::move(wait);
  effects.emplace_back(std::move(event));
}

}  // namespace

State initial(Options options, Instant now) {
  State state;
  state.options = options;
  state.plan = std::move(options);
  const auto& founders = state.options.founders;
  state.founders_awaited = {founders.begin(), founders.end()};
  state.next_ordinal = founders.size();
  state.shards.resize(state.options.shards);
  state.rounds.resize(state.options.fragments);
  state.view.epoch = Epoch{1};
  state.phase_since = now;
  state.ticked = now;
  if (const auto& origin = state.plan.origin) {
    state.origin = origin->revision;
    membership::note_saved_state(state, origin->state, origin->shards);
    state.revision = origin->revision;
    for (std::size_t fragment = 0; fragment < state.rounds.size(); ++fragment)
      state.rounds[fragment].step = (origin->versions.empty() ? origin->step : origin->versions[fragment]).next();
    state.made = origin->step;
    state.cursor = origin->next_sample;
    state.tokens = origin->tokens;
    state.given_back = origin->given_back;
    state.unused.assign(origin->given_back.begin(), origin->given_back.end());
  }
  return state;
}

State restore(Options options, const Snapshot& snapshot, Instant now) {
  auto state = initial(std::move(options), now);
  state.next_ordinal = snapshot.next_ordinal;
  state.view.epoch = snapshot.epoch;
  std::vector<Member> members;
  for (const auto& kept : snapshot.members) {
    const auto& member = kept.member;
    Peer peer;
    peer.hello =
        Hello{PROTOCOL_VERSION, state.options.run, member.id, member.name, member.lanes, kept.pid, false, kept.shard, kept.replica};
    peer.ordinal = member.ordinal;
    peer.seat = Seat::Member;
    peer.absent = true;
    peer.greeted = peer.since = peer.heard = now;
    const auto& shard = snapshot.shards.at(kept.shard);
    peer.seated =
        Seated{snapshot.revision, shard.state.value_or(Digest{}), shard.layout.value_or(Digest{}), shard.elements, kept.trainer_pid,
               snapshot.data};
    state.peers.emplace(member.id, std::move(peer));
    if (state.plan.decoupled) {
      for (auto& round : state.rounds) round.work.emplace(member.id, Work{});
      if (!kept.leases.empty()) state.leases.emplace(member.id, kept.leases).first->second.back().used = false;  // it says it again
      members.push_back(member);
      continue;
    }
    for (std::uint32_t fragment = 0; fragment < state.rounds.size(); ++fragment) {
      state.rounds[fragment].work.emplace(member.id, owed_work(kept.owed, fragment));
      if (auto closed = owed_work(kept.closed, fragment); closed.contributes)
        state.rounds[fragment].closed.emplace(member.id, std::move(closed));
    }
    members.push_back(member);
  }
  state.view.members = std::move(members);
  state.phase = snapshot.phase == Phase::Reducing ? Phase::Training : snapshot.phase;
  if (snapshot.paused_for) state.pause = Pause{*snapshot.paused_for, now};
  if (snapshot.paused_by_owner) state.paused_by_owner = now;
  state.checkpoint = snapshot.checkpoint;
  if (snapshot.restoring) rollback::await_checkpoint(state, now);
  state.end_cause = snapshot.end_cause;
  state.finalist = snapshot.finalist;
  if (state.finalist && state.peers.contains(*state.finalist)) state.duties[*state.finalist].asked_to_save = now;
  // A state that nothing was trained on and no member holds is founded anew, as when all who held it were lost.
  if (!snapshot.members.empty() || !snapshot.commits.empty()) {
    state.data = snapshot.data;
    state.digest = snapshot.digest;
    state.shards = snapshot.shards;
  }
  state.revision = snapshot.revision;
  for (std::size_t fragment = 0; fragment < std::min(state.rounds.size(), snapshot.versions.size()); ++fragment)
    state.rounds[fragment].step = snapshot.versions[fragment].next();
  if (!snapshot.versions.empty()) state.made = std::ranges::min(snapshot.versions);
  state.cursor = snapshot.cursor;
  state.given_back = snapshot.given_back;
  state.unused = snapshot.unused;
  state.collection.begun = snapshot.step_begun;
  state.collection.span = snapshot.step_span;
  state.closed_span = snapshot.closed_span;
  if (snapshot.step_begun) {
    state.collection.step = state.has_closed() ? state.step().next() : state.step();
    // Nobody may be left of a closed step, and the others not yet told to train for it.
    if (!state.plan.decoupled)
      for (const auto& kept : snapshot.members) state.collection.step = std::max(state.collection.step, kept.owed.begun);
  }
  state.tokens = snapshot.tokens;
  state.sequence = snapshot.sequence;
  state.operation = snapshot.operation;
  for (const auto& decided : snapshot.commits)
    if (decided.commit.fragment < state.rounds.size()) state.rounds[decided.commit.fragment].last = decided;
  return state;
}

Transition step(State state, const Event& event, Instant now) {
  Transition result{.state = std::move(state)};
  auto& s = result.state;
  const auto before = decisions(s);
  const std::pair stage{s.phase, s.revision};
  if (const auto stood_still = membership::notice_standstill(s, now)) outer_step::forgive(s, *stood_still, now);
  if (s.phase == Phase::Over) {
    // Whoever comes now hears that the run has ended; everybody else was told.
    if (const auto* late = std::get_if<Received>(&event))
      if (const auto* greeting = std::get_if<Hello>(&late->message))
        result.reason = membership::hello(s, late->from, *greeting, outer_step::closed(s), now, result.effects);
    return result;
  }
  result.reason = std::visit(overloaded{
                                 [&](const Received& e) { return receive(s, e, now, result.effects); },
                                 [&](const ConnectionLost& e) {
                                   disconnect(s, e.peer, e.reason, now, result.effects);
                                   return "connection lost: " + e.reason;
                                 },
                                 [&](const ProcessGone& e) {
                                   if (is_decided_later(s)) s.vanished.emplace(e.peer, e.reason);
                                   else vanish(s, e.peer, e.reason, now, result.effects);
                                   return "a process is gone: " + e.reason;
                                 },
                                 [&](const StopRequested&) {
                                   outer_step::stop(s, "by its owner", now, result.effects);
                                   return std::string{"stopped"};
                                 },
                                 [&](const PauseRequested&) { return outer_step::pause(s, now, result.effects); },
                                 [&](const ResumeRequested&) { return outer_step::resume(s, now, result.effects); },
                                 [&](const Coordinators& e) {
                                   s.coordinators = e;
                                   result.effects.emplace_back(events::CoordinatorsKnown{texts_of(e.addresses)});
                                   for (const auto& [id, peer] : s.peers) result.effects.emplace_back(Send{id, e});
                                   return std::string{"the coordinators have changed"};
                                 },
                                 [&](const Tick& e) {
                                   // What they wait for is decided, and not told.
                                   if (e.untold > membership::patience(s)) {
                                     result.effects.emplace_back(Probe::UntoldForLong);
                                     outer_step::forgive(s, now - s.ticked, now);
                                   }
                                   if (expire(s, now, result.effects))
                                     operations::abort(s, AbortCause::PeerSilent, {}, now, result.effects);
                                   membership::look_for_absent(s, now, result.effects);
                                   membership::refresh_fetches(s, now, result.effects);
                                   topology::measure(s, now, result.effects);
                                   progress::tell(s, now, result.effects);
                                   return std::string{};
                                 },
                             },
                             event);
  tell_coordinators(s, event, result.effects);
  const bool all = concerns_all(s, event, stage);
  if (all) vanish_all(s, now, result.effects);
  if (std::exchange(s.roll_back_due, false)) rollback::roll_back(s, now, result.effects);
  if (all) {
    outer_step::admit(s, now, result.effects);
    outer_step::advance(s, now, result.effects);
    // Since when it waits moves on with all that counts against nobody; that is no news.
    const auto* tick = std::get_if<Tick>(&event);
    if (tick == nullptr || tick->untold <= membership::patience(s)) note_wait(s, now, result.effects);
  }
  if (decisions(s) != before) result.decided = snapshot(s);
  return result;
}

}  // namespace prime::coordinator
