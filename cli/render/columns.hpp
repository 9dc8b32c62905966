// Owns tables of text: columns as wide as their widest cell.
#pragma once

#include <string>
#include <vector>

namespace prime::cli {

enum class Align { Left, Right };

struct Column {
  std::string title;
  Align align = Align::Left;
};

/// Title row and rows, two spaces between columns, nothing after the last cell of a line. Each line ends with a line break.
std::string columns(const std::vector<Column>& header, const std::vector<std::vector<std::string>>& rows);

/// `text` in a cell of `width`; longer texts stay whole.
std::string cell(const std::string& text, std::size_t width, Align align);

}  // namespace prime::cli
