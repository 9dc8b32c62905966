// Owns one simulated run of a scenario file from seed to verdict: what `primectl simulate` shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/simulation/scenario_file.hpp"
#include "runtime/simulation/swarm.hpp"

namespace prime::sim {

inline constexpr std::string_view END_DONE = "done";
inline constexpr std::string_view END_COORDINATOR_KILLED = "coordinator_killed";
inline constexpr std::string_view END_VIOLATION = "violation";  ///< of an invariant: such a run goes no further

struct Summary {
  std::string scenario;
  std::uint64_t seed = 0;
  std::uint64_t peers = 0;  ///< that were to arrive at the start
  std::string end;          ///< one of the three words, or the name of the error that ended the run
  std::uint64_t outer_steps_committed = 0;
  std::uint64_t aborted = 0;
  std::vector<std::string> violations;  ///< empty: all is as it must be
  Probes probes;
  Duration took{};
  std::vector<Duration> joins;  ///< how long those who came later took until their first step, shortest first
  std::uint64_t trace_hash = 0;
  std::vector<std::string> tail;  ///< the last lines of the trace
};

/// Usage when `peers` does not fit the scenario.
Result<Summary> simulate(const ScenarioFile& file, std::uint64_t seed, std::optional<std::uint64_t> peers = {});

}  // namespace prime::sim
