// Owns the entry of primectl: a command line in, an exit code out.
#include <csignal>

#include "cli/commands.hpp"
#include "cli/terminal.hpp"

int main(int argc, char** argv) {
  using namespace prime;
  // A reader that goes away (`primectl up … | head`) is seen by the write that fails.
  std::signal(SIGPIPE, SIG_IGN);
  cli::Terminal terminal{cli::CommonArguments{}};
  const auto parsed = cli::parse_arguments({argv + 1, argv + argc});
  if (!parsed) return terminal.complain(parsed.error());
  return std::visit(overloaded{
                        [&](const cli::HelpText& help) {
                          terminal.print(help.text);
                          return 0;
                        },
                        [](const cli::Arguments& arguments) {
                          return std::visit([](const auto& chosen) { return cli::run_command(chosen); }, arguments);
                        },
                    },
                    *parsed);
}
