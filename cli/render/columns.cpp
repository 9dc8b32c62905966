#include "cli/render/columns.hpp"

#include <algorithm>
#include <numeric>

namespace prime::cli {
namespace {

constexpr std::size_t GAP = 2;
/// Of the last column, where texts stand: what is left of it must say something.
constexpr std::size_t LEAST_TEXT = 24;

}  // namespace

std::vector<std::size_t> kept_columns(const std::vector<Column>& header, const std::vector<std::size_t>& widths, std::size_t room) {
  std::vector<std::size_t> shown(header.size());
  std::iota(shown.begin(), shown.end(), 0U);
  const auto needed = [&] {
    std::size_t sum = 0;
    for (const auto i : shown)
      sum += (i == shown.front() ? 0 : GAP) + (i + 1 == header.size() ? std::min(widths[i], LEAST_TEXT) : widths[i]);
    return sum;
  };
  while (room > 0 && needed() > room) {
    const auto first = std::ranges::max_element(shown, {}, [&](std::size_t i) { return header[i].drop; });
    if (first == shown.end() || header[*first].drop == 0) break;
    shown.erase(first);
  }
  return shown;
}

std::string cell(const std::string& text, std::size_t width, Align align) {
  const std::string padding(width - std::min(width, text.size()), ' ');
  return align == Align::Left ? text + padding : padding + text;
}

std::string cut(const std::string& text, std::size_t width) {
  constexpr std::string_view MARK = "...";
  if (text.size() <= width || width < MARK.size()) return text;
  auto end = width - MARK.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + std::string{MARK};
}

std::string columns(const std::vector<Column>& header, const std::vector<std::vector<std::string>>& rows, const Style& style) {
  std::vector<std::size_t> widths;
  std::vector<std::string> titles;
  for (const auto& column : header) {
    widths.push_back(column.title.size());
    titles.push_back(column.title);
  }
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths.at(i) = std::max(widths.at(i), row[i].size());
  const auto shown = kept_columns(header, widths, style.width);
  std::string text;
  const auto add = [&](const std::vector<std::string>& row) {
    std::string line;
    for (const auto i : shown) {
      if (i != shown.front()) line += std::string(GAP, ' ');
      const bool last = i + 1 == header.size();
      const auto left = style.width - std::min(style.width, line.size());
      line += last && style.width > 0 ? cut(row[i], std::max(left, LEAST_TEXT)) : cell(row[i], widths[i], header[i].align);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add(titles);
  for (const auto& row : rows) add(row);
  return text;
}

}  // namespace prime::cli
