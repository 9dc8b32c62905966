#include "cli/render/simulation_text.hpp"

#include <algorithm>

#include "cli/render/figures.hpp"

namespace prime::cli {
namespace {

/// A percentile, in seconds of virtual time; nothing without anybody who joined.
nlohmann::ordered_json join_s(const sim::Summary& summary, std::size_t percent) {
  if (summary.joins.empty()) return nullptr;
  return std::chrono::duration<double>(summary.joins[(summary.joins.size() * percent + 99) / 100 - 1]).count();
}

}  // namespace

nlohmann::ordered_json simulation_json(const sim::Summary& summary) {
  auto probes = nlohmann::ordered_json::array();
  for (const auto& [name, hits] : summary.probes) probes.push_back(name);
  return {{"schema", "primectl.simulate/1"},
          {"scenario", summary.scenario},
          {"seed", summary.seed},
          {"peers", summary.peers},
          {"outer_steps_committed", summary.outer_steps_committed},
          {"aborted", summary.aborted},
          {"violations", summary.violations},
          {"probes_hit", std::move(probes)},
          {"virtual_s", std::chrono::duration<double>(summary.took).count()},
          {"joins", summary.joins.size()},
          {"join_p50_s", join_s(summary, 50)},
          {"join_p99_s", join_s(summary, 99)}};
}

std::string simulation_line(const sim::Summary& summary) {
  return summary.scenario + ", seed " + std::to_string(summary.seed) + ", " + plural(summary.peers, "peer") + ": " +
         (summary.violations.empty() ? summary.end : "FAILED") + "; " + plural(summary.outer_steps_committed, "outer step") +
         " committed, " + std::to_string(summary.aborted) + " aborted, " + format_duration(summary.took) + " of virtual time\n";
}

std::string simulation_failure(const sim::Summary& summary, const std::string& replay, std::size_t events) {
  std::string text;
  for (const auto& violation : summary.violations)
    text += "error: seed " + std::to_string(summary.seed) + " of " + summary.scenario + ": " + violation + "\n";
  const auto shown = std::min(events, summary.tail.size());
  if (shown > 0) text += "  its last events:\n";
  for (auto line = summary.tail.end() - static_cast<std::ptrdiff_t>(shown); line != summary.tail.end(); ++line) text += "  " + *line + "\n";
  return text + "replay: " + replay + "\n";
}

void SimulationTotals::add(const sim::Summary& summary) {
  ++runs_;
  if (!summary.violations.empty()) ++failed_;
  committed_ += summary.outer_steps_committed;
  aborted_ += summary.aborted;
  ++ends_[summary.end];
}

std::string SimulationTotals::text() const {
  auto text = plural(runs_, "run") + ", " + std::to_string(failed_) + " failed; " + plural(committed_, "outer step") + " committed, " +
              std::to_string(aborted_) + " aborted; ended:";
  for (const auto& [end, runs] : ends_) text += (end == ends_.begin()->first ? " " : ", ") + std::to_string(runs) + " " + end;
  return text + "\n";
}

}  // namespace prime::cli
