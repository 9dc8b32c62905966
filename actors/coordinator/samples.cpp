#include "actors/coordinator/samples.hpp"

#include <utility>

namespace prime::coordinator::samples {

std::uint64_t next_range(State& state) {
  if (!state.given_back.empty()) return state.given_back.extract(state.given_back.begin()).value();
  return state.cursor + state.closed_span + std::exchange(state.collection.span, state.collection.span + state.plan.samples_per_peer);
}

std::set<std::uint64_t> unused_by(const State& state, PeerId member) {
  std::set<std::uint64_t> ranges;
  for (const auto& round : state.rounds)
    for (const auto* works : {&round.closed, &round.work})
      if (const auto work = works->find(member); work != works->end() && work->second.contributes && !work->second.taken)
        ranges.insert(work->second.first_sample);
  if (const auto leases = state.leases.find(member); leases != state.leases.end())
    for (const auto& lease : leases->second)
      if (!lease.taken) ranges.insert(lease.first_sample);
  return ranges;
}

void note_taken(State& state, PeerId member, std::uint64_t first_sample) {
  for (auto& round : state.rounds)
    for (auto* works : {&round.closed, &round.work})
      if (const auto work = works->find(member); work != works->end() && work->second.first_sample == first_sample)
        work->second.taken = true;
  if (const auto leases = state.leases.find(member); leases != state.leases.end())
    for (auto& lease : leases->second)
      if (lease.first_sample == first_sample) lease.taken = true;
}

}  // namespace prime::coordinator::samples
