#include "actors/coordinator/decoupled.hpp"

#include <algorithm>
#include <utility>

#include "actors/coordinator/departures.hpp"
#include "actors/coordinator/operations.hpp"
#include "actors/coordinator/samples.hpp"
#include "actors/coordinator/topology_machine.hpp"
#include "actors/coordinator/waits.hpp"

namespace prime::coordinator::decoupled {
namespace {

/// Somebody has published the fragment, and it is not reduced yet.
bool is_open(const State& state, const Round& round) { return round.first_ready.has_value() && round.step.value <= state.plan.outer_steps; }

bool weighs(const Work& work) { return work.ready && work.ready->weight > 0; }

std::size_t contributions_to(const Round& round) {
  return static_cast<std::size_t>(std::ranges::count_if(round.work, [](const auto& entry) { return weighs(entry.second); }));
}

bool is_anybody_absent(const State& state) {
  return std::ranges::any_of(state.view.members, [&](const Member& member) { return state.peers.at(member.id).absent; });
}

/// Of leases before the last only what was published, and may still be reduced, is worth remembering. The other samples are for others.
void retire(State& state, PeerId member) {
  auto& leases = state.leases.at(member);
  const auto waits = [&](const Lease& lease) {
    return std::ranges::any_of(state.rounds, [&](const Round& round) {
      const auto& work = round.work.at(member);
      return weighs(work) && work.first_sample == lease.first_sample;
    });
  };
  std::erase_if(leases, [&](const Lease& lease) {
    if (&lease == &leases.back() || (!lease.taken && waits(lease))) return false;
    if (!lease.taken) state.given_back.insert(lease.first_sample);
    return true;
  });
}

void tell(const State& state, PeerId member, Effects& effects) {
  const auto& lease = state.leases.at(member).back();
  const auto rank = std::ranges::find(state.view.members, member, &Member::id) - state.view.members.begin();
  effects.emplace_back(Send{member, BeginStep{.view = state.view,
                                              .step = lease.step,
                                              .base = state.revision,
                                              .rank = static_cast<std::uint32_t>(rank),
                                              .first_sample = lease.first_sample}});
}

void ask(const State& state, const Round& round, PeerId member, Effects& effects) {
  effects.emplace_back(Send{member, PublishNow{fragment_of(state, round), round.step}});
}

void ask_for_all(const State& state, PeerId member, Effects& effects) {
  for (const auto& round : state.rounds)
    if (is_open(state, round) && !round.operation && !round.work.at(member).ready) ask(state, round, member, effects);
}

/// Its clock of inner steps is never behind what all have made.
void grant(State& state, PeerId member, Effects& effects) {
  auto& leases = state.leases[member];
  leases.push_back({.step = leases.empty() ? state.step() : std::max(leases.back().step.next(), state.step())});
  retire(state, member);
  leases.back().first_sample = samples::next_range(state);
  ++state.leased;
  tell(state, member, effects);
}

/// To those that have used up what they had.
void grant_all(State& state, Effects& effects) {
  for (const auto& member : state.view.members)
    if (const auto leases = state.leases.find(member.id); leases == state.leases.end() || leases->second.back().used)
      grant(state, member.id, effects);
}

/// Notes since when so many contributions are there that the round may close without the others; but not without one that has yet to come
/// back to a restarted coordinator: it would hear of a reduce before it hears what became of the last one.
void note_contributions(const State& state, Round& round, Instant now) {
  if (contributions_to(round) == 0) round.first_ready.reset();  // who had opened it is gone
  const auto quorum =
      state.plan.quorum == 0 ? state.view.members.size() : std::min<std::size_t>(state.plan.quorum, state.view.members.size());
  if (contributions_to(round) < quorum || is_anybody_absent(state)) round.quorum_since.reset();
  else if (!round.quorum_since) round.quorum_since = now;
}

/// All have published; or enough have, and the others have had their time. Nobody loses its seat for being slow: what a trainer makes comes
/// at its next boundary, and one that stands still is its agent's affair.
bool closes(const State& state, const Round& round, Instant now) {
  const bool answered = std::ranges::all_of(round.work, [](const auto& entry) { return entry.second.ready.has_value(); });
  return answered || (round.quorum_since && now - *round.quorum_since >= state.plan.grace);
}

/// Every member has used up what it was given, and nothing is left to be reduced.
bool is_at_rest(const State& state) {
  const auto is_idle = [&](const Member& member) {
    const auto leases = state.leases.find(member.id);
    return leases == state.leases.end() || leases->second.back().used;
  };
  return state.in_flight() == 0 && std::ranges::none_of(state.rounds, [&](const Round& round) { return is_open(state, round); }) &&
         std::ranges::all_of(state.view.members, is_idle);
}

}  // namespace

void begin(State& state, Instant now, Effects& effects) {
  if (state.in_flight() == 0) set_phase(state, Phase::Training, now);
  state.restoring.reset();
  state.to_who_left.reset();
  state.collection.begun = true;
  state.collection.step = state.step();
  state.collection.unready = state.view.members.size();
  state.tries = {};
  state.tries.retry_at = now;
  effects.emplace_back(events::OuterStepBegun{state.step(), state.view.epoch, state.view.members.size()});
  grant_all(state, effects);
  topology::measure(state, now, effects);
}

void admitted(State& state, const std::vector<PeerId>& members, Effects& effects) {
  for (const auto member : members) {
    grant(state, member, effects);
    ask_for_all(state, member, effects);
  }
}

void returned(State& state, PeerId member, Effects& effects) {
  if (!state.leases.contains(member)) return;
  tell(state, member, effects);
  ask_for_all(state, member, effects);
}

std::string published(State& state, PeerId from, const Ready& message, Instant now, Effects& effects) {
  const auto& peer = state.peers.at(from);
  const auto fragment = message.fragments.empty() ? 0 : message.fragments.front();
  const bool is_one = message.fragments.size() == 1 || (message.fragments.empty() && state.rounds.size() == 1);
  if (!is_one || message.weight == 0 || fragment >= state.rounds.size() || message.step > state.rounds[fragment].step ||
      message.base > state.revision) {
    dismiss(state, from, Error{ErrorName::ProtocolViolation, "a publication of what there is not"}, now, effects);
    return "a publication of what there is not";
  }
  auto& round = state.rounds[fragment];
  if (message.step < round.step || round.step.value > state.plan.outer_steps) {
    effects.emplace_back(Probe::PublishedTooLate);
    return peer.hello.name + " has published a fragment whose version is committed";
  }
  auto& work = round.work.at(from);
  if (weighs(work)) return "published twice";
  work = Work{.begun = message.step, .base = message.base, .first_sample = message.first_sample, .ready = message};
  effects.emplace_back(events::PeerReady{membership::who(peer), message.step, message.base, message.weight, message.loss.value(),
                                         message.tokens_per_s.value(), message.trainer_pid, data_wait_of(message)});
  if (!round.first_ready) {
    round.first_ready = now;
    for (const auto& member : state.view.members)
      if (!round.work.at(member.id).ready) ask(state, round, member.id, effects);
  }
  return peer.hello.name + " has published for version " + std::to_string(message.step.value);
}

std::string lease_used(State& state, PeerId from, const LeaseUsed& message) {
  const auto leases = state.leases.find(from);
  if (leases == state.leases.end() || leases->second.back().step != message.step) return "a lease that was used before";
  leases->second.back().used = true;
  return state.peers.at(from).hello.name + " has used its samples up";
}

void committed(State& state, Round& round) {
  round.first_ready.reset();
  for (auto& [member, work] : round.work) work = Work{};
  for (const auto& [member, leases] : state.leases) retire(state, member);
}

void advance(State& state, Instant now, Effects& effects) {
  if (state.paused_by_owner && is_at_rest(state)) {
    state.collection.begun = false;
    set_phase(state, Phase::Waiting, now);
    effects.emplace_back(Probe::HeldByOwner);
    return;
  }
  for (auto& round : state.rounds)
    if (is_open(state, round) && !round.operation) note_contributions(state, round, now);
  if (!state.paused_by_owner) grant_all(state, effects);
  if (state.view.members.size() < quorum_of_members(state)) return;  // it pauses for those who were lost
  std::vector<Round*> waiting;
  if (!is_anybody_absent(state))
    for (auto& round : state.rounds)
      if (is_open(state, round) && !round.operation && closes(state, round, now)) waiting.push_back(&round);
  std::ranges::sort(waiting, {}, [](const Round* round) { return *round->first_ready; });
  // A reduce waits for the links that are being measured, and for no more.
  state.collection.unready = waiting.empty() ? state.view.members.size() : 0;
  for (auto* round : waiting) {
    if (!operations::may_start(state, *round) || now < state.tries.retry_at) return;
    if (held_for(state, now)) {
      if (!state.tries.held_since) state.tries.held_since = now;
      effects.emplace_back(Probe::ReduceWaitsForJoiner);
      return;
    }
    if (topology::held_since(state, now)) return;
    operations::start(state, *round, now, effects);
  }
}

Wait wait_of(const State& state, Instant now) {
  for (const auto& round : state.rounds) {
    if (!is_open(state, round) || round.operation || now - *round.first_ready <= state.options.deadline / 4) continue;
    return {"contributions to fragment " + std::to_string(fragment_of(state, round)) + ", of which there are " +
                std::to_string(contributions_to(round)) + "; a trainer that stands still is started again by its agent",
            *round.first_ready,
            {}};
  }
  return {};
}

}  // namespace prime::coordinator::decoupled
