#include "cli/command_line/outline.hpp"

#include <algorithm>
#include <map>
#include <sstream>

#include "cli/command_line/table.hpp"
#include "cli/output_schemas.hpp"

namespace prime::cli {
namespace {

/// Placeholders of the help, and what stands for them.
Completion completion_of(const std::string& placeholder) {
  static const std::map<std::string, Completion> KNOWN{{"FILE", Completion::Files},
                                                       {"MODEL", Completion::Files},
                                                       {"TRAINER", Completion::Files},
                                                       {"SCENARIO", Completion::Files},
                                                       {"PATH|RUN", Completion::RunsOrFiles},
                                                       {"DIR", Completion::Folders},
                                                       {"RUN", Completion::Runs},
                                                       {"WHO", Completion::Peers},
                                                       {"PEER", Completion::Peers},
                                                       {"NAME", Completion::Schemas},
                                                       {"COMMAND", Completion::Commands}};
  const auto found = KNOWN.find(placeholder);
  return found == KNOWN.end() ? Completion::Nothing : found->second;
}

/// "table|json": words themselves, and no placeholder, which is in capitals.
std::vector<std::string> words_in(const std::string& value) {
  if (value.find('|') == std::string::npos || std::ranges::any_of(value, [](char c) { return c >= 'A' && c <= 'Z'; })) return {};
  std::vector<std::string> words;
  std::istringstream parts{value};
  for (std::string word; std::getline(parts, word, '|');) words.push_back(word);
  return words;
}

OptionOutline outline_of(const CLI::Option& option) {
  OptionOutline outline;
  for (const auto& name : option.get_snames()) outline.names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) outline.names.push_back("--" + name);
  if (option.get_expected_min() > 0) outline.value = option.get_type_name();
  outline.help = option.get_description();
  outline.group = option.get_group();
  outline.repeats = option.get_expected_max() > 1;
  outline.words = words_in(outline.value);
  outline.completion = !outline.words.empty() ? Completion::Words : completion_of(outline.value);
  // Only `schema` names schemas, and `--name` a peer that is not there yet.
  if (outline.completion == Completion::Schemas) outline.completion = Completion::Nothing;
  return outline;
}

PositionalOutline positional_of(const CLI::Option& option) {
  PositionalOutline outline;
  outline.name = option.get_name(true);
  outline.help = option.get_description();
  outline.required = option.get_required();
  outline.repeats = option.get_expected_max() > 1;
  outline.words = words_in(option.get_type_name());
  outline.completion = !outline.words.empty() ? Completion::Words : completion_of(outline.name);
  return outline;
}

CommandOutline outline_of(const CLI::App& command) {
  CommandOutline outline{command.get_name(), command.get_description(), command.get_group(), {}, {}, command.get_footer()};
  for (const auto* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    if (option->get_positional()) outline.positionals.push_back(positional_of(*option));
    else outline.options.push_back(outline_of(*option));
  }
  return outline;
}

}  // namespace

std::vector<std::string> known_words(const ProgramOutline& program, Completion completion, const std::vector<std::string>& words) {
  if (completion == Completion::Words) return words;
  std::vector<std::string> known;
  if (completion == Completion::Commands)
    for (const auto& command : program.commands) known.push_back(command.name);
  if (completion == Completion::Schemas)
    for (const auto& schema : schemas()) known.push_back(schema.name);
  return known;
}

ProgramOutline outline() {
  Table table;
  auto& app = table.app();
  const auto top = outline_of(app);
  ProgramOutline program{app.get_description(), top.options, {}, {}, app.get_footer()};
  for (const auto& name : visible_commands(app)) program.commands.push_back(outline_of(*find_command(app, name)));
  CLI::App common;
  common.set_help_flag();
  CommonArguments ignored;
  add_common(common, ignored);
  program.common = outline_of(common).options;
  return program;
}

}  // namespace prime::cli
