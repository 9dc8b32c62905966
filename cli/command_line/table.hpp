// Owns the tree of commands, and what they write into while a line is parsed. Only files of this folder include CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/command_line/options.hpp"

namespace prime::cli {

/// A new command, and what it writes into.
template <class T>
struct Entry {
  CLI::App& command;
  T& typed;
};

class Table {
 public:
  Table();

  CLI::App& app() { return app_; }
  /// What the line that was parsed asks for.
  [[nodiscard]] const std::optional<Arguments>& chosen() const { return chosen_; }

  /// The command whose help the line asks for; empty: that of all.
  [[nodiscard]] const std::optional<std::string>& help_wanted() const { return help_wanted_; }

  /// `group`: the heading under which it is listed; empty: it is hidden.
  template <class T>
  Entry<T> add(const char* name, const char* help, const char* group) {
    auto typed = std::make_shared<T>();
    kept_.push_back(typed);
    auto& command = *app_.add_subcommand(name, help);
    command.group(group);
    command.callback([this, typed] { chosen_ = *typed; });
    if constexpr (requires { typed->common; }) add_common(command, typed->common);
    if constexpr (requires { typed->detach; }) add_log_level(command, typed->common);
    return {command, *typed};
  }

  /// Refuses a line that has none of these options.
  static void needs_one_of(CLI::App& command, std::vector<const CLI::Option*> options, const std::string& otherwise);
  /// `help [COMMAND]`, which is answered without a command of its own.
  void add_help(const char* group);

 private:
  CLI::App app_;
  std::vector<std::shared_ptr<void>> kept_;
  std::optional<Arguments> chosen_;
  std::optional<std::string> help_wanted_;
};

// Each in its own file, in the order of the help.
void add_starting(Table& table);
void add_ending(Table& table);
void add_observing(Table& table);
void add_proving(Table& table);
void add_data(Table& table);
void add_measuring(Table& table);
void add_helping(Table& table);
void add_hidden(Table& table);

/// Those that are shown, in the order of the help.
std::vector<std::string> visible_commands(CLI::App& app);
/// One that is shown or hidden; nullptr when there is none.
CLI::App* find_command(CLI::App& app, const std::string& name);

}  // namespace prime::cli
