#include "cli/command_line/table.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>

namespace prime::cli {
namespace {

/// CLI11 keeps what an option excludes in the order of their addresses, which is another one in each process.
class SteadyFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    constexpr std::string_view TITLE = "Excludes:";
    auto text = CLI::Formatter::make_option_opts(option);
    const auto place = text.find(TITLE);
    if (place == std::string::npos) return text;
    std::istringstream words(text.substr(place + TITLE.size()));
    std::vector<std::string> names{std::istream_iterator<std::string>{words}, {}};
    std::ranges::sort(names);
    text.resize(place + TITLE.size());
    for (const auto& name : names) text += " " + name;
    return text;
  }
};

}  // namespace

Table::Table() : app_("Train one model together, on machines that may come and go.", "primectl") {
  app_.require_subcommand(1);
  app_.set_version_flag("--version", "", "Print versions, as the command `version` does, and exit");
  app_.formatter(std::make_shared<SteadyFormatter>());
  app_.get_formatter()->column_width(36);
  add_starting(*this);
  add_ending(*this);
  add_observing(*this);
  add_proving(*this);
  add_data(*this);
  add_measuring(*this);
  add_helping(*this);
  add_hidden(*this);
  // Set after the commands were made: they would inherit it.
  app_.footer(
      "The options of a command's `Output` may stand before the command, too: primectl -o json status\n\n"
      "Exit codes: 0 done, 1 failed, 2 usage or manifest, 3 no such run, 4 refused, 5 unhealthy (`status --check`) or not proved\n"
      "(`commitment check`, `verify`), 6 timed out, 130 interrupted, 143 ended by SIGTERM. `status` answers with 0 also for a run that "
      "failed.");
}

void Table::needs_one_of(CLI::App& command, std::vector<const CLI::Option*> options, const std::string& otherwise) {
  command.parse_complete_callback([options = std::move(options), otherwise] {
    if (std::ranges::all_of(options, [](const CLI::Option* option) { return option->count() == 0; }))
      throw CLI::ParseError(otherwise, CLI::ExitCodes::RequiredError);
  });
}

void Table::add_help(const char* group) {
  auto name = std::make_shared<std::string>();
  auto& help = *app_.add_subcommand("help", "print this help, or that of a command");
  help.group(group);
  help.add_option("COMMAND", *name, "name of a command; absent: all of them");
  help.callback([this, name] { help_wanted_ = *name; });
}

std::vector<std::string> visible_commands(CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!command->get_group().empty()) names.push_back(command->get_name());
  return names;
}

CLI::App* find_command(CLI::App& app, const std::string& name) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  const auto found = std::find_if(commands.begin(), commands.end(), [&](const CLI::App* command) { return command->get_name() == name; });
  return found == commands.end() ? nullptr : *found;
}

}  // namespace prime::cli
