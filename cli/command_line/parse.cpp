// Owns how a command line becomes a command, or the error that says what is wrong with it.
#include <algorithm>
#include <cctype>

#include "cli/arguments.hpp"
#include "cli/command_line/table.hpp"
#include "cli/trainer_words.hpp"
#include "runtime/manifest/fields.hpp"

namespace prime::cli {
namespace {

std::string suggestion(std::string_view word, const std::vector<std::string>& names, const std::string& prefix = {}) {
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const auto near = manifest::nearest(word, candidates);
  return near ? "; did you mean `" + prefix + std::string{*near} + "`?" : std::string{};
}

/// What other programs call it.
constexpr std::pair<std::string_view, std::string_view> CALLED_ELSEWHERE[]{
    {"start", "up"},  {"run", "up"},      {"create", "up"},     {"train", "up"},        {"stop", "down"},      {"end", "down"},
    {"kill", "down"}, {"rm", "remove"},   {"delete", "remove"}, {"del", "remove"},      {"list", "ls"},        {"ps", "ls"},
    {"runs", "ls"},   {"show", "status"}, {"watch", "attach"},  {"continue", "resume"}, {"unpause", "resume"}, {"check", "validate"}};

Error unknown_command(CLI::App& app, const std::string& word) {
  for (const auto& [elsewhere, here] : CALLED_ELSEWHERE)
    if (word == elsewhere) return Error{ErrorName::Usage, "no command `" + word + "`; `" + std::string{here} + "` does that"};
  return Error{ErrorName::Usage, "no command `" + word + "`" + suggestion(word, visible_commands(app))};
}

/// The first long option among the words of a line that its command does not have.
std::optional<Error> unknown_option(const CLI::App& command, const std::vector<std::string>& words) {
  constexpr std::string_view DASHES = "--";
  std::vector<std::string> known;
  std::vector<std::string> shown;
  for (const auto* option : command.get_options()) {
    const auto& names = option->get_lnames();
    known.insert(known.end(), names.begin(), names.end());
    if (!option->get_group().empty()) shown.insert(shown.end(), names.begin(), names.end());
  }
  for (const auto& word : words) {
    if (word == DASHES) break;  // what follows is no option
    if (!word.starts_with(DASHES)) continue;
    const auto name = word.substr(DASHES.size(), word.find('=') - DASHES.size());
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return Error{ErrorName::Usage, "no option `--" + name + "`" + suggestion(name, shown, std::string{DASHES})};
  }
  return std::nullopt;
}

/// `--prefill=`, as an unset variable of a shell leaves it, would be the flag alone.
std::optional<Error> empty_value(const std::vector<std::string>& words) {
  for (const auto& word : words) {
    if (word == "--") break;
    if (word.starts_with("--") && word.find('=') == word.size() - 1)
      return Error{ErrorName::Usage, word.substr(0, word.size() - 1) + ": nothing stands behind the `=`"};
  }
  return std::nullopt;
}

/// CLI11 ends its sentences in several ways; ours are one line without a full stop.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && (text.back() == ' ' || text.back() == '.')) text.pop_back();
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])) != 0)
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

/// The option that a word names, where a command has it; `-ojson` and `--output=json` name one, too.
const CLI::Option* named_by(const CLI::App& command, const std::string& word) {
  for (const auto* option : command.get_options()) {
    const auto& longs = option->get_lnames();
    const auto& shorts = option->get_snames();
    if (word.starts_with("--") && std::ranges::find(longs, word.substr(2, word.find('=') - 2)) != longs.end()) return option;
    if (!word.starts_with("--") && word.size() > 1 && std::ranges::find(shorts, word.substr(1, 1)) != shorts.end()) return option;
  }
  return nullptr;
}

