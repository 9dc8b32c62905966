// Owns the process that starts a coordinator, and starts it again at the same address when it was killed or crashed.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "messages/result.hpp"
#include "messages/units.hpp"

namespace prime::launch {

struct GuardOptions {
  std::string program;              ///< primectl, with its hidden commands
  std::filesystem::path directory;  ///< of the run
  std::string plan;                 ///< what the coordinator is told each time
  Duration grace{};                 ///< for which peers look for it: as long, what keeps it from starting again may go away
};

/// Returns the exit code of a coordinator that ended by itself, and what it said when it was ready the first time through `ready`.
/// SIGTERM, SIGINT and SIGQUIT are told on. Errors: what kept it from starting; CoordinatorLost when it dies again and again.
Result<int> guard_coordinator(const GuardOptions& options, const std::function<void(const nlohmann::json&)>& ready);

/// To be called by the coordinator first of all: it ends with its guard, which it is then alone.
void end_with(pid_t guard);

}  // namespace prime::launch
