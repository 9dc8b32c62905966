#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command_line/outline.hpp"

namespace prime::cli {
namespace {

/// Within single quotes, as a part of a specification of `_arguments`, whose parts `:` and brackets divide.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') out += "'\\'";
    else if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

/// The action of a specification. Behind a blank it is called with its own words alone.
std::string action_of(const ProgramOutline& program, Completion completion, const std::vector<std::string>& words) {
  switch (completion) {
    case Completion::Nothing: return " ";
    case Completion::Words:
    case Completion::Schemas:
    case Completion::Commands: return fmt::format("({})", fmt::join(known_words(program, completion, words), " "));
    case Completion::Files: return "_files";
    case Completion::Folders: return "_files -/";
    case Completion::Runs: return " _primectl_ask runs";
    case Completion::RunsOrFiles: return " _primectl_ask runs files";
    case Completion::Peers: return " _primectl_ask peers";
  }
  return " ";
}

std::string spec_of(const ProgramOutline& program, const OptionOutline& option) {
  const auto rest =
      "[" + escaped(option.help) + "]" +
      (option.takes_value() ? ":" + escaped(option.value) + ":" + action_of(program, option.completion, option.words) : std::string{});
  if (option.names.size() == 1) return fmt::format("'{}{}{}'", option.repeats ? "*" : "", option.names.front(), rest);
  return fmt::format("'({0})'{{{1}}}'{2}'", fmt::join(option.names, " "), fmt::join(option.names, ","), rest);
}

std::string spec_of(const ProgramOutline& program, const PositionalOutline& positional) {
  const auto place = positional.repeats ? "*:" : positional.required ? ":" : "::";
  return fmt::format("'{}{}:{}'", place, escaped(positional.name), action_of(program, positional.completion, positional.words));
}

std::string command_case(const ProgramOutline& program, const CommandOutline& command) {
  std::string text = fmt::format("      {})\n        _arguments", command.name);
  for (const auto& option : command.options) text += " \\\n          " + spec_of(program, option);
  for (const auto& positional : command.positionals) text += " \\\n          " + spec_of(program, positional);
  return text + "\n        ;;\n";
}

constexpr const char* ZSH_SCRIPT = R"SH(#compdef primectl
# zsh completion of primectl, as `primectl completions zsh` prints it.

_primectl_ask() {{
  local -a found
  found=(${{(f)"$($_primectl_program __complete $1 -- ${{(Q)_primectl_typed}} "" 2>/dev/null)"}})
  compadd -a found
  [[ $2 != files ]] || _files
}}

_primectl() {{
  local context state line _primectl_program=$words[1]
  local -a commands _primectl_typed
  _primectl_typed=(${{words[2,CURRENT-1]}})
  commands=(
{commands}  )
  # What stands behind the command is the command's, options too that all commands have.
  _arguments -C -A '-*'{options} \
    '1:command:->command' \
    '*::argument:->argument'
  case $state in
  command) _describe -t commands command commands ;;
  argument)
    case $words[1] in
{cases}    esac
    ;;
  esac
}}

if [[ $funcstack[1] == _primectl ]]; then _primectl "$@"; else compdef _primectl primectl; fi
)SH";

}  // namespace

std::string zsh_completions(const ProgramOutline& program) {
  std::string commands;
  std::string cases;
  std::string options;
  for (const auto& option : program.options) options += " \\\n    " + spec_of(program, option);
  for (const auto& option : program.common) options += " \\\n    " + spec_of(program, option);
  for (const auto& command : program.commands) {
    commands += fmt::format("    '{}:{}'\n", command.name, escaped(command.help));
    cases += command_case(program, command);
  }
  return fmt::format(ZSH_SCRIPT, fmt::arg("commands", commands), fmt::arg("options", options), fmt::arg("cases", cases));
}

}  // namespace prime::cli
