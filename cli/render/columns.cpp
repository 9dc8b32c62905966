#include "cli/render/columns.hpp"

#include <algorithm>

namespace prime::cli {

std::string cell(const std::string& text, std::size_t width, Align align) {
  const std::string padding(width - std::min(width, text.size()), ' ');
  return align == Align::Left ? text + padding : padding + text;
}

std::string columns(const std::vector<Column>& header, const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  std::vector<std::string> titles;
  for (const auto& column : header) {
    widths.push_back(column.title.size());
    titles.push_back(column.title);
  }
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths.at(i) = std::max(widths.at(i), row[i].size());
  std::string text;
  const auto add = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += (i > 0 ? "  " : "") + cell(row[i], widths[i], header[i].align);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add(titles);
  for (const auto& row : rows) add(row);
  return text;
}

}  // namespace prime::cli
