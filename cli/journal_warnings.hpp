// Owns what a command says of journals that it could not read whole. It goes on with the rest.
#pragma once

#include "cli/terminal.hpp"
#include "runtime/telemetry/run_observer.hpp"

namespace prime::cli {

/// One line for each damaged journal.
void warn_of_damage(Terminal& terminal, const telemetry::RunObserver& observer);

}  // namespace prime::cli
