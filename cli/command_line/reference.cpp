// Owns docs/CLI.md.
#include "cli/arguments.hpp"
#include "cli/command_line/table.hpp"

namespace prime::cli {

std::string reference_page() {
  Table table;
  std::string page =
      "# Commands of primectl\n\n<!-- Written from the command table by `PRIME_WRITE_GOLDENS=1 cli_test`; a test compares. -->\n";
  page += "\n```\n" + table.app().help() + "```\n";
  for (const auto& name : visible_commands(table.app()))
    page += "\n## " + name + "\n\n```\n" + find_command(table.app(), name)->help("primectl") + "```\n";
  return page;
}

}  // namespace prime::cli
