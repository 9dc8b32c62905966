// Owns the patience with peers whose end would lose something: whoever ends a run waits for them, and says for whom and why it takes long.
#pragma once

#include <chrono>
#include <string>

#include "cli/terminal.hpp"
#include "messages/units.hpp"
#include "runtime/telemetry/run_observer.hpp"

namespace prime::cli {

/// Answers whether an agent of the run holds what is saved nowhere (`launch::StopLimits::saves`): it saves that just now, and gives up by
/// itself, or lives and says nothing, for `checkpoint.retry` at most: its disk may stand still, and its journal with it. Says so, and
/// again with each new problem, and after each QUIET_LIMIT.
class SavingWatch {
 public:
  /// `at_once`: what a person does who waits no longer.
  SavingWatch(telemetry::RunObserver& observer, Terminal& terminal, std::string at_once);
  bool operator()(const telemetry::ProcessIdentity& agent);

 private:
  telemetry::RunObserver* observer_;
  Terminal* terminal_;
  std::string at_once_;
  std::chrono::steady_clock::time_point until_;
  std::string said_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point said_at_ = since_;
};

}  // namespace prime::cli
