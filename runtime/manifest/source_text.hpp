// Owns a manifest's text as lines and characters: whether it is readable at all, and where a byte of it is.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/manifest/document.hpp"

namespace prime::manifest {

struct TextFault {
  Place place;
  std::string message;
  std::string hint;
};

/// Why a text cannot be a manifest: too large, not UTF-8, control characters, a tab in the indentation. Checked before yaml-cpp sees it.
std::optional<TextFault> text_fault(std::string_view text);
/// Line number `index` (from 0) without its line break; empty past the end.
std::string_view line_of(std::string_view text, std::size_t index);
/// The place of `length` bytes at a byte column of a line (both from 0). A place past the end becomes the last written line's end.
Place place_of(std::string_view text, std::size_t line, std::size_t byte_column, std::size_t length);
/// Characters of valid UTF-8.
std::size_t characters(std::string_view text);
/// The characters `first` … `first + count` of valid UTF-8.
std::string_view slice(std::string_view text, std::size_t first, std::size_t count);
/// As it may be sent to a terminal: a tab is one blank, other control characters and bytes that are not UTF-8 are question marks.
std::string printable(std::string_view text);

}  // namespace prime::manifest
