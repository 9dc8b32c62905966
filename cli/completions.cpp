// Owns `primectl completions`.
#include "cli/command_line/outline.hpp"
#include "cli/commands.hpp"
#include "cli/terminal.hpp"

namespace prime::cli {

int run_command(const CompletionsArguments& arguments, Terminal& terminal) {
  const auto program = outline();
  terminal.print(arguments.shell == "bash"  ? bash_completions(program)
                 : arguments.shell == "zsh" ? zsh_completions(program)
                                            : fish_completions(program));
  return 0;
}

}  // namespace prime::cli
