// Owns how processes of a run are ended: asked, given time, killed; and never a stranger that was given the same number.
#pragma once

#include <functional>
#include <span>

#include "messages/units.hpp"
#include "runtime/telemetry/process_identity.hpp"

namespace prime::launch {

struct StopLimits {
  Duration patience{};  ///< after SIGTERM
  int interrupt = -1;   ///< readable: no more patience
  bool kill = true;     ///< those that are left afterwards
  /// Whether with a process that has outlasted the patience something would be lost: it is neither killed nor given up meanwhile, and
  /// asked about again every second.
  std::function<bool(const telemetry::ProcessIdentity&)> saves = {};
};

/// SIGTERM to all, and SIGCONT, since one that stands still cannot end; returns how many did not end by it. Processes that are gone already
/// are no error.
std::size_t stop_processes(std::span<const telemetry::ProcessIdentity> processes, const StopLimits& limits);

}  // namespace prime::launch
