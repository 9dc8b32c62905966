// Owns `primectl man`.
#include "cli/command_line/outline.hpp"
#include "cli/commands.hpp"
#include "cli/terminal.hpp"

namespace prime::cli {

int run_command(const ManArguments&, Terminal& terminal) {
  terminal.print(man_page(outline(), PRIMECTL_VERSION));
  return 0;
}

}  // namespace prime::cli
