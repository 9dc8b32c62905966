// Owns the tree of commands as plain data: one walk over what the parser knows, for whatever is written from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace prime::cli {

/// What a word of a command line is, for who completes it.
enum class Completion { Nothing, Words, Files, Folders, Runs, RunsOrFiles, Peers, Schemas, Commands };

struct OptionOutline {
  std::vector<std::string> names;  ///< with their dashes, short ones first
  std::string value;               ///< "FILE", "table|json"; empty: a flag
  std::string help;
  std::string group;
  bool repeats = false;
  Completion completion = Completion::Nothing;
  std::vector<std::string> words;  ///< Completion::Words

  /// Whether a word follows.
  [[nodiscard]] bool takes_value() const { return !value.empty(); }
};

struct PositionalOutline {
  std::string name;
  std::string help;
  bool required = false;
  bool repeats = false;
  Completion completion = Completion::Nothing;
  std::vector<std::string> words;
};

struct CommandOutline {
  std::string name;
  std::string help;
  std::string group;
  std::vector<OptionOutline> options;
  std::vector<PositionalOutline> positionals;
  std::string footer;
};

struct ProgramOutline {
  std::string help;
  std::vector<OptionOutline> options;    ///< that stand without a command
  std::vector<OptionOutline> common;     ///< that every command has, and that may stand before it
  std::vector<CommandOutline> commands;  ///< without those that are hidden
  std::string footer;
};

ProgramOutline outline();

// Scripts that teach a shell the commands. Runs and peers are asked of the program when they are needed.
std::string bash_completions(const ProgramOutline& program);
std::string zsh_completions(const ProgramOutline& program);
std::string fish_completions(const ProgramOutline& program);
/// What the scripts know by themselves of a word: the names of commands or schemas, or the words that it may be.
std::vector<std::string> known_words(const ProgramOutline& program, Completion completion, const std::vector<std::string>& words);
/// primectl(1), for troff -man.
std::string man_page(const ProgramOutline& program, std::string_view version);

}  // namespace prime::cli
