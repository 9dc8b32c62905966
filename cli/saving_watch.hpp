// Owns the patience with peers that save what they hold: whoever ends a run waits for them, and says for whom and why it takes long.
#pragma once

#include <string>

#include "cli/terminal.hpp"
#include "runtime/telemetry/run_observer.hpp"

namespace prime::cli {

/// Answers whether an agent of the run is saving just now (`launch::StopLimits::saves`); says so once, and again with each new problem.
class SavingWatch {
 public:
  SavingWatch(telemetry::RunObserver& observer, Terminal& terminal) : observer_(&observer), terminal_(&terminal) {}
  bool operator()(const telemetry::ProcessIdentity& agent);

 private:
  telemetry::RunObserver* observer_;
  Terminal* terminal_;
  std::string said_;
};

}  // namespace prime::cli
