#include "cli/render/style.hpp"

#include <algorithm>
#include <array>

namespace prime::cli {
namespace {

constexpr std::size_t VERB_WIDTH = 11;

std::string_view sequence(Role role) {
  switch (role) {
    case Role::Plain: return "";
    case Role::Good: return "\x1b[32m";
    case Role::Degraded: return "\x1b[33m";
    case Role::Bad: return "\x1b[31m";
    case Role::Name: return "\x1b[36m";
    case Role::Strong: return "\x1b[1m";
  }
  return "";
}

/// What paint writes.
constexpr std::array<std::string_view, 6> OWN_SEQUENCES{"\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[36m", "\x1b[1m", "\x1b[0m"};

struct Character {
  char32_t code;
  std::size_t bytes;
};

/// The first of a text; of bytes that are no UTF-8 each one is U+FFFD, as terminals of eight bits obey them, too.
Character first_of(std::string_view text) {
  constexpr char32_t NONE = 0xfffd;
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xf0 && lead < 0xf5 ? 4 : lead >= 0xe0 && lead < 0xf0 ? 3 : lead >= 0xc2 && lead < 0xe0 ? 2 : 0;
  if (bytes == 0 || text.size() < bytes) return {NONE, 1};
  char32_t code = lead & (0xffU >> (bytes + 1));
  for (std::size_t at = 1; at < bytes; ++at) {
    const auto next = static_cast<unsigned char>(text[at]);
    if ((next & 0xc0U) != 0x80) return {NONE, 1};
    code = code << 6U | (next & 0x3fU);
  }
  constexpr std::array<char32_t, 5> LEAST{0, 0, 0x80, 0x800, 0x10000};
  const bool whole = code >= LEAST.at(bytes) && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return whole ? Character{code, bytes} : Character{NONE, 1};
}

/// Moves a cursor, changes a terminal, or turns the order of what stands around it.
bool is_harmful(const Character& character) {
  const auto code = character.code;
  const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  const bool turns =
      code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  const bool breaks_lines = code == 0x2028 || code == 0x2029;
  const bool no_character = code == 0xfffd && character.bytes == 1;
  return control || turns || breaks_lines || no_character;
}

/// `kept`: so many bytes at the beginning of what is left are as they are meant.
template <class Kept>
std::string shown_of(std::string_view text, Kept kept) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const auto meant = kept(text);
    const auto character = first_of(text);
    const auto bytes = meant > 0 ? meant : character.bytes;
    if (meant == 0 && is_harmful(character)) shown += '?';
    else shown += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return shown;
}

bool wants_colour(const StyleChoice& choice) {
  switch (choice.colour) {
    case Colour::Always: return true;
    case Colour::Never: return false;
    case Colour::Auto: break;
  }
  if (!choice.no_color.empty()) return false;
  if (!choice.clicolor_force.empty() && choice.clicolor_force != "0") return true;
  return choice.terminal && choice.term != "dumb" && !choice.term.empty();
}

}  // namespace

Style choose_style(const StyleChoice& choice) {
  auto locale = choice.locale;
  std::transform(locale.begin(), locale.end(), locale.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  const bool utf8 = locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  return Style{wants_colour(choice), choice.terminal && utf8 && choice.term != "dumb", choice.terminal ? choice.width : 0};
}

std::string paint(const Style& style, Role role, std::string_view text) {
  if (!style.colour || role == Role::Plain || text.empty()) return std::string{text};
  return std::string{sequence(role)} + std::string{text} + "\x1b[0m";
}

std::string harmless(std::string_view text) {
  return shown_of(text, [](std::string_view) { return std::size_t{0}; });
}

std::string harmless_page(std::string_view text) {
  return shown_of(text, [](std::string_view rest) -> std::size_t {
    if (rest.front() == '\n' || rest.front() == '\t') return 1;
    for (const auto own : OWN_SEQUENCES)
      if (rest.starts_with(own)) return own.size();
    return 0;
  });
}

std::string verb(const Style& style, Role role, std::string_view word) {
  return std::string(VERB_WIDTH - std::min(VERB_WIDTH, word.size()), ' ') + paint(style, role, word) + " ";
}

}  // namespace prime::cli
