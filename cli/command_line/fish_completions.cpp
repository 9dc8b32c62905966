#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command_line/outline.hpp"

namespace prime::cli {
namespace {

std::string fish_word(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\\' || c == '\'') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "'";
}

/// Arguments of `complete` for the word that follows.
std::string reply_of(const ProgramOutline& program, Completion completion, const std::vector<std::string>& words) {
  switch (completion) {
    case Completion::Nothing: return "-x";
    case Completion::Words:
    case Completion::Schemas:
    case Completion::Commands: return "-x -a " + fish_word(fmt::to_string(fmt::join(known_words(program, completion, words), " ")));
    case Completion::Files: return "-r -F";
    case Completion::Folders: return "-x -a '(__fish_complete_directories)'";
    case Completion::Runs: return "-x -a '(__primectl_ask runs)'";
    case Completion::RunsOrFiles: return "-r -F -a '(__primectl_ask runs)'";
    case Completion::Peers: return "-x -a '(__primectl_ask peers)'";
  }
  return "-x";
}

std::string line_of(const ProgramOutline& program, const OptionOutline& option, const std::string& condition) {
  std::string line = "complete -c primectl -n " + fish_word(condition);
  for (const auto& name : option.names) line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (option.takes_value()) line += " " + reply_of(program, option.completion, option.words);
  return line + " -d " + fish_word(option.help) + "\n";
}

constexpr const char* FISH_HEAD = R"(# fish completion of primectl, as `primectl completions fish` prints it.

function __primectl_ask
    set -l words (commandline -opc)
    $words[1] __complete $argv[1] -- $words[2..-1] "" 2>/dev/null
end
complete -c primectl -f
)";

}  // namespace

std::string fish_completions(const ProgramOutline& program) {
  std::string script = FISH_HEAD;
  std::vector<std::string> names;
  for (const auto& command : program.commands) names.push_back(command.name);
  const auto none = fmt::format("not __fish_seen_subcommand_from {}", fmt::join(names, " "));
  for (const auto& option : program.options) script += line_of(program, option, none);
  for (const auto& option : program.common) script += line_of(program, option, none);
  for (const auto& command : program.commands) {
    script += fmt::format("complete -c primectl -n {} -a {} -d {}\n", fish_word(none), command.name, fish_word(command.help));
    const auto within = "__fish_seen_subcommand_from " + command.name;
    for (const auto& option : command.options) script += line_of(program, option, within);
    for (const auto& positional : command.positionals) {
      if (positional.completion == Completion::Nothing) continue;
      auto reply = reply_of(program, positional.completion, positional.words);
      if (reply.starts_with("-x ") || reply.starts_with("-r ")) reply.erase(0, 3);  // of options alone
      script += fmt::format("complete -c primectl -n {} {}\n", fish_word(within), reply);
    }
  }
  return script;
}

}  // namespace prime::cli
