// Owns how the list of runs is shown to people.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>

#include "cli/render/style.hpp"
#include "runtime/telemetry/run_choice.hpp"

namespace prime::cli {

/// One line each. `now`: for whom ages say more than times.
std::string runs_text(std::span<const telemetry::ListedRun> runs, const Style& style,
                      std::optional<std::chrono::system_clock::time_point> now = {});

}  // namespace prime::cli
