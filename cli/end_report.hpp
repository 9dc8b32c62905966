// Owns what is told of a run when it has ended, by whoever watched it: the result, the error, and what is saved.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/terminal.hpp"
#include "runtime/telemetry/run_observer.hpp"

namespace prime::cli {

/// The error that a run's reason tells.
Error error_of(const std::string& reason);
/// For an error after which `tell_what_was_saved` names the very line: no hint in general words. For a libtorch that is not found: that
/// hint.
std::optional<std::string> no_general_hint(const Error& cause);
/// The last object of `-o json`; nothing for people.
void print_result(const telemetry::RunObserver& observer, std::string_view state, Terminal& terminal);
/// Of a run that is done, and what to do with its checkpoint; returns the exit code. `state_dir`: as `--state-dir` named it.
int report_done(const telemetry::RunObserver& observer, double elapsed_s, const std::string& state_dir, Terminal& terminal);
/// Of one that ended before it was done; `status` has the reason. Returns the exit code.
int report_early_end(const telemetry::RunObserver& observer, const telemetry::RunStatus& status, const std::string& state_dir,
                     Terminal& terminal);
void tell_what_was_saved(const telemetry::RunObserver& observer, const std::string& state_dir, Terminal& terminal);

/// Where every peer of the run was here, and none is any more: names what was committed and is on no disk. Whether there is anything.
bool say_what_is_lost(const telemetry::RunObserver& observer, Terminal& terminal);

}  // namespace prime::cli
