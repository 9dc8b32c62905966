#include "cli/trainer_words.hpp"

#include <optional>

#include "runtime/manifest/values.hpp"

namespace prime::cli {
namespace {

constexpr char BACKSLASH = '\\';

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }

}  // namespace

Result<std::vector<std::string>> words_of_shell(std::string_view text) {
  std::vector<std::string> words;
  std::optional<std::string> word;  // begun, if only by a quote
  char quote = 0;
  const auto add = [&](char c) { word = word.value_or(std::string{}) + c; };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool more = i + 1 < text.size();
    // Between double quotes it stands for itself but before one of these.
    const bool escapes =
        c == BACKSLASH && quote != '\'' && more && (quote == 0 || std::string_view{"\"\\$`"}.find(text[i + 1]) != std::string_view::npos);
    if (escapes) {
      add(text[++i]);
    } else if (quote != 0) {
      if (c == quote) quote = 0;
      else add(c);
    } else if (c == '\'' || c == '"') {
      quote = c;
      word = word.value_or(std::string{});
    } else if (!is_space(c)) {
      add(c);
    } else if (word) {
      words.push_back(*std::move(word));
      word.reset();
    }
  }
  if (quote != 0) return fail(ErrorName::Usage, "a " + std::string{quote} + " in `" + std::string{text} + "` is not closed");
  if (word) words.push_back(*std::move(word));
  if (words.empty()) return fail(ErrorName::Usage, "no program is named");
  return words;
}

std::string trainer_override(const std::vector<std::string>& words) {
  std::string list;
  for (const auto& word : words) list += (list.empty() ? "" : ", ") + manifest::in_quotes(word);
  return "local.trainer_command=[" + list + "]";
}

}  // namespace prime::cli
