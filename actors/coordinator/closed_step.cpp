#include "actors/coordinator/closed_step.hpp"

#include <algorithm>
#include <utility>

#include "actors/coordinator/attempts.hpp"
#include "actors/coordinator/columns.hpp"
#include "actors/coordinator/operations.hpp"
#include "actors/coordinator/samples.hpp"
#include "actors/coordinator/step_begin.hpp"
#include "actors/coordinator/waits.hpp"

namespace prime::coordinator::outer_step {
namespace {

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

/// All who had worked on the step before are gone: the others leave the next one, give its samples back, and train for this one on the
/// lowest that nobody has used.
void fall_back(State& state, Instant now, Effects& effects) {
  for (const auto& member : state.view.members)
    for (const auto range : samples::unused_by(state, member.id)) state.given_back.insert(range);
  for (auto& round : state.rounds)
    for (auto& [member, work] : round.work) work = {};
  state.closed_span += state.collection.span;
  begin_step(state, state.step(), now, effects);
  effects.emplace_back(Probe::StepBegunAnew);
}

}  // namespace

void close_when_due(State& state, Instant now, Effects& effects) {
  if (!state.plan.overlap || !state.collection.begun || state.has_closed()) return;
  if (state.collection.step > state.step()) fall_back(state, now, effects);
  else if (contributing(state) >= state.plan.min_peers && is_trained_whole(state)) close_step(state, now, effects);
}

void reinforce(State& state, Instant now, Effects& effects) {
  Fragments fragments;
  for (const auto& round : state.rounds)
    if (state.is_short(round)) fragments.push_back(fragment_of(state, round));
  if (fragments.empty()) return;
  const auto is_free = [&](PeerId member) { return !has_closed_work(state, member); };
  const auto is_idle = [&](PeerId member) { return is_free(member) && is_through(state, member); };
  const bool any_idle = count_replicas(state, is_idle) > 0;
  const auto step = state.rounds[fragments.front()].step;
  for (std::size_t rank = 0; rank < replicas(state); ++rank) {
    const auto replica = replica_at(state, rank);
    const auto first = replica.front();
    if (!(any_idle ? is_idle(first.id) : is_free(first.id))) continue;
    const auto first_sample = range_for(state, first.id);
    state.closed_span += std::exchange(state.collection.span, 0);
    state.attempts.erase(first.ordinal);
    for (const auto& member : replica) {
      state.peers.at(member.id).since = now;
      for (auto& round : state.rounds) round.work.at(member.id) = Work{};
      for (const auto fragment : fragments)
        state.rounds[fragment].closed.emplace(
            member.id, Work{.contributes = true, .begun = step, .base = state.revision, .first_sample = first_sample});
      effects.emplace_back(Send{member.id, BeginStep{.view = view_for(state, member.id),
                                                     .step = step,
                                                     .base = state.revision,
                                                     .rank = static_cast<std::uint32_t>(rank),
                                                     .first_sample = first_sample,
                                                     .fragments = fragments}});
    }
    effects.emplace_back(Probe::ClosedStepReinforced);
  }
}

std::vector<PeerId> awaited_for_closed(const State& state) {
  std::set<PeerId> awaited;
  for (const auto& round : state.rounds)
    for (const auto& [member, work] : round.closed)
      if (!work.ready) awaited.insert(member);
  return {awaited.begin(), awaited.end()};
}

bool is_closed_work_there(const State& state) {
  if (state.is_short(state.round())) return false;
  const auto untold = [](const auto& entry) { return !entry.second.ready; };
  return std::ranges::none_of(state.round().closed, untold) && members_who(state, [](const Peer& p) { return p.absent; }).empty();
}

bool note_closed(State& state, PeerId from, const Ready& message) {
  bool noted = false;
  for (auto& round : state.rounds) {
    const auto work = round.closed.find(from);
    if (work == round.closed.end() || !message.covers(fragment_of(state, round))) continue;
    if (work->second.ready || work->second.begun != message.step || message.weight == 0) continue;
    work->second.ready = message;
    noted = true;
  }
  return noted;
}

void ask_for_closed(State& state, PeerId member, std::uint32_t rank, Effects& effects) {
  const auto anew = is_through(state, member) ? attempts::begun_anew(state, member) : std::nullopt;  // it trains for that
  const Work* closed = nullptr;
  Fragments fragments;
  for (auto& round : state.rounds) {
    const auto work = round.closed.find(member);
    if (work == round.closed.end() || round.operation) continue;
    work->second.ready.reset();
    closed = &work->second;
    fragments.push_back(fragment_of(state, round));
  }
  if (closed == nullptr) return;
  effects.emplace_back(Send{member, BeginStep{.view = view_for(state, member),
                                              .step = closed->begun,
                                              .base = state.revision,
                                              .rank = rank,
                                              .first_sample = closed->first_sample,
                                              .attempt = anew ? anew->attempt : 0,
                                              .fragments = anew ? anew->fragments : std::move(fragments)}});
}

}  // namespace prime::coordinator::outer_step
