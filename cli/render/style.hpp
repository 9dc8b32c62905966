// Owns colour and characters: when they are used, and what they mean. Nothing is told by colour alone.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace prime::cli {

enum class Colour { Auto, Always, Never };

struct Style {
  bool colour = false;
  bool unicode = false;
  std::size_t width = 0;  ///< columns of the terminal; 0: no limit, as in a pipe
  friend bool operator==(const Style&, const Style&) = default;
};

/// What is known about an output stream and the person's wishes; empty texts: not set.
struct StyleChoice {
  Colour colour = Colour::Auto;
  bool terminal = false;
  std::string no_color = {};
  std::string clicolor_force = {};
  std::string term = {};
  std::string locale = {};  ///< LC_ALL, LC_CTYPE or LANG, the first that is set
  std::size_t width = 0;    ///< of the terminal; 0: not known
};
Style choose_style(const StyleChoice& choice);

enum class Role { Plain, Good, Degraded, Bad, Name, Strong };
std::string paint(const Style& style, Role role, std::string_view text);

/// Names and reasons come from other machines, files and manifests: whatever could move a terminal's cursor, turn the order of what stands
/// around it, or is no UTF-8, is replaced by `?`.
std::string harmless(std::string_view text);
/// The same for whole lines that were rendered: line breaks, tabs and what `paint` has written stay.
std::string harmless_page(std::string_view text);

/// "   Starting ": right-aligned, so that the verbs of several lines form a column.
std::string verb(const Style& style, Role role, std::string_view word);

}  // namespace prime::cli
