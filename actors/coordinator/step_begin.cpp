#include "actors/coordinator/step_begin.hpp"

#include <algorithm>
#include <utility>

#include "actors/coordinator/columns.hpp"
#include "actors/coordinator/evaluation.hpp"
#include "actors/coordinator/samples.hpp"
#include "actors/coordinator/topology_machine.hpp"
#include "actors/coordinator/waits.hpp"

namespace prime::coordinator::outer_step {
namespace {

/// Members to whom this applies train after all, because too few others are left (law 5); whether there are any.
template <class Predicate>
bool promote(State& state, Predicate predicate, Effects& effects) {
  bool promoted = false;
  // Those promoted begin now: nobody is slow before one of them is ready, however long ago the others were.
  for (std::size_t rank = 0; rank < replicas(state); ++rank) {
    const auto member = replica_at(state, rank).front().id;
    if (!predicate(member) || has_closed_work(state, member)) continue;  // whose work is on its way is not idle
    begin_for(state, rank, {}, effects);
    promoted = true;
  }
  if (promoted)
    for (auto& round : state.rounds) round.first_ready.reset();
  if (promoted && state.is_between_fragments()) effects.emplace_back(Probe::PromotedBetweenFragments);
  return promoted;
}

}  // namespace

bool is_through(const State& state, PeerId member) {
  return std::ranges::none_of(state.rounds, [&](const Round& round) { return round.work.at(member).contributes; });
}

bool has_closed_work(const State& state, PeerId member) {
  return std::ranges::any_of(state.rounds, [&](const Round& round) { return round.closed.contains(member); });
}

Fragments lacking(const State& state, PeerId member) {
  Fragments fragments;
  for (const auto& round : state.rounds)
    if (round.work.at(member).contributes) fragments.push_back(fragment_of(state, round));
  return fragments.size() == state.rounds.size() ? Fragments{} : fragments;
}

OuterStep step_in_training(const State& state) { return state.collection.begun ? state.collection.step : state.step(); }

std::uint32_t contributing(const State& state) {
  return static_cast<std::uint32_t>(count_replicas(state, [&](PeerId member) { return state.round().work.at(member).counts(); }));
}

std::uint64_t range_for(State& state, PeerId member) {
  for (const auto& round : state.rounds)
    if (const auto& work = round.work.at(member); work.contributes && !work.taken) return work.first_sample;
  return samples::next_range(state);
}

void begin_for(State& state, std::size_t rank, HeldOutShare evaluate, Effects& effects) {
  const auto step = state.collection.step;
  const auto replica = replica_at(state, rank);
  const auto first_sample = range_for(state, replica.front().id);
  state.attempts.erase(replica.front().ordinal);
  for (const auto& member : replica) {
    for (auto& round : state.rounds) {
      auto& work = round.work.at(member.id);
      work = Work{.contributes = round.step <= step,
                  .begun = step,
                  .base = state.revision,
                  .idle_answer_due = work.idle_answer_due,
                  .first_sample = first_sample};
    }
    effects.emplace_back(Send{member.id, BeginStep{.view = view_for(state, member.id),
                                                   .step = step,
                                                   .base = state.revision,
                                                   .rank = static_cast<std::uint32_t>(rank),
                                                   .first_sample = first_sample,
                                                   .evaluate = evaluate,
                                                   .overlaps = has_closed_work(state, member.id),
                                                   .fragments = lacking(state, member.id)}});
  }
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
  for (auto& round : state.rounds) {
    round.first_ready.reset();
    round.quorum_since.reset();
  }
  state.tries = {};
  state.tries.retry_at = now;
  effects.emplace_back(events::OuterStepBegun{step, state.view.epoch, replicas(state)});
  std::set<PeerId> begin;  // the others are late, and still at an earlier step
  for (const auto& member : state.view.members)
    if (is_through(state, member.id)) begin.insert(member.id);
    else if (std::ranges::any_of(state.rounds, [&](const Round& round) { return !round.work.at(member.id).contributes; }))
      effects.emplace_back(Probe::WorkInSomeFragments);
  auto shares = evaluates_step(state) ? shares_of(state, [&](const Peer& p) { return begin.contains(p.hello.peer); })
                                      : std::map<PeerId, HeldOutShare>{};
  for (auto& round : state.rounds)
    for (auto& [member, work] : round.work) work.idle_answer_due = work.idle_answer_due && work.begun == step;  // which is on its way
  for (std::size_t rank = 0; rank < replicas(state); ++rank) {
    const auto first = replica_at(state, rank).front().id;
    if (begin.contains(first)) begin_for(state, rank, shares[first], effects);
  }
  topology::measure(state, now, effects);
}

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

}  // namespace prime::coordinator::outer_step
