// Owns the form of a tokenizer.json, as the `tokenizers` library reads it, of a byte-pair encoding.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace prime::data {

struct TokenizerFile {
  std::vector<std::string> vocab = {};                           ///< by id, as it is shown there
  std::vector<std::uint32_t> specials = {};                      ///< ids whose texts are found before anything else
  std::vector<std::pair<std::string, std::string>> merges = {};  ///< by rank
  bool nucleotides = false;                                      ///< METAGENE's kind; else of bytes
  bool cuts_words = true;                                        ///< of bytes: text is cut before pairs are merged, as GPT-2 does
};

/// Its text.
std::string to_json(const TokenizerFile& file);

}  // namespace prime::data
