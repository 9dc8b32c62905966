// Owns how a run's status is shown to people.
#pragma once

#include <span>
#include <string>

#include "cli/render/style.hpp"
#include "runtime/telemetry/run_status.hpp"

namespace prime::cli {

/// One run with its peers.
std::string status_text(const telemetry::RunStatus& status, const Style& style);
/// Several runs, one line each.
std::string runs_text(std::span<const telemetry::RunStatus> runs, const Style& style);

}  // namespace prime::cli
