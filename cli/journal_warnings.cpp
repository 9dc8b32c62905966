#include "cli/journal_warnings.hpp"

namespace prime::cli {

void warn_of_damage(Terminal& terminal, const telemetry::RunObserver& observer) {
  for (const auto& damage : observer.damage()) {
    if (damage.problem) terminal.warn(to_string(*damage.problem));
    else
      terminal.warn(damage.journal.string() + ": " + std::to_string(damage.lines) +
                    (damage.lines == 1 ? " line is damaged or missing" : " lines are damaged or missing"));
  }
}

}  // namespace prime::cli
