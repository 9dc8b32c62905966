// Owns the entry of primectl: a command line in, an exit code out.
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <new>
#include <unistd.h>

#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "runtime/agent/reason_log.hpp"
#include "runtime/shortage.hpp"

namespace {

/// A stream that is closed would give its number to the next file that is opened, and that file would get its text.
void open_standard_streams() {
  while (true) {
    const int descriptor = ::open("/dev/null", O_RDWR);
    if (descriptor < 0) return;
    if (descriptor <= STDERR_FILENO) continue;
    ::close(descriptor);
    return;
  }
}

template <class Chosen>
int run(const Chosen& chosen, std::string_view command) {
  prime::cli::CommonArguments common;
  if constexpr (requires { chosen.common; }) common = chosen.common;
  // The processes that it starts inherit it, and so do those that these start again.
  if (common.log_level == prime::cli::LogLevel::Debug) ::setenv(prime::LOG_LEVEL_VARIABLE, "debug", 1);
  prime::cli::Terminal terminal{common, command};
  try {
    return terminal.finish(prime::cli::run_command(chosen, terminal));
  } catch (const std::bad_alloc&) {  // wherever it comes from: a file that somebody names may be larger than what is free
    return terminal.complain(prime::Error{prime::ErrorName::MemoryUnavailable,
                                          std::string{command} + " needs more than it gets: " + prime::limits_in_the_way()});
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace prime;
  // A reader that goes away (`primectl up … | head`) is seen by the write that fails.
  std::signal(SIGPIPE, SIG_IGN);
  end_by_name_when_short();
  open_standard_streams();
  const std::vector<std::string> words{argv + 1, argv + argc};
  const auto command = cli::command_of(words);
  cli::Terminal terminal{cli::CommonArguments{}, command};
  const auto parsed = cli::parse_arguments(words);
  if (!parsed) return terminal.complain(parsed.error());
  return std::visit(
      overloaded{
          [&](const cli::HelpText& help) {
            terminal.print(help.text);
            return terminal.finish(0);
          },
          [&](const cli::Arguments& arguments) { return std::visit([&](const auto& chosen) { return run(chosen, command); }, arguments); },
      },
      *parsed);
}
