#include "runtime/manifest/source_text.hpp"

#include <algorithm>

namespace prime::manifest {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// Bytes of the well-formed character at the start of `text`; 0 if there is none (RFC 3629: no overlong forms, no surrogates).
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  const auto second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool no_character = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return overlong || no_character ? 0 : length;
}

bool is_forbidden_control(std::string_view text, std::size_t at) {
  const auto c = static_cast<unsigned char>(text[at]);
  if (c == '\r') return at + 1 >= text.size() || text[at + 1] != '\n';
  return (c < 0x20 && c != '\t' && c != '\n') || c == 0x7f;
}

Place place_of_byte(std::string_view text, std::size_t at) {
  const auto before = text.substr(0, at);
  const auto line = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  const auto line_start = before.rfind('\n');
  return place_of(text, line, at - (line_start == std::string_view::npos ? 0 : line_start + 1), 1);
}

std::optional<std::size_t> indenting_tab(std::string_view text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find('\n', begin), text.size());
    const auto content = text.substr(begin, end - begin).find_first_not_of(" \t\r");
    const auto tab = text.substr(begin, end - begin).find('\t');
    if (content != std::string_view::npos && tab < content) return begin + tab;
    begin = end + 1;
  }
  return std::nullopt;
}

}  // namespace

std::optional<TextFault> text_fault(std::string_view text) {
  if (text.size() > MAX_MANIFEST_BYTES)
    return TextFault{{},
                     "the file is too large: more than " + std::to_string(MAX_MANIFEST_BYTES) + " bytes",
                     "remove comments and what is not configuration"};
  if (text.starts_with("\xEF\xBB\xBF")) return TextFault{{}, "the file begins with a byte order mark", "save it as UTF-8 without one"};
  for (std::size_t at = 0; at < text.size();) {
    const auto length = character_length(text.substr(at));
    if (length == 0) return TextFault{place_of_byte(text, at), "not valid UTF-8", "save the file as UTF-8"};
    if (is_forbidden_control(text, at)) return TextFault{place_of_byte(text, at), "a control character is not allowed here", "remove it"};
    at += length;
  }
  if (const auto tab = indenting_tab(text)) return TextFault{place_of_byte(text, *tab), "a tab indents this line", "indent with spaces"};
  return std::nullopt;
}

std::string_view line_of(std::string_view text, std::size_t index) {
  for (std::size_t begin = 0; begin <= text.size(); --index) {
    const auto end = std::min(text.find('\n', begin), text.size());
    auto line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (index == 0) return line;
    begin = end + 1;
  }
  return {};
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

std::string_view slice(std::string_view text, std::size_t first, std::size_t count) {
  const auto offset_of = [&](std::size_t character) {
    std::size_t offset = 0;
    for (; offset < text.size() && character > 0; --character) offset += std::max<std::size_t>(1, character_length(text.substr(offset)));
    return offset;
  };
  return text.substr(offset_of(first), offset_of(first + count) - offset_of(first));
}

std::string printable(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const auto length = character_length(text.substr(at));
    const auto c = static_cast<unsigned char>(text[at]);
    if (c == '\t') result += ' ';
    else if (length == 0 || c < 0x20 || c == 0x7f) result += '?';
    else result += text.substr(at, length);
    at += std::max<std::size_t>(1, length);
  }
  return result;
}

Place place_of(std::string_view text, std::size_t line, std::size_t byte_column, std::size_t length) {
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  if (line >= lines || (line > 0 && line_of(text, line).empty())) {
    line = std::min(line, lines - 1);
    while (line > 0 && line_of(text, line).empty()) --line;
    byte_column = line_of(text, line).size();
  }
  const auto content = line_of(text, line);
  const auto begin = std::min(byte_column, content.size());
  return {.line = line + 1,
          .column = characters(content.substr(0, begin)) + 1,
          .length = std::max<std::size_t>(1, characters(content.substr(begin, length)))};
}

}  // namespace prime::manifest
