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
