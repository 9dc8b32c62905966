#include "actors/coordinator/outer_step_machine.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/coordinator/departures.hpp"
#include "actors/coordinator/evaluation.hpp"
#include "actors/coordinator/operations.hpp"
#include "actors/coordinator/run_end_machine.hpp"
#include "actors/coordinator/topology_machine.hpp"
#include "actors/coordinator/waits.hpp"
#include "actors/membership/membership_machine.hpp"

namespace prime::coordinator::outer_step {
namespace {

bool has_closed_work(const State& state, PeerId member) {
  return std::ranges::any_of(state.rounds, [&](const Round& round) { return round.closed.contains(member); });
}

std::uint32_t fragment_of(const State& state, const Round& round) { return static_cast<std::uint32_t>(&round - state.rounds.data()); }

/// Fragments that lack what a member works on.
Fragments lacking(const State& state, PeerId member) {
  Fragments fragments;
  for (const auto& round : state.rounds)
    if (round.work.at(member).contributes) fragments.push_back(fragment_of(state, round));
  return fragments.size() == state.rounds.size() ? Fragments{} : fragments;
}

/// Where none is, the one that is reduced: who comes now adopts its result.
OuterStep step_in_training(const State& state) { return state.collection.begun ? state.collection.step : state.step(); }

/// What nobody has trained on yet comes first.
std::uint64_t next_range(State& state) {
  if (!state.given_back.empty()) return state.given_back.extract(state.given_back.begin()).value();
  return state.cursor + state.closed_span + std::exchange(state.collection.span, state.collection.span + state.plan.samples_per_peer);
}

/// Who begins anew keeps the range that no fragment has.
std::uint64_t range_for(State& state, PeerId member) {
  for (const auto& round : state.rounds)
    if (const auto& work = round.work.at(member); work.contributes && !work.taken) return work.first_sample;
  return next_range(state);
}

/// Hands the next disjoint range of samples to a member and tells it to train. Its work is of all fragments that have not made the step.
void begin_for(State& state, PeerId member, std::uint32_t rank, HeldOutShare evaluate, Effects& effects) {
  const auto step = state.collection.step;
  const auto first_sample = range_for(state, member);
  for (auto& round : state.rounds) {
    auto& work = round.work.at(member);
    work = Work{.contributes = round.step <= step,
                .begun = step,
                .base = state.revision,
                .idle_answer_due = work.idle_answer_due,
                .first_sample = first_sample};
  }
  effects.emplace_back(Send{member, BeginStep{.view = state.view,
                                              .step = step,
                                              .base = state.revision,
                                              .rank = rank,
                                              .first_sample = first_sample,
                                              .evaluate = evaluate,
                                              .overlaps = has_closed_work(state, member),
                                              .fragments = lacking(state, member)}});
}

void begin_step(State& state, OuterStep step, Instant now, Effects& effects) {
  if (state.in_flight() == 0) set_phase(state, Phase::Training, now);
  state.restoring.reset();
  state.to_who_left.reset();
  state.collection = {};
  state.collection.begun = true;
  state.collection.step = step;
  if (!state.has_closed()) state.collection.span = std::exchange(state.closed_span, 0);  // of a closed step that nobody is left of
  state.collection.unready = state.view.members.size();
  for (auto& round : state.rounds) round.first_ready.reset();
  state.tries = {};
  state.tries.retry_at = now;
  effects.emplace_back(events::OuterStepBegun{step, state.view.epoch, state.view.members.size()});
  std::set<PeerId> begin;  // the others are late, and still at an earlier step
  for (const auto& member : state.view.members)
    if (is_through(state, member.id)) begin.insert(member.id);
    else if (std::ranges::any_of(state.rounds, [&](const Round& round) { return !round.work.at(member.id).contributes; }))
      effects.emplace_back(Probe::WorkInSomeFragments);
  auto shares = evaluates_step(state) ? shares_of(state, [&](const Peer& p) { return begin.contains(p.hello.peer); })
                                      : std::map<PeerId, HeldOutShare>{};
  for (std::uint32_t rank = 0; rank < state.view.members.size(); ++rank) {
    const auto id = state.view.members[rank].id;
    for (auto& round : state.rounds) round.work.at(id).idle_answer_due = false;
    if (begin.contains(id)) begin_for(state, id, rank, shares[id], effects);
  }
  topology::measure(state, now, effects);
}

/// Of the step that is trained.
std::uint32_t contributing(const State& state) {
  return static_cast<std::uint32_t>(members_who(state, [](const Work& work) { return work.counts(); }).count);
}

/// Members to whom this applies train after all, because too few others are left (law 5); whether there are any.
template <class Predicate>
bool promote(State& state, Predicate predicate, Effects& effects) {
  bool promoted = false;
  // Those promoted begin now: nobody is slow before one of them is ready, however long ago the others were.
  std::uint32_t rank = 0;
  for (const auto& member : state.view.members) {
    if (predicate(member.id) && !has_closed_work(state, member.id)) {  // whose work is on its way is not idle
      begin_for(state, member.id, rank, {}, effects);
      promoted = true;
    }
    ++rank;
  }
  if (promoted)
    for (auto& round : state.rounds) round.first_ready.reset();
  if (promoted && state.is_between_fragments()) effects.emplace_back(Probe::PromotedBetweenFragments);
  return promoted;
}

/// Those who trained nothing in this step; else those whose earlier work other fragments lack, and this one has: it is given up.
bool promote_whom_it_lacks(State& state, Effects& effects) {
  if (promote(
          state, [&](PeerId member) { return is_through(state, member); }, effects))
    return true;
  const auto& round = state.round();
  if (!promote(
          state, [&](PeerId member) { return !round.work.at(member).contributes; }, effects))
    return false;
  effects.emplace_back(Probe::LateWorkGivenUp);
  return true;
}

/// Those that are members, or would be if there were a quorum.
std::size_t caught_up(const State& state) {
  return static_cast<std::size_t>(std::count_if(state.peers.begin(), state.peers.end(), [](const auto& entry) {
    return entry.second.seat == Seat::CaughtUp || entry.second.seat == Seat::Member;
  }));
}

/// Few peers are an effect: what the last one went with is the cause, as far as anybody here knows it.
Error too_few(const State& state, std::string what) {
  if (!state.last_loss.empty()) what += "; the last that was lost: " + state.last_loss;
  return Error{ErrorName::TooFewPeers, std::move(what)};
}

/// Whoever came in the places of the lost, or did not in time: the run goes on.
void end_pause(State& state, Effects& effects) {
  if (!std::exchange(state.pause, std::nullopt)) return;
  effects.emplace_back(events::PauseEnded{state.view.members.size()});
}

void advance_waiting(State& state, Instant now, Effects& effects) {
  const auto members = static_cast<std::uint32_t>(state.view.members.size());
  const bool begun = state.is_under_way();  // when too many peers went
  if (state.pause && now - state.pause->since > state.plan.wait_limit) end_pause(state, effects);
  const auto wanted = quorum_of_members(state);
  if (members >= wanted) {
    end_pause(state, effects);
    if (begun) set_phase(state, Phase::Training, now);
    else if (!state.paused_by_owner) begin_step(state, state.step(), now, effects);
    return;
  }
  const bool state_lost =
      !state.restoring && state.has_trained() && members == 0 &&
      std::none_of(state.peers.begin(), state.peers.end(), [](const auto& entry) { return entry.second.seat == Seat::CaughtUp; });
  if (state_lost)
    run_end::end(state, too_few(state, "the last peer that held revision " + std::to_string(state.revision.value) + " is gone"), now,
                 effects);
  else if (begun && members == 1 && state.plan.stop_when_alone)
    run_end::end(state, too_few(state, "one peer is left and the manifest says `sync.alone: stop`"), now, effects);
  else if (!state.pause && !state.paused_by_owner && now - state.phase_since > state.plan.wait_limit)
    run_end::end(state,
                 too_few(state, std::to_string(caught_up(state)) + " of " + std::to_string(wanted) + " after " +
                                    format_duration(state.plan.wait_limit) + (state.incomplete.empty() ? "" : "; " + state.incomplete)),
                 now, effects);
}

/// An absent one would hear of the reduce before it hears what became of the last one.
bool all_ready(State& state) {
  state.collection.unready = members_who(state, [](const Peer& p, const Work& w) { return w.awaited() || p.absent; }).count;
  return state.collection.unready == 0;
}

/// Notes since when so many contributions are there that the step may close without the others; but not without a member that has yet
/// to come back to a restarted coordinator: it would hear of the reduce before it hears what became of the last one.
void note_quorum(State& state, Instant now) {
  const auto& plan = state.plan;
  if (plan.quorum == 0) return;
  if (!members_who(state, [](const Peer& p) { return p.absent; }).empty()) return state.collection.quorum_since.reset();
  const auto there = members_who(state, [](const Work& w) { return w.ready && w.ready->weight > 0; }).count;
  const auto wanted = std::max<std::size_t>(plan.min_peers, std::min<std::size_t>(plan.quorum, state.view.members.size()));
  if (there < wanted) state.collection.quorum_since.reset();
  else if (!state.collection.quorum_since) state.collection.quorum_since = now;
}

/// Who has no part in a round that is short brings there what it has made for the next step. Those who have a part in it bring that only
/// once this one is committed.
void fill_up(State& state, Round& round, Effects& effects) {
  const auto is_others = [&](const auto& entry) { return !round.closed.contains(entry.first); };
  if (std::ranges::any_of(round.work, [&](const auto& entry) { return entry.second.awaited() && is_others(entry); })) return;
  for (auto& entry : round.work) {
    auto& [member, work] = entry;
    if (!work.ready || !work.contributes || !is_others(entry)) continue;
    round.closed.emplace(member, std::exchange(work, Work{}));
    // Its samples are used now: those of the others, which lie among them, are theirs still.
    state.closed_span += std::exchange(state.collection.span, 0);
    effects.emplace_back(Probe::ClosedStepFilledUp);
  }
}

/// Nothing is trained behind it: others are told to train for it.
void reopen_step(State& state, Effects& effects) {
  state.collection = {};
  state.collection.begun = true;
  state.collection.step = state.step();
  state.collection.span = std::exchange(state.closed_span, 0);
  for (auto& round : state.rounds)
    for (auto& [member, work] : std::exchange(round.closed, {})) round.work.insert_or_assign(member, std::move(work));
  effects.emplace_back(Probe::ClosedStepReopened);
}

/// Those who have a part in rounds that are short wait for these, and so others for them: some others train for the closed step, those who
/// have no part in the next one if there are any.
void reinforce(State& state, Effects& effects) {
  Fragments fragments;
  for (const auto& round : state.rounds)
    if (state.is_short(round)) fragments.push_back(fragment_of(state, round));
  if (fragments.empty()) return;
  const auto is_free = [&](const Member& member) { return !has_closed_work(state, member.id); };
  const auto is_idle = [&](const Member& member) { return is_free(member) && is_through(state, member.id); };
  const bool any_idle = std::ranges::any_of(state.view.members, is_idle);
  const auto step = state.rounds[fragments.front()].step;
  std::uint32_t rank = 0;
  for (const auto& member : state.view.members) {
    const auto of_rank = rank++;
    if (!(any_idle ? is_idle(member) : is_free(member))) continue;
    const auto first_sample = range_for(state, member.id);
    state.closed_span += std::exchange(state.collection.span, 0);
    for (auto& round : state.rounds) round.work.at(member.id) = Work{};
    for (const auto fragment : fragments)
      state.rounds[fragment].closed.emplace(member.id,
                                            Work{.contributes = true, .begun = step, .base = state.revision, .first_sample = first_sample});
    effects.emplace_back(Send{member.id, BeginStep{.view = state.view,
                                                   .step = step,
                                                   .base = state.revision,
                                                   .rank = of_rank,
                                                   .first_sample = first_sample,
                                                   .fragments = fragments}});
    effects.emplace_back(Probe::ClosedStepReinforced);
  }
}

/// Whether the work on a closed step is known, and of enough members: a coordinator that was restarted has yet to be told.
bool is_closed_work_there(const State& state) {
  if (state.is_short(state.round())) return false;
  const auto untold = [](const auto& entry) { return !entry.second.ready; };
  return std::ranges::none_of(state.round().closed, untold) && members_who(state, [](const Peer& p) { return p.absent; }).empty();
}

/// Whether the work on the step that is trained is there, or enough of it.
bool is_trained(State& state, Instant now) {
  note_quorum(state, now);  // of this fragment: late work may be in others, and not in it
  const bool closes = all_ready(state) || (state.collection.quorum_since && now - *state.collection.quorum_since >= state.plan.grace);
  return closes && contributing(state) >= state.plan.min_peers;
}

/// The next step is trained while the fragments that have not made this one are reduced.
void close_step(State& state, Instant now, Effects& effects) {
  const auto step = state.step();
  for (auto& round : state.rounds) {
    if (round.step != step) continue;
    for (auto& [member, work] : round.work)
      if (work.contributes) round.closed.emplace(member, std::exchange(work, Work{}));
      else work.ready.reset();
  }
  state.closed_span += std::exchange(state.collection, {}).span;  // beside what was handed out for a closed step that nobody is left of
  if (step.value < state.plan.outer_steps && !state.paused_by_owner) begin_step(state, step.next(), now, effects);
}

/// Whether the work on the step that is trained is there for all fragments that have not made it. Where a member's is in some of them and
/// not in others, or in one that has made the step, the step is reduced before the next one begins.
bool is_trained_whole(const State& state) {
  const auto step = state.step();
  const auto& current = state.round();
  const auto differs = [&](const Round& round, PeerId member) {
    const auto& work = round.work.at(member);
    return work.awaited() || work.contributes != (round.step == step && current.work.at(member).contributes);
  };
  for (const auto& member : state.view.members) {
    if (state.peers.at(member.id).absent) return false;
    if (std::ranges::any_of(state.rounds, [&](const Round& round) { return differs(round, member.id); })) return false;
  }
  return true;
}

/// All who had worked on the step before are gone. What the others make for the next one is for this one, unless some fragments have made
/// it: then the others begin it anew.
void fall_back(State& state, Effects& effects) {
  state.collection.step = state.step();
  state.collection.span += std::exchange(state.closed_span, 0);
  if (!state.is_between_fragments()) return;
  std::uint32_t rank = 0;
  for (const auto& member : state.view.members) {
    if (!is_through(state, member.id)) begin_for(state, member.id, rank, {}, effects);
    ++rank;
  }
  for (auto& round : state.rounds) round.first_ready.reset();
  effects.emplace_back(Probe::StepBegunAnew);
}

void close_when_due(State& state, Instant now, Effects& effects) {
  if (!state.plan.overlap || !state.collection.begun || state.has_closed()) return;
  if (state.collection.step > state.step()) fall_back(state, effects);
  else if (contributing(state) >= state.plan.min_peers && is_trained_whole(state)) close_step(state, now, effects);
}

/// Reduces what is due, once the contributions to it are there and nothing is waited for.
void reduce_when_due(State& state, Instant now, Effects& effects) {
  for (auto& round : state.rounds)
    if (state.is_short(round)) fill_up(state, round, effects);
  while (operations::may_start(state)) {
    const bool there = state.round().closed.empty() ? is_trained(state, now) : is_closed_work_there(state);
    if (!there || now < state.tries.retry_at) return;
    if (held_for(state, now)) {
      if (!state.tries.held_since) state.tries.held_since = now;
      effects.emplace_back(Probe::ReduceWaitsForJoiner);
      return;
    }
    if (topology::held_since(state, now)) return;
    operations::start(state, now, effects);
  }
}

void advance_training(State& state, Instant now, Effects& effects) {
  if (state.view.members.size() < quorum_of_members(state)) {
    set_phase(state, Phase::Waiting, now);
    return;
  }
  if (!state.is_under_way()) return set_phase(state, Phase::Waiting, now);  // nobody is left of those who worked on the closed step
  close_when_due(state, now, effects);
  if (state.plan.streams && state.collection.begun) reinforce(state, effects);
  const bool short_of_work = std::ranges::any_of(state.rounds, [&](const Round& round) { return state.is_short(round); });
  if (!state.collection.begun && short_of_work) reopen_step(state, effects);
  if (state.collection.begun && contributing(state) < state.plan.min_peers && promote_whom_it_lacks(state, effects)) return;
  note_quorum(state, now);
  const auto first_ready = state.round().first_ready;
  if (!state.collection.quorum_since && first_ready && now - *first_ready > state.options.deadline) {
    std::vector<PeerId> slow;
    for (const auto& member : state.view.members) {
      const auto& peer = state.peers.at(member.id);
      if (state.round().work.at(member.id).awaited() && !has_closed_work(state, member.id) && now - peer.since > state.options.deadline)
        slow.push_back(member.id);  // who entered later has its own time
    }
    Departures departures{state, now, effects};
    for (const auto id : slow)
      departures.dismiss(
          id, Error{ErrorName::DeadlineExceeded, "not ready " + format_duration(state.options.deadline) +
                                                     " after the first; a longer `sync.deadline` waits for the slow, and `sync.quorum` "
                                                     "goes on without them until they are ready"});
    if (departures.settle()) return advance(state, now, effects);
  }
  reduce_when_due(state, now, effects);
}

void advance_reducing(State& state, Instant now, Effects& effects) {
  if (operations::give_up_overdue(state, now, effects)) return advance(state, now, effects);
  close_when_due(state, now, effects);
  reduce_when_due(state, now, effects);
}

}  // namespace

bool is_through(const State& state, PeerId member) {
  return std::ranges::none_of(state.rounds, [&](const Round& round) { return round.work.at(member).contributes; });
}

namespace {

events::PeerReady ready_event(const Peer& peer, const Ready& message) {
  return {membership::who(peer),        message.step,       message.base, message.weight, message.loss.value(),
          message.tokens_per_s.value(), message.trainer_pid};
}

/// To a coordinator that has not heard it, or its predecessor has; whether it is of a closed step.
bool note_closed(State& state, PeerId from, const Ready& message, Effects& effects) {
  bool noted = false;
  for (auto& round : state.rounds) {
    const auto work = round.closed.find(from);
    if (work == round.closed.end() || !message.covers(fragment_of(state, round))) continue;
    if (work->second.ready || work->second.begun != message.step || message.weight == 0) continue;
    work->second.ready = message;
    noted = true;
  }
  if (noted) effects.emplace_back(ready_event(state.peers.at(from), message));
  return noted;
}

void note_ready(State& state, PeerId from, const Ready& message, bool contributed, Instant now) {
  if (state.collection.unready > 0 && message.covers(state.current())) --state.collection.unready;
  for (auto& round : state.rounds) {
    auto& own = round.work.at(from);
    if (!message.covers(fragment_of(state, round)) || own.begun != message.step || own.ready || own.contributes != contributed) continue;
    own.ready = message;
    if (contributed && message.step == state.collection.step && !round.first_ready) round.first_ready = now;
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

/// It says it again.
void ask_for_closed(State& state, PeerId member, std::uint32_t rank, Effects& effects) {
  const Work* closed = nullptr;
  Fragments fragments;
  for (auto& round : state.rounds) {
    const auto work = round.closed.find(member);
    if (work == round.closed.end()) continue;
    work->second.ready.reset();
    closed = &work->second;
    fragments.push_back(fragment_of(state, round));
  }
  if (closed == nullptr) return;
  effects.emplace_back(Send{member, BeginStep{.view = state.view,
                                              .step = closed->begun,
                                              .base = state.revision,
                                              .rank = rank,
                                              .first_sample = closed->first_sample,
                                              .fragments = std::move(fragments)}});
}

}  // namespace

std::string ready(State& state, PeerId from, const Ready& message, Instant now, Effects& effects) {
  const auto& peer = state.peers.at(from);
  if (peer.seat != Seat::Member) return "a readiness of who is no member";
  if (message.weight > 0 && !has_fitting_lengths(state, message)) {
    dismiss(state, from, Error{ErrorName::ProtocolViolation, "lengths of its work that do not fit those of the others"}, now, effects);
    return "lengths that do not fit";
  }
  if (note_closed(state, from, message, effects)) return peer.hello.name + " says again what it has made of a closed step";
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

void complete(State& state, const Operation& last, Instant now, Effects& effects) {
  const auto step = state.made = state.made.next();
  for (const auto& contribution : last.contributions) state.tokens += contribution.weight;
  state.cursor = last.next_sample;
  state.closed_span = 0;
  const auto every = state.plan.checkpoint_every;
  if (state.plan.on_correlated_loss == LossPolicy::RollBack && every > 0 && step.value % every == 0)
    state.checkpoint =
        Origin{state.revision, step, *state.digest, state.cursor, state.tokens, {}, {state.unused.begin(), state.unused.end()}};
  if (step.value >= state.plan.outer_steps) return run_end::finish(state, now, effects);
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

std::string returned(State& state, PeerId from, const Hello& message, Instant now, Effects& effects) {
  auto& peer = state.peers.at(from);
  peer.hello = message;
  membership::heard_again(state, from, effects);
  const bool voted = !operations::answer_returned(state, from, message.name, now, effects);
  if (voted && !state.has_closed()) return message.name + " is back, and has voted";
  peer.since = now;
  const auto rank = static_cast<std::uint32_t>(std::ranges::find(state.view.members, from, &Member::id) - state.view.members.begin());
  if (!voted) ask_for_closed(state, from, rank, effects);
  const bool contributes = !is_through(state, from);
  const bool only_closed = !contributes && has_closed_work(state, from);
  Work begun{.begun = step_in_training(state)};
  for (auto& round : state.rounds) {
    auto& work = round.work.at(from);
    work.ready.reset();  // it says it again
    work.idle_answer_due = !contributes && !only_closed;
    if (work.idle_answer_due) work.begun = begun.begun;
    if (work.contributes) begun = work;
  }
  if (state.phase == Phase::Finishing) {
    effects.emplace_back(Send{from, run_end::told(state, from)});
  } else if (state.is_under_way() && !only_closed) {
    const auto at_it = [&](const Work& w) { return w.contributes && w.begun == begun.begun; };
    auto shares = evaluates_step(state) ? shares_of(state, at_it) : std::map<PeerId, HeldOutShare>{};
    effects.emplace_back(Send{from, BeginStep{state.view, begun.begun, state.revision, contributes, rank, begun.first_sample, 0,
                                              shares[from], contributes && has_closed_work(state, from), lacking(state, from)}});
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
  const auto step = step_in_training(state);
  for (auto& round : state.rounds)
    for (const auto id : admitted) round.work.emplace(id, begun ? Work{.begun = step, .idle_answer_due = true} : Work{});
  topology::members_changed(state);
  if (state.is_between_fragments()) effects.emplace_back(Probe::AdmittedBetweenFragments);
  if (!begun) return;
  for (std::uint32_t rank = 0; rank < state.view.members.size(); ++rank) {
    const auto id = state.view.members[rank].id;
    if (std::ranges::find(admitted, id) == admitted.end()) continue;
    effects.emplace_back(Send{id, BeginStep{state.view, step, state.revision, false, rank, 0}});
  }
}

void forgive(State& state, Duration time, Instant now) {
  membership::forgive(state, time, now);
  const auto later = [&](std::optional<Instant>& since) {
    if (since) since = std::min(now, *since + time);
  };
  later(state.collection.quorum_since);
  for (auto& round : state.rounds) later(round.first_ready);
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
