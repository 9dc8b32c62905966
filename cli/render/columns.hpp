// Owns tables of text: columns as wide as their widest cell, as many of them as there is room for.
#pragma once

#include <string>
#include <vector>

#include "cli/render/style.hpp"

namespace prime::cli {

enum class Align { Left, Right };

struct Column {
  std::string title;
  Align align = Align::Left;
  unsigned drop = 0;  ///< where there is no room for all, the one with the highest number goes first; 0: it stays
};

/// Which columns of these widths have room in so many characters (0: no limit), in their order. The last one may be cut.
std::vector<std::size_t> kept_columns(const std::vector<Column>& header, const std::vector<std::size_t>& widths, std::size_t room);

/// Title row and rows, two spaces between columns, nothing after the last cell of a line. Each line ends with a line break.
/// No line is wider than the terminal as long as what must stay has room: columns are dropped, then the texts of the last one are cut.
std::string columns(const std::vector<Column>& header, const std::vector<std::vector<std::string>>& rows, const Style& style = {});

/// `text` in a cell of `width`; longer texts stay whole.
std::string cell(const std::string& text, std::size_t width, Align align);
/// At most so many bytes, and no half character; what was cut off shows.
std::string cut(const std::string& text, std::size_t width);

}  // namespace prime::cli
