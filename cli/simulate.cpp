// Owns `primectl simulate`: seeded runs of a scenario on virtual time, and how a failing one is replayed.
#include <set>

#include "cli/commands.hpp"
#include "cli/programs.hpp"
#include "cli/render/shell_word.hpp"
#include "cli/render/simulation_text.hpp"
#include "cli/terminal.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

/// Enough to see what led to a failure, without what came long before.
constexpr std::size_t SHOWN_EVENTS = 60;

std::string replay_line(const SimulateArguments& arguments, std::uint64_t seed) {
  return typed_program() + " simulate " + shell_word(arguments.file) + " --seed " + std::to_string(seed) +
         (arguments.peers ? " --peers " + std::to_string(*arguments.peers) : std::string{});
}

}  // namespace

int run_command(const SimulateArguments& arguments, Terminal& terminal) {
  const auto loaded = sim::load_scenario(arguments.file);
  if (!loaded) {
    terminal.complain(render(loaded));
    return info(loaded.problems.front().name).exit_code;
  }
  SimulationTotals totals;
  std::set<std::string> missed(loaded.scenario->reaches.begin(), loaded.scenario->reaches.end());
  for (auto seed = arguments.seeds.first;; ++seed) {
    const auto summary = sim::simulate(*loaded.scenario, seed, arguments.peers);
    if (!summary) return terminal.complain(summary.error());
    // The events of the first failure are enough to begin with; the others can be replayed.
    if (!summary->violations.empty())
      terminal.complain(simulation_failure(*summary, replay_line(arguments, seed), totals.failed() ? 0 : SHOWN_EVENTS));
    totals.add(*summary);
    for (const auto& [probe, hits] : summary->probes) missed.erase(probe);
    if (terminal.json() && !terminal.print(telemetry::dump(simulation_json(*summary)) + "\n")) break;
    if (!terminal.json() && !arguments.range) terminal.print(simulation_line(*summary));
    if (seed == arguments.seeds.last) break;
  }
  if (arguments.range) {
    if (!terminal.json()) terminal.print(totals.text());
    for (const auto& probe : missed) terminal.warn("none of these seeds reaches `" + probe + "`");
  }
  return totals.failed() ? 1 : 0;
}

}  // namespace prime::cli
