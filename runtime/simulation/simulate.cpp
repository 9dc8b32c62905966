#include "runtime/simulation/simulate.hpp"

#include <algorithm>

namespace prime::sim {
namespace {

template <class Event>
std::uint64_t count(const std::vector<JournalEvent>& journal) {
  return static_cast<std::uint64_t>(std::ranges::count_if(journal, [](const auto& event) { return std::holds_alternative<Event>(event); }));
}

std::string end_of(const Outcome& outcome) {
  if (outcome.violation) return std::string{END_VIOLATION};
  if (!outcome.over) return std::string{END_COORDINATOR_KILLED};
  return outcome.cause ? std::string{info(outcome.cause->name).name} : std::string{END_DONE};
}

}  // namespace

Result<Summary> simulate(const ScenarioFile& file, std::uint64_t seed, std::optional<std::uint64_t> peers) {
  PRIME_TRY(auto scenario, draw(file, seed, peers));
  Summary summary;
  summary.scenario = file.name;
  summary.seed = seed;
  summary.peers = scenario.arrivals.size();
  Swarm swarm{std::move(scenario), summary.probes};
  auto outcome = swarm.run();
  summary.end = end_of(outcome);
  summary.outer_steps_committed = count<events::OuterStepCommitted>(swarm.journal());
  summary.aborted = count<events::OuterStepAborted>(swarm.journal());
  summary.took = outcome.took;
  summary.joins = std::move(outcome.joins);
  std::sort(summary.joins.begin(), summary.joins.end());
  summary.trace_hash = outcome.trace_hash;
  summary.tail = std::move(outcome.tail);
  if (outcome.violation) summary.violations.push_back(*outcome.violation);
  // Faults that a scenario's peers outlive may be too many for fewer.
  else if (!file.ends.empty() && summary.peers >= file.peers.low &&
           std::find(file.ends.begin(), file.ends.end(), summary.end) == file.ends.end())
    summary.violations.push_back("the run ends with " + summary.end + ", which the scenario's `ends` does not allow");
  return summary;
}

}  // namespace prime::sim
