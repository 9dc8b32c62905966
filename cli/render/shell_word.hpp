// Owns how a text is written so that a shell reads it as one word.
#pragma once

#include <string>
#include <string_view>

namespace prime::cli {

/// `a/b` as it is, `a b` as `'a b'`.
std::string shell_word(std::string_view text);
/// " --state-dir DIR" for lines that a person pastes; nothing when the default serves.
std::string state_dir_option(std::string_view state_dir);

}  // namespace prime::cli
