// Owns `primectl ls`.
#include <chrono>

#include "cli/commands.hpp"
#include "cli/observing.hpp"
#include "cli/render/runs_text.hpp"
#include "cli/terminal.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {

int run_command(const LsArguments& arguments, Terminal& terminal) {
  const auto root = telemetry::existing_state_root(arguments.common.state_dir);
  if (!root) return terminal.complain(root.error());
  const auto runs = telemetry::observe_all(*root, says_that_it_watches(terminal));
  if (const auto closed = telemetry::unreadable_runs(*root); !closed.empty()) terminal.warn(closed);
  if (terminal.json()) {
    terminal.print(telemetry::dump(telemetry::to_json(runs)) + "\n");
    return 0;
  }
  if (runs.empty()) terminal.say("Looked", "into " + root->string() + ": no run has its files there", Role::Plain);
  const auto now = terminal.is_terminal() ? std::optional{std::chrono::system_clock::now()} : std::nullopt;
  terminal.print(runs_text(runs, terminal.style(), now));
  return 0;
}

}  // namespace prime::cli
