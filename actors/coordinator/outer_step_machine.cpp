#include "actors/coordinator/outer_step_machine.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/coordinator/attempts.hpp"
#include "actors/coordinator/closed_step.hpp"
#include "actors/coordinator/columns.hpp"
#include "actors/coordinator/decoupled.hpp"
#include "actors/coordinator/departures.hpp"
#include "actors/coordinator/evaluation.hpp"
#include "actors/coordinator/operations.hpp"
#include "actors/coordinator/run_end_machine.hpp"
#include "actors/coordinator/step_begin.hpp"
#include "actors/coordinator/topology_machine.hpp"
#include "actors/coordinator/waits.hpp"
#include "actors/membership/membership_machine.hpp"
#include "actors/membership/presence.hpp"

namespace prime::coordinator::outer_step {
namespace {

/// Whether those who wait to be admitted hold all shards of what was trained.
bool joiners_hold_it(const State& state) {
  std::set<std::uint32_t> held;
  for (const auto& [id, peer] : state.peers)
    if (peer.seat == Seat::CaughtUp) held.insert(peer.hello.shard);
  return held.size() == state.options.shards;
}

/// Few peers are an effect: what the last one went with is the cause, as far as anybody here knows it.
Error too_few(const State& state, std::string what) {
  if (!state.last_loss.empty()) what += "; the last that was lost: " + state.last_loss;
  return Error{ErrorName::TooFewPeers, std::move(what)};
}

/// Whoever came in the places of the lost, or did not in time: the run goes on.
void end_pause(State& state, Effects& effects) {
  if (!std::exchange(state.pause, std::nullopt)) return;
  effects.emplace_back(events::PauseEnded{replicas(state)});
}

void advance_waiting(State& state, Instant now, Effects& effects) {
  const auto members = static_cast<std::uint32_t>(replicas(state));
  const bool begun = state.is_under_way();  // when too many peers went
  if (state.pause && now - state.pause->since > state.plan.wait_limit) end_pause(state, effects);
  const auto wanted = quorum_of_members(state);
  if (members >= wanted) {
    end_pause(state, effects);
    if (begun) set_phase(state, Phase::Training, now);
    else if (!state.paused_by_owner && state.plan.decoupled) decoupled::begin(state, now, effects);
    else if (!state.paused_by_owner) begin_step(state, state.step(), now, effects);
    return;
  }
  const bool state_lost = !state.restoring && state.has_trained() && members == 0 && !joiners_hold_it(state);
  if (state_lost)
    run_end::end(state, too_few(state, "the last peer that held revision " + std::to_string(state.revision.value) + " is gone"), now,
                 effects);
  else if (begun && members == 1 && state.plan.stop_when_alone)
    run_end::end(state, too_few(state, "one peer is left and the manifest says `sync.alone: stop`"), now, effects);
  else if (!state.pause && !state.paused_by_owner && now - state.phase_since > state.plan.wait_limit) {
    const auto lacking = incomplete(state);
    run_end::end(state,
                 too_few(state, std::to_string(caught_up(state)) + " of " + std::to_string(wanted) + " after " +
                                    format_duration(state.plan.wait_limit) + (lacking.empty() ? "" : "; " + lacking)),
                 now, effects);
  }
}

/// An absent one would hear of the reduce before it hears what became of the last one.
bool all_ready(State& state) {
  state.collection.unready = members_who(state, [](const Peer& p, const Work& w) { return w.awaited() || p.absent; }).count;
  return state.collection.unready == 0;
}

/// Notes of each fragment since when so many contributions are there that it may be reduced without the others; but not without a member
/// that has yet to come back to a restarted coordinator: it would hear of the reduce before it hears what became of the last one.
void note_quorum(State& state, Instant now) {
  const auto& plan = state.plan;
  if (plan.quorum == 0) return;
  const bool all_here = members_who(state, [](const Peer& p) { return p.absent; }).empty();
  const auto wanted = std::max<std::size_t>(plan.min_peers, std::min<std::size_t>(plan.quorum, replicas(state)));
  for (auto& round : state.rounds) {
    if (round.operation) continue;  // another try needs no other grace
    const auto is_there = [&](PeerId member) {
      const auto& ready = round.work.at(member).ready;
      return ready && ready->weight > 0;
    };
    const auto there = count_replicas(state, is_there);
    if (!all_here || there < wanted) round.quorum_since.reset();
    else if (!round.quorum_since) round.quorum_since = now;
  }
}

/// Whether the work on the step that is trained is there, or enough of it.
bool is_trained(State& state, Instant now) {
  const auto& since = state.round().quorum_since;  // of this fragment: late work may be in others, and not in it
  const bool closes = all_ready(state) || (since && now - *since >= state.plan.grace);
  return closes && contributing(state) >= state.plan.min_peers;
}

/// Reduces what is due, once the contributions to it are there and nothing is waited for.
void reduce_when_due(State& state, Instant now, Effects& effects) {
  while (operations::may_start(state, state.round())) {
    const bool there = state.round().closed.empty() ? is_trained(state, now) : is_closed_work_there(state);
    if (!there || now < state.tries.retry_at) return;
    if (held_for(state, now)) {
      if (!state.tries.held_since) state.tries.held_since = now;
      effects.emplace_back(Probe::ReduceWaitsForJoiner);
      return;
    }
    if (topology::held_since(state, now)) return;
    operations::start(state, state.round(), now, effects);
  }
}

/// Not ready in time; who entered later has its own.
std::vector<PeerId> slow_members(const State& state, Instant now) {
  const auto& round = state.round();
  const auto is_over = [&](Instant since) { return now - since > state.options.deadline; };
  std::vector<PeerId> slow;
  if (round.quorum_since || !round.first_ready || !is_over(*round.first_ready)) return slow;
  for (const auto& member : state.view.members)
    if (round.work.at(member.id).awaited() && !has_closed_work(state, member.id) && is_over(state.peers.at(member.id).since))
      slow.push_back(member.id);
  return slow;
}

void advance_training(State& state, Instant now, Effects& effects) {
  if (replicas(state) < quorum_of_members(state)) {
    set_phase(state, Phase::Waiting, now);
    return;
  }
  if (!state.is_under_way()) return set_phase(state, Phase::Waiting, now);  // nobody is left of those who worked on the closed step
  if (state.plan.decoupled) return decoupled::advance(state, now, effects);
  close_when_due(state, now, effects);
  reinforce(state, now, effects);
  if (state.collection.begun && contributing(state) < state.plan.min_peers && promote_whom_it_lacks(state, effects)) return;
  note_quorum(state, now);
  const auto slow = slow_members(state, now);
  dismiss(state, slow,
          Error{ErrorName::DeadlineExceeded, "not ready " + format_duration(state.options.deadline) +
                                                 " after the first; a longer `sync.deadline` waits for the slow, and `sync.quorum` goes on "
                                                 "without them until they are ready"},
          now, effects);
  if (!slow.empty()) return advance(state, now, effects);
  reduce_when_due(state, now, effects);
}

void advance_reducing(State& state, Instant now, Effects& effects) {
  if (operations::give_up_overdue(state, now, effects)) return advance(state, now, effects);
  if (state.plan.decoupled) return decoupled::advance(state, now, effects);
  close_when_due(state, now, effects);
  note_quorum(state, now);
  reduce_when_due(state, now, effects);
}

events::PeerReady ready_event(const Peer& peer, const Ready& message) {
  return {membership::who(peer),        message.step,        message.base,         message.weight, message.loss.value(),
          message.tokens_per_s.value(), message.trainer_pid, data_wait_of(message)};
}

void note_ready(State& state, PeerId from, const Ready& message, bool contributed, Instant now) {
  if (state.collection.unready > 0 && message.covers(state.current())) --state.collection.unready;
  for (auto& round : state.rounds) {
    auto& own = round.work.at(from);
    if (!message.covers(fragment_of(state, round)) || own.begun != message.step || own.ready || own.contributes != contributed) continue;
    own.ready = message;
    const bool first = contributed && message.step == state.collection.step && !round.first_ready;
    if (first && attempts::brings_all(state, round, from)) round.first_ready = now;
  }
}

/// Each length is one, and there are as many as others have told.
bool has_fitting_lengths(const State& state, const Ready& message) {
  const auto is_length = [](Real each) { return std::isfinite(each.value()) && each.value() >= 0; };
  std::size_t covered = 0;
  for (const auto& round : state.rounds) {
    const auto fragment = fragment_of(state, round);
    if (!message.covers(fragment)) continue;
    ++covered;
    const auto own = message.lengths_of(fragment);
    if (!std::ranges::all_of(own, is_length)) return false;
    for (const auto* works : {&round.work, &round.closed})
      for (const auto& [id, work] : *works)
        if (work.ready && work.ready->weight > 0 && work.ready->lengths_of(fragment).size() != own.size()) return false;
  }
  return message.lengths.empty() || message.lengths.size() == covered;
}

}  // namespace

std::string ready(State& state, PeerId from, const Ready& message, Instant now, Effects& effects) {
  const auto& peer = state.peers.at(from);
  if (peer.seat != Seat::Member) return "a readiness of who is no member";
  if (message.weight > 0 && !has_fitting_lengths(state, message)) {
    dismiss(state, from, Error{ErrorName::ProtocolViolation, "lengths of its work that do not fit those of the others"}, now, effects);
    return "lengths that do not fit";
  }
  if (state.plan.decoupled) return decoupled::published(state, from, message, now, effects);
  if (state.phase >= Phase::Finishing) return "a readiness when the run is done";
  if (auto why = attempts::refuse(state, from, message, now, effects)) return *std::move(why);
  if (note_closed(state, from, message)) {
    effects.emplace_back(ready_event(peer, message));
    return peer.hello.name + " says again what it has made of a closed step";
  }
  if (!message.fragments.empty() && message.fragments.back() >= state.rounds.size()) {
    dismiss(state, from, Error{ErrorName::ProtocolViolation, "work on a fragment that there is not"}, now, effects);
    return "a fragment that there is not";
  }
  // Of the fragments that it is of, those that have it by now are through with it.
  const auto takes = [&](const Round& round) {
    const auto& work = round.work.at(from);
    return message.covers(fragment_of(state, round)) && work.contributes && !work.ready;
  };
  const auto first = std::ranges::find_if(state.rounds, takes);
  if (first == state.rounds.end() && !message.fragments.empty()) return "ready twice";
  auto& work = (first != state.rounds.end() ? *first : state.round()).work.at(from);
  // A late one says it of the step that it began with; a trainer that was started again meanwhile began from a newer state.
  if (message.step != work.begun || message.base < work.base || message.base > state.revision) return "a readiness for another step";
  if (work.ready) return "ready twice";
  const bool contributed = work.contributes;
  if (message.weight == 0 && work.idle_answer_due) {
    for (auto& round : state.rounds) round.work.at(from).idle_answer_due = false;
    if (contributed) {
      effects.emplace_back(Probe::PromotedMeanwhile);
      return "it was promoted while it said that it adopts the result";
    }
  }
  if (contributed != (message.weight > 0)) {
    dismiss(state, from,
            Error{ErrorName::ProtocolViolation, contributed ? "it was to train and weighs nothing" : "a weight that nobody asked for"}, now,
            effects);
    return "a wrong weight";
  }
  note_ready(state, from, message, contributed, now);
  effects.emplace_back(ready_event(peer, message));
  return peer.hello.name + " is ready for step " + std::to_string(message.step.value);
}

void stop(State& state, const std::string& why, Instant now, Effects& effects) {
  operations::abort(state, AbortCause::RunStopped, {}, now, effects);
  run_end::stop(state, Error{ErrorName::RunStopped, why + ", after outer step " + std::to_string(state.made.value)}, now, effects);
}

std::vector<Digest> states_of(const State& state) {
  std::vector<Digest> states;
  for (const auto& shard : state.shards) states.push_back(*shard.state);
  return states;
}

void complete(State& state, const Operation& last, Instant now, Effects& effects) {
  const auto step = state.made = state.made.next();
  if (state.plan.decoupled) {  // what is handed out meanwhile lies behind that
    const auto behind = state.cursor + state.collection.span;
    state.cursor = std::max(state.cursor, last.next_sample);
    state.collection.span = behind - state.cursor;
  } else {
    state.cursor = last.next_sample;
    state.closed_span = 0;
  }
  const auto every = state.plan.checkpoint_every;
  if (state.plan.on_correlated_loss == LossPolicy::RollBack && every > 0 && step.value % every == 0)
    state.checkpoint = Origin{
        state.revision, step, *state.digest, state.cursor, state.tokens, {}, {state.unused.begin(), state.unused.end()}, states_of(state)};
  if (step.value >= state.plan.outer_steps) return run_end::finish(state, now, effects);
  if (state.plan.decoupled) {
    state.tries = {};
    state.tries.retry_at = now;
    return;
  }
  if (state.collection.begun && state.collection.step > step) return;  // it is trained already
  if (!state.paused_by_owner) return begin_step(state, step.next(), now, effects);
  state.collection = {};
  set_phase(state, Phase::Waiting, now);
  effects.emplace_back(Probe::HeldByOwner);
}

std::string pause(State& state, Instant now, Effects& effects) {
  if (state.paused_by_owner) return "it is paused already";
  if (state.phase >= Phase::Finishing) return "nothing is left to pause: the run ends";
  state.paused_by_owner = now;
  effects.emplace_back(events::RunPaused{state.made});
  return "paused by its owner";
}

std::string resume(State& state, Instant now, Effects& effects) {
  if (!std::exchange(state.paused_by_owner, std::nullopt)) return "it was not paused";
  if (state.phase == Phase::Waiting) state.phase_since = now;  // while it was paused it waited for nobody
  effects.emplace_back(events::RunResumed{state.made});
  return "goes on";
}

namespace {

/// Whether its work on the step that is trained is in an operation: it is known, and not asked for again.
bool is_reduced(const Round& round, PeerId member) {
  if (!round.operation || !round.closed.empty()) return false;
  return std::ranges::any_of(round.operation->contributions,
                             [&](const Contribution& each) { return each.peer == member && each.weight > 0; });
}

}  // namespace

std::string returned(State& state, PeerId from, const Hello& message, Instant now, Effects& effects) {
  auto& peer = state.peers.at(from);
  peer.hello = message;
  membership::heard_again(state, from, effects);
  operations::answer_returned(state, from, message.name, now, effects);
  if (state.plan.decoupled && state.phase < Phase::Finishing) {
    decoupled::returned(state, from, effects);
    return message.name + " is back";
  }
  const auto anew = attempts::begun_anew(state, from);  // which it may not have heard
  const auto rank = rank_of(state, from);
  ask_for_closed(state, from, rank, effects);
  const bool contributes = !is_through(state, from);
  const bool only_closed = !contributes && has_closed_work(state, from);
  bool says_again = false;
  Work begun{.begun = step_in_training(state)};
  for (auto& round : state.rounds) {
    auto& work = round.work.at(from);
    if (!is_reduced(round, from)) {
      says_again = says_again || work.contributes == contributes;  // whose work is in other rounds has nothing to say of this one
      work.ready.reset();
      work.idle_answer_due = !contributes && !only_closed && state.is_under_way();
      if (work.idle_answer_due) work.begun = begun.begun;
    }
    if (work.contributes) begun = work;
  }
  if (!says_again) return message.name + " is back, and has voted";
  peer.since = now;
  if (state.phase == Phase::Finishing) {
    effects.emplace_back(Send{from, run_end::told(state, from)});
  } else if (state.is_under_way() && !only_closed) {
    const auto at_it = [&](const Work& w) { return w.contributes && w.begun == begun.begun; };
    auto shares = evaluates_step(state) ? shares_of(state, at_it) : std::map<PeerId, HeldOutShare>{};
    effects.emplace_back(Send{from, BeginStep{view_for(state, from), begun.begun, state.revision, contributes, rank, begun.first_sample,
                                              attempts::current(state, from), shares[from], contributes && has_closed_work(state, from),
                                              anew ? anew->fragments : lacking(state, from)}});
  }
  return message.name + " is back";
}

std::optional<Error> closed(const State& state) {
  if (state.phase < Phase::Finishing) return std::nullopt;
  const auto step = state.made.value;
  return Error{ErrorName::RunDone,
               step >= state.plan.outer_steps ? "all outer steps are committed" : "it failed after outer step " + std::to_string(step)};
}

void admit(State& state, Instant now, Effects& effects) {
  if (state.phase != Phase::Waiting && state.phase != Phase::Training) return;
  // Who was sent away for a link that is broken joins anew in a moment: the step that it held up ends first, without it.
  if (state.phase == Phase::Training && state.unlinked_in == state.step()) return;
  const auto admitted = membership::admit(state, now, effects);
  if (admitted.empty()) return;
  // Where a step is under way they adopt its result; otherwise they begin with the others.
  const bool begun = state.is_under_way();
  const bool adopts = begun && !state.plan.decoupled;
  const auto step = step_in_training(state);
  for (auto& round : state.rounds)
    for (const auto id : admitted) round.work.emplace(id, adopts ? Work{.begun = step, .idle_answer_due = true} : Work{});
  topology::members_changed(state);
  if (state.is_between_fragments()) effects.emplace_back(Probe::AdmittedBetweenFragments);
  if (!begun) return;
  if (state.plan.decoupled) return decoupled::admitted(state, admitted, effects);
  for (std::size_t at = 0; at < state.view.members.size(); ++at) {
    const auto id = state.view.members[at].id;
    if (std::ranges::find(admitted, id) == admitted.end()) continue;
    const auto rank = static_cast<std::uint32_t>(at / state.options.shards);
    effects.emplace_back(Send{id, BeginStep{view_for(state, id), step, state.revision, false, rank, 0}});
  }
}

void forgive(State& state, Duration time, Instant now) {
  membership::forgive(state, time, now);
  const auto later = [&](std::optional<Instant>& since) {
    if (since) since = std::min(now, *since + time);
  };
  for (auto& round : state.rounds) {
    later(round.first_ready);
    later(round.quorum_since);
  }
  operations::forgive(state, time, now);
}

void advance(State& state, Instant now, Effects& effects) {
  switch (state.phase) {
    case Phase::Waiting: return advance_waiting(state, now, effects);
    case Phase::Training: return advance_training(state, now, effects);
    case Phase::Reducing: return advance_reducing(state, now, effects);
    case Phase::Finishing: return run_end::advance(state, now, effects);
    case Phase::Over: return;
  }
}

}  // namespace prime::coordinator::outer_step
