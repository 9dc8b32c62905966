// Owns the patience with a coordinator that was told to end: whoever ends a run hears what it waits for, and nobody is killed who could not
// end for that anyway.
#pragma once

#include <string>

#include "cli/interrupts.hpp"
#include "cli/terminal.hpp"
#include "runtime/telemetry/process_identity.hpp"
#include "runtime/telemetry/run_observer.hpp"

namespace prime::cli {

struct CoordinatorEnd {
  bool by_force = false;
  /// What it still waits for, a disk or a store that stands still: it ends by itself once that has taken its last entry, or it gives up,
  /// and says in its journal why. Empty: it has ended.
  std::string waits_for;
};

/// Tells a coordinator (its guard, where it has one) to end. One that says nothing is killed after COORDINATOR_PATIENCE; one whose ledger
/// is not taken is waited for as long as it waits itself, or until somebody interrupts. `at_once`: what a person does who waits no longer.
CoordinatorEnd stop_coordinator(const telemetry::ProcessIdentity& coordinator, telemetry::RunObserver& observer, Terminal& terminal,
                                const Interrupts& interrupts, const std::string& at_once);

}  // namespace prime::cli
