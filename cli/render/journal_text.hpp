// Owns how a line of a journal is shown to people.
#pragma once

#include <string>

#include "cli/render/style.hpp"
#include "runtime/telemetry/run_observer.hpp"

namespace prime::cli {

/// "09:14:02.137  brave-otter  outer step committed  outer_step=4 epoch=1 …", with line break.
std::string journal_text(const telemetry::ObservedLine& observed, const Style& style);

}  // namespace prime::cli
