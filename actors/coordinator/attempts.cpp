#include "actors/coordinator/attempts.hpp"

#include <algorithm>

#include "actors/coordinator/columns.hpp"
#include "actors/coordinator/departures.hpp"
#include "actors/coordinator/step_begin.hpp"

namespace prime::coordinator::attempts {
namespace {

/// What a member trains for in this round; null: nothing. Its work on a closed step is made, unless it has no other: then it was told to
/// train for that.
template <class AnyRound>
auto* trained(const State& state, AnyRound& round, PeerId member) {
  auto& work = round.work.at(member);
  if (work.contributes) return &work;
  const auto closed = round.closed.find(member);
  return closed == round.closed.end() || !outer_step::is_through(state, member) ? nullptr : &closed->second;
}

std::span<const Member> replica_of(const State& state, PeerId member) { return replica_at(state, rank_of(state, member)); }

/// What a member trains for in the rounds that this message is about.
bool trains_for(const State& state, PeerId member, const Ready& message) {
  return std::ranges::any_of(state.rounds, [&](const Round& round) {
    const auto* work = trained(state, round, member);
    return work != nullptr && work->begun == message.step && message.base >= work->base && message.base <= state.revision &&
           message.covers(fragment_of(state, round));
  });
}

/// A commit came between the beginnings of two trainers of a replica: what they have made is of two states.
bool is_of_two_states(const State& state, PeerId member, const Ready& message) {
  const auto replica = replica_of(state, member);
  return std::ranges::any_of(state.rounds, [&](const Round& round) {
    return message.covers(fragment_of(state, round)) && std::ranges::any_of(replica, [&](const Member& each) {
             const auto* work = trained(state, round, each.id);
             return work != nullptr && work->ready && work->ready->step == message.step && work->ready->base != message.base;
           });
  });
}

bool breaks_rule(State& state, PeerId from, std::uint32_t attempt, Instant now, Effects& effects) {
  if (attempt <= MAX_ATTEMPTS) return false;
  dismiss(state, from, Error{ErrorName::ProtocolViolation, "it says that it is at attempt " + std::to_string(attempt)}, now, effects);
  return true;
}

void tell(State& state, PeerId member, Effects& effects) {
  if (auto begin = begun_anew(state, member)) effects.emplace_back(Send{member, *std::move(begin)});
}

/// What not all of its peers have contributed yet is void; what all have stays, and counts as of the new attempt.
void begin_anew(State& state, PeerId member, std::uint32_t after, Effects& effects) {
  auto& attempt = state.attempts[state.peers.at(member).ordinal];
  attempt = {std::max(attempt.number, after) + 1, {}};
  const auto replica = replica_of(state, member);
  for (auto& round : state.rounds) {
    const bool all = brings_all(state, round, member);
    if (!all) attempt.fragments.push_back(fragment_of(state, round));
    for (const auto& each : replica) {
      auto* work = trained(state, round, each.id);
      if (work == nullptr || !work->ready) continue;
      if (all) work->ready->attempt = attempt.number;
      else work->ready.reset();
    }
  }
  state.collection.unready = state.view.members.size();  // looked at anew
  for (const auto& each : replica) tell(state, each.id, effects);
}

}  // namespace

bool brings_all(const State& state, const Round& round, PeerId member) {
  if (state.options.shards == 1) return true;
  return std::ranges::all_of(replica_of(state, member), [&](const Member& each) {
    const auto* work = trained(state, round, each.id);
    return work == nullptr || work->ready;
  });
}

std::uint32_t current(const State& state, PeerId member) {
  const auto attempt = state.attempts.find(state.peers.at(member).ordinal);
  return attempt == state.attempts.end() ? 0 : attempt->second.number;
}

std::optional<BeginStep> begun_anew(State& state, PeerId member) {
  const auto attempt = state.attempts.find(state.peers.at(member).ordinal);
  if (attempt == state.attempts.end()) return std::nullopt;
  const Work* lacks = nullptr;
  Fragments fragments;
  for (const auto fragment : attempt->second.fragments) {
    const auto& round = state.rounds[fragment];
    const auto* work = trained(state, round, member);
    if (work == nullptr) continue;
    fragments.push_back(fragment);
    if (!brings_all(state, round, member)) lacks = work;
  }
  if (lacks == nullptr) return std::nullopt;
  if (fragments.size() == state.rounds.size()) fragments.clear();
  return BeginStep{.view = view_for(state, member),
                   .step = lacks->begun,
                   .base = state.revision,
                   .rank = rank_of(state, member),
                   .first_sample = lacks->first_sample,
                   .attempt = attempt->second.number,
                   .overlaps = !outer_step::is_through(state, member) && outer_step::has_closed_work(state, member),
                   .fragments = std::move(fragments)};
}

std::optional<std::string> refuse(State& state, PeerId from, const Ready& message, Instant now, Effects& effects) {
  if (state.options.shards == 1 || message.weight == 0 || !trains_for(state, from, message)) return std::nullopt;
  if (breaks_rule(state, from, message.attempt, now, effects)) return "an attempt that nobody can be at";
  const auto attempt = current(state, from);
  if (message.attempt < attempt) {
    effects.emplace_back(Probe::ReadyOfVoidAttempt);
    tell(state, from, effects);
    return "a readiness of an attempt that is void";
  }
  if (message.attempt > attempt) effects.emplace_back(Probe::AttemptLearnt);
  else if (!is_of_two_states(state, from, message)) return std::nullopt;
  begin_anew(state, from, message.attempt, effects);
  return "its replica begins anew, together and from one state";
}

std::string trainer_restarted(State& state, PeerId from, const TrainerRestarted& message, Instant now, Effects& effects) {
  if (state.options.shards == 1) return "a trainer begins its step anew";
  const auto& peer = state.peers.at(from);
  if (peer.seat != Seat::Member || state.phase >= Phase::Finishing) return "a trainer was started again of which nothing is awaited";
  if (breaks_rule(state, from, message.attempt, now, effects)) return "an attempt that nobody can be at";
  const bool needed = std::ranges::any_of(state.rounds, [&](const Round& round) {
    const auto* work = trained(state, round, from);
    return work != nullptr && work->begun == message.step && !brings_all(state, round, from);
  });
  if (!needed) return "a trainer was started again, and the others of its replica need not be";
  if (message.attempt < current(state, from)) {  // it may have missed that
    tell(state, from, effects);
    return "a trainer was started again in an attempt that is void";
  }
  begin_anew(state, from, message.attempt, effects);
  return peer.hello.replica + " begins step " + std::to_string(message.step.value) + " anew";
}

}  // namespace prime::coordinator::attempts
