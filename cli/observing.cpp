#include "cli/observing.hpp"

#include "runtime/telemetry/run_choice.hpp"
#include "runtime/telemetry/run_files.hpp"

namespace prime::cli {

std::function<void()> says_that_it_watches(Terminal& terminal) {
  return [&terminal] {
    terminal.say("Watching", "whether a process on another machine still writes its lock file, for " +
                                 format_duration(telemetry::LockTerms{}.silence_limit) + " at most");
  };
}

Result<std::filesystem::path> chosen_run(const std::string& state_dir, const std::string& run, Terminal& terminal) {
  PRIME_TRY(const auto root, telemetry::existing_state_root(state_dir));
  return telemetry::select_run(root, run, says_that_it_watches(terminal));
}

std::optional<Error> coordinator_elsewhere(const telemetry::RunStatus& status, std::string_view command) {
  const bool left = status.state == telemetry::RunState::Left;
  if (status.coordinator_here || (is_over(status.state) && !left)) return std::nullopt;
  return Error{ErrorName::RunElsewhere, std::string{left ? "the peers of this machine left " + status.id + ", and its coordinator is"
                                                         : "the coordinator of " + status.id + " runs"} +
                                            " on another machine; `primectl " + std::string{command} + "` is to be typed there"};
}

std::optional<Error> names_a_run(const std::string& state_dir, const std::string& who, std::string_view right) {
  const auto root = telemetry::existing_state_root(state_dir);
  if (!root || who.empty()) return std::nullopt;
  const auto runs = telemetry::runs_called(*root, who);
  if (runs.size() != 1) return std::nullopt;
  return Error{ErrorName::Usage,
               "`" + who + "` is a run, and no peer: `primectl " + std::string{right} + " " + runs.front().filename().string() + "`"};
}

void look_at(telemetry::RunObserver& observer, Terminal& terminal) {
  observer.settle(says_that_it_watches(terminal));
  warn_of_damage(terminal, observer);
}

void warn_of_damage(Terminal& terminal, const telemetry::RunObserver& observer) {
  for (const auto& damage : observer.damage()) {
    if (damage.problem) terminal.warn(to_string(*damage.problem));
    else
      terminal.warn(damage.journal.string() + ": " + std::to_string(damage.lines) +
                    (damage.lines == 1 ? " line is damaged or missing" : " lines are damaged or missing"));
  }
}

}  // namespace prime::cli
