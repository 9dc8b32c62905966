// Owns how a command looks at a run: what it says while it watches for signs of life, and of journals that it could not read whole.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cli/terminal.hpp"
#include "runtime/telemetry/run_observer.hpp"

namespace prime::cli {

/// To be called before somebody watches whether a run lives on another machine, where no lock tells.
std::function<void()> says_that_it_watches(Terminal& terminal);
/// The directory of the run that is meant, as telemetry::select_run chooses it.
Result<std::filesystem::path> chosen_run(const std::string& state_dir, const std::string& run, Terminal& terminal);
/// RunElsewhere where the run's coordinator is on another machine: `command` has to be typed there.
std::optional<Error> coordinator_elsewhere(const telemetry::RunStatus& status, std::string_view command);
/// Usage where the name of a run stands in the place of a peer's: `right` is how it is typed, up to the run.
std::optional<Error> names_a_run(const std::string& state_dir, const std::string& who, std::string_view right);
/// Reads all journals, finds out who lives, and warns of damage.
void look_at(telemetry::RunObserver& observer, Terminal& terminal);
/// One line for each damaged journal. The command goes on with the rest.
void warn_of_damage(Terminal& terminal, const telemetry::RunObserver& observer);

}  // namespace prime::cli
