// Owns scenario files (manifests/scenarios): what a person wrote about simulated runs, and the one run that a seed makes of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "messages/result.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/simulation/scenario.hpp"

namespace prime::sim {

/// Of the format; a file names it.
inline constexpr std::uint64_t SCENARIO_VERSION = 1;

/// From where the seed draws; one value when both ends are equal.
template <class T>
struct Range {
  T low{};
  T high{};
  friend bool operator==(const Range&, const Range&) = default;
};
using Count = Range<std::uint64_t>;
using Time = Range<Duration>;

/// `count` faults of one kind, each with a moment of its own.
struct FaultPlan {
  FaultKind kind = FaultKind::Kill;
  Count count{1, 1};
  std::optional<Time> at;
  std::optional<Count> at_event;
  std::vector<peer::Phase> at_phase;  ///< one of them is drawn
  std::optional<Count> occurrence;
  std::optional<Time> hold;
};

/// More than a run admits: the coordinator's machine is judged beyond it.
inline constexpr std::uint64_t SIMULATED_PEERS_MAX = 10'000;

struct ScenarioFile {
  std::uint64_t version = SCENARIO_VERSION;
  std::string name;
  bool random = false;  ///< all else is drawn from the seed
  Count peers{3, 3};
  Count outer_steps{10, 10};
  std::optional<Count> minimum;  ///< absent: 2
  std::optional<Count> quorum;   ///< absent: all of the start
  std::optional<Count> maximum;  ///< absent: room for everybody who joins
  Count shards{1, 1};
  bool stop_when_alone = false;
  coordinator::LossPolicy on_correlated_loss = coordinator::LossPolicy::Continue;
  Count checkpoint_every{0, 0};
  Count step_quorum{0, 0};
  Count fragments{1, 1};
  Count in_flight{1, 1};
  Count overlap{0, 0};
  std::optional<Count> streams;
  bool decoupled = false;
  bool uneven_links = false;
  std::optional<Time> grace;
  std::optional<Time> dead_after;
  std::optional<Time> deadline;
  std::optional<Time> wait_limit;
  std::optional<Time> evaluate_limit;
  std::optional<Time> doubt_after;
  std::optional<Time> delay;
  double slow_messages = 0;  ///< per cent
  std::optional<Time> slowest;
  bool broken_link = false;
  std::optional<Time> clock_skew;
  bool same_start = true;
  std::optional<Time> arrive;
  std::optional<Time> bind;
  std::optional<Time> train;
  std::optional<Time> fetch;
  std::optional<Time> reduce;
  Count slower{1, 1};  ///< the first peer trains so many times as long
  std::vector<FaultPlan> faults;
  std::vector<std::string> ends;     ///< see Summary::end; a run of no fewer peers that ends otherwise has failed. Empty: any
  std::vector<std::string> reaches;  ///< probes that a few seeds together hit, or the scenario is not worth its name
};

/// Either a scenario, or at least one problem, as with manifests.
struct ScenarioOutcome {
  std::optional<ScenarioFile> scenario;
  std::vector<manifest::Diagnostic> problems;
  std::string text;
  explicit operator bool() const { return scenario.has_value(); }
};
ScenarioOutcome load_scenario(const std::string& path);
/// The same for a text; `source_name` is shown as the file.
ScenarioOutcome parse_scenario(std::string_view text, std::string_view source_name);
/// All problems, as the command line shows them.
std::string render(const ScenarioOutcome& outcome);

/// The run of one seed. Refuses numbers of peers that do not fit the scenario's membership.
Result<Scenario> draw(const ScenarioFile& file, std::uint64_t seed, std::optional<std::uint64_t> peers = {});

/// The JSON schema (draft-07) of manifests/schema/scenario.v1.json.
std::string scenario_schema();

}  // namespace prime::sim
