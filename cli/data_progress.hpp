// Owns telling somebody who waits how far data is made.
#pragma once

#include "cli/terminal.hpp"
#include "runtime/trainer/data/compile.hpp"

namespace prime::cli {

/// Says nothing of what is done at once. `doing`: "Compiling". `interrupt`: ends the work once it can be read; -1: nothing does.
data::OnProgress tells_of_data(Terminal& terminal, std::string_view doing, int interrupt = -1);

}  // namespace prime::cli
