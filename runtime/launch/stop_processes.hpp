// Owns how processes of a run are ended: asked, given time, killed; and never a stranger that was given the same number.
#pragma once

#include <span>

#include "messages/units.hpp"
#include "runtime/telemetry/process_identity.hpp"

namespace prime::launch {

struct StopLimits {
  Duration patience{};  ///< after SIGTERM
  int interrupt = -1;   ///< readable: no more patience
  bool kill = true;     ///< those that are left afterwards
};

/// SIGTERM to all; returns how many did not end by it. Processes that are gone already are no error.
std::size_t stop_processes(std::span<const telemetry::ProcessIdentity> processes, const StopLimits& limits);

}  // namespace prime::launch
