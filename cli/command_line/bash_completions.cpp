#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command_line/outline.hpp"

namespace prime::cli {
namespace {

/// What the script does for a word of this kind; `$current` is what is typed of it.
std::string reply(const ProgramOutline& program, Completion completion, const std::vector<std::string>& words) {
  switch (completion) {
    case Completion::Nothing: return ":";
    case Completion::Words:
    case Completion::Schemas:
    case Completion::Commands: return fmt::format("_primectl_words \"{}\"", fmt::join(known_words(program, completion, words), " "));
    case Completion::Files: return "_primectl_paths -f";
    case Completion::Folders: return "_primectl_paths -d";
    case Completion::Runs: return "_primectl_ask runs";
    case Completion::RunsOrFiles: return "_primectl_paths -f; _primectl_ask runs";
    case Completion::Peers: return "_primectl_ask peers";
  }
  return ":";
}

/// Patterns of `case COMMAND:OPTION in`; the command is empty before there is one.
std::vector<std::string> patterns(const std::string& command, const OptionOutline& option) {
  std::vector<std::string> all;
  for (const auto& name : option.names) all.push_back(command + ":" + name);
  return all;
}

std::string option_names(const std::vector<OptionOutline>& options) {
  std::vector<std::string> names;
  for (const auto& option : options) names.push_back(option.names.back());
  return fmt::to_string(fmt::join(names, " "));
}

/// The rows of the script's `case` statements.
struct Rows {
  std::vector<std::string> with_value;  ///< options that a word follows
  std::string values;                   ///< that word
  std::string options;
  std::string positionals;

  void add_options(const ProgramOutline& program, const std::string& command, const std::vector<OptionOutline>& known) {
    for (const auto& option : known) {
      if (!option.takes_value()) continue;
      const auto names = patterns(command, option);
      with_value.insert(with_value.end(), names.begin(), names.end());
      values += fmt::format("    {}) {}; return ;;\n", fmt::join(names, "|"), reply(program, option.completion, option.words));
    }
  }
};

Rows rows_of(const ProgramOutline& program) {
  Rows rows;
  rows.add_options(program, "", program.common);
  rows.options = fmt::format("      '') _primectl_words \"{} {}\" ;;\n", option_names(program.options), option_names(program.common));
  rows.positionals = fmt::format("    :*) {} ;;\n", reply(program, Completion::Commands, {}));
  for (const auto& command : program.commands) {
    rows.add_options(program, command.name, command.options);
    rows.options += fmt::format("      {}) _primectl_words \"{}\" ;;\n", command.name, option_names(command.options));
    for (std::size_t i = 0; i < command.positionals.size(); ++i) {
      const auto& positional = command.positionals[i];
      rows.positionals += fmt::format("    {}:{}) {} ;;\n", command.name, positional.repeats ? "*" : std::to_string(i),
                                      reply(program, positional.completion, positional.words));
    }
  }
  return rows;
}

constexpr const char* BASH_SCRIPT = R"SH(# bash completion of primectl, as `primectl completions bash` prints it.

_primectl_words() {{ COMPREPLY+=($(compgen -W "$1" -- "$current")); }}
_primectl_paths() {{ compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen "$1" -- "$current")); }}
_primectl_ask() {{ _primectl_words "$("$program" __complete "$1" -- "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null)"; }}

_primectl() {{
  local program=${{COMP_WORDS[0]}} current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command= place=0 i
  COMPREPLY=()
  # `--output=json` comes as three words.
  if [[ $current == = ]]; then current=
  elif [[ $previous == = ]]; then previous=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case $command:${{COMP_WORDS[i]}} in
    {with_value})
      [[ ${{COMP_WORDS[i+1]}} != = ]] || ((i++))
      ((i++)) ;;
    *:-*) ;;
    :*) command=${{COMP_WORDS[i]}} ;;
    *) ((place++)) ;;
    esac
  done
  case $command:$previous in
{values}  esac
  if [[ $current == -* ]]; then
    case $command in
{options}    esac
    return
  fi
  case $command:$place in
{positionals}  esac
}}
complete -F _primectl primectl
)SH";

}  // namespace

std::string bash_completions(const ProgramOutline& program) {
  const auto rows = rows_of(program);
  return fmt::format(BASH_SCRIPT, fmt::arg("with_value", fmt::to_string(fmt::join(rows.with_value, "|"))), fmt::arg("values", rows.values),
                     fmt::arg("options", rows.options), fmt::arg("positionals", rows.positionals));
}

}  // namespace prime::cli
