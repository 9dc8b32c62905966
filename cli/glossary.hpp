// Owns the words that programs, tables and documents use, one line each: docs/GLOSSARY.md and `primectl explain WORD`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace prime::cli {

struct Word {
  std::string_view word;
  std::string_view meaning;
};

/// What belongs together, in the order in which one needs it.
struct WordGroup {
  std::string_view title;
  std::vector<Word> words;
};

const std::vector<WordGroup>& glossary();
/// Every line for `word`, whatever its capitals, blanks or hyphens; a column of two tables may have two.
std::vector<Word> find_words(std::string_view word);
/// docs/GLOSSARY.md.
std::string glossary_page();

}  // namespace prime::cli
