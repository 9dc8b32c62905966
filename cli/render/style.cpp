#include "cli/render/style.hpp"

#include <algorithm>

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
  std::string shown{text};
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const auto byte = static_cast<unsigned char>(shown[i]);
    if (byte < 0x20 || byte == 0x7f) shown[i] = '?';
    // U+0080 to U+009F, which terminals obey as well.
    const auto next = i + 1 < shown.size() ? static_cast<unsigned char>(shown[i + 1]) : 0U;
    if (byte == 0xc2 && next >= 0x80 && next < 0xa0) shown[i] = shown[i + 1] = '?';
  }
  return shown;
}

std::string verb(const Style& style, Role role, std::string_view word) {
  return std::string(VERB_WIDTH - std::min(VERB_WIDTH, word.size()), ' ') + paint(style, role, word) + " ";
}

}  // namespace prime::cli
