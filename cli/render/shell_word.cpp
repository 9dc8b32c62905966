#include "cli/render/shell_word.hpp"

#include <algorithm>

namespace prime::cli {
namespace {

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view{"_-./:,+=@%"}.find(c) != std::string_view::npos;
}

}  // namespace

std::string shell_word(std::string_view text) {
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return std::string{text};
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return word + "'";
}

std::string state_dir_option(std::string_view state_dir) {
  return state_dir.empty() ? std::string{} : " --state-dir " + shell_word(state_dir);
}

}  // namespace prime::cli
