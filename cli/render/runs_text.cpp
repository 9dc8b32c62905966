#include "cli/render/runs_text.hpp"

#include "cli/render/columns.hpp"
#include "cli/render/figures.hpp"
#include "runtime/store/journal.hpp"

namespace prime::cli {
namespace {

using std::chrono::system_clock;

std::string begun_figure(const std::optional<std::string>& begun, std::optional<system_clock::time_point> now) {
  const auto then = begun && now ? store::parse_utc(*begun) : std::nullopt;
  if (!then) return harmless(begun.value_or(UNKNOWN));
  return age_figure(std::chrono::duration<double>(*now - *then).count());
}

/// Why it is not training: an error in its own words, with its code.
std::string note_of(const telemetry::RunStatus& status) {
  return harmless(status.reason.empty() ? telemetry::short_wait(status) : status.reason);
}

}  // namespace

std::string runs_text(std::span<const telemetry::ListedRun> runs, const Style& style, std::optional<system_clock::time_point> now) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [status, directory, size_bytes] : runs)
    rows.push_back({harmless(status.id), std::string{to_string(status.state)}, std::to_string(status.outer_step),
                    begun_figure(status.begun, now), bytes_figure(size_bytes), harmless(where_of(status)), note_of(status)});
  return columns({{"RUN"},
                  {"STATE"},
                  {"STEP", Align::Right},
                  {"BEGUN", Align::Left, 1},
                  {"SIZE", Align::Right, 2},
                  {"WHERE", Align::Left, 3},
                  {"REASON"}},
                 rows, style);
}

}  // namespace prime::cli