/// What every command understands may stand before the command as well: it goes behind it. `--version` is the command `version`. Empty when
/// nothing else stands there.
std::vector<std::string> command_first(const std::vector<std::string>& words) {
  CLI::App common;
  common.set_help_flag();
  CommonArguments ignored;
  add_common(common, ignored);
  std::size_t place = 0;
  while (place < words.size()) {
    const auto& word = words[place];
    const auto* const option = word.starts_with('-') ? named_by(common, word) : nullptr;
    if (option == nullptr) break;
    const bool value_follows = word.starts_with("--") ? word.find('=') == std::string::npos : word.size() == 2;
    place += option->get_expected_min() > 0 && value_follows ? 2 : 1;
  }
  if (place >= words.size()) return {};
  const auto command = words.begin() + static_cast<std::ptrdiff_t>(place);
  std::vector<std::string> turned{*command == "--version" ? "version" : *command};
  turned.insert(turned.end(), words.begin(), command);
  turned.insert(turned.end(), command + 1, words.end());
  return turned;
}

/// What stands behind the first `--` of `join` is the command line of another program, whose options are its own.
std::optional<std::vector<std::string>> cut_trainer(std::vector<std::string>& words) {
  const auto dashes = std::ranges::find(words, "--");
  if (words.front() != "join" || dashes == words.end()) return std::nullopt;
  std::vector<std::string> trainer(dashes + 1, words.end());
  words.erase(dashes, words.end());
  return trainer;
}

Result<Arguments> with_trainer(Arguments chosen, const std::optional<std::vector<std::string>>& trainer) {
  auto* const join = std::get_if<JoinArguments>(&chosen);
  if (join == nullptr) return chosen;
  if (!join->trainer.empty())
    return fail(ErrorName::Usage, "`" + join->trainer.front() + "` is no invite; a trainer's words stand behind `--`");
  if (!trainer) return chosen;
  if (trainer->empty()) return fail(ErrorName::Usage, "nothing stands behind `--`: program and arguments of a trainer");
  join->trainer = *trainer;
  join->overrides.push_back(trainer_override(*trainer));
  return chosen;
}

Result<std::variant<Arguments, HelpText>> help_of(const std::string& name) {
  Table fresh;  // one that has parsed a line would show the help of what was in it
  auto& app = fresh.app();
  if (name.empty()) return HelpText{app.help()};
  auto* const command = find_command(app, name);
  if (command == nullptr || command->get_group().empty()) return fail(unknown_command(app, name));
  return HelpText{command->help("primectl")};
}

}  // namespace

Result<std::variant<Arguments, HelpText>> parse_arguments(const std::vector<std::string>& typed) {
  Table table;
  auto& app = table.app();
  if (typed.empty()) return HelpText{app.help()};
  auto words = command_first(typed);
  if (words.empty()) return fail(ErrorName::Usage, "a command is missing");
  if (const auto& first = words.front(); !first.starts_with('-') && find_command(app, first) == nullptr)
    return fail(unknown_command(app, first));
  const auto trainer = cut_trainer(words);
  if (auto empty = empty_value(words)) return fail(*std::move(empty));
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    const auto commands = app.get_subcommands();
    return HelpText{commands.empty() ? app.help() : commands.front()->help("primectl")};
  } catch (const CLI::ParseError& error) {
    // Before what CLI11 says: a misspelt option leaves its value behind, which is then taken for something else.
    const auto* const command = find_command(app, words.front());
    if (auto unknown = unknown_option(command != nullptr ? *command : app, words)) return fail(std::move(*unknown));
    return fail(ErrorName::Usage, one_line(error.what()));
  }
  if (table.help_wanted()) return help_of(*table.help_wanted());
  return with_trainer(*table.chosen(), trainer);
}

std::string command_of(const std::vector<std::string>& typed) {
  Table table;
  const auto words = command_first(typed);
  const bool named = !words.empty() && words.front() != "help" && find_command(table.app(), words.front()) != nullptr;
  return named ? words.front() : std::string{};
}

}  // namespace prime::cli
