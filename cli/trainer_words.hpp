// Owns the trainer that a command line names: its words, and the manifest's key that they stand for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "messages/result.hpp"

namespace prime::cli {

/// The words of a text as a shell reads it: quotes and backslashes count, and nothing is expanded. Refuses quotes that do not end, and a
/// text without words (Usage).
Result<std::vector<std::string>> words_of_shell(std::string_view text);
/// What `--set` would be given for it.
std::string trainer_override(const std::vector<std::string>& words);

}  // namespace prime::cli
