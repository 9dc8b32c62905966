// Owns telling somebody who waits how far data is compiled.
#pragma once

#include "cli/terminal.hpp"
#include "runtime/trainer/data/compile.hpp"

namespace prime::cli {

/// Says nothing of what is done at once. `interrupt`: ends the work once it can be read; -1: nothing does.
data::OnProgress tells_of_compiling(Terminal& terminal, int interrupt = -1);

}  // namespace prime::cli
