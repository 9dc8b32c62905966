// Owns a byte-pair encoding in memory: its tokens, its merges by rank, and how text is cut before them.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "messages/result.hpp"
#include "runtime/trainer/data/splitting.hpp"
#include "runtime/trainer/data/tokenizer.hpp"

namespace prime::data {

inline constexpr std::uint32_t NO_RANK = std::numeric_limits<std::uint32_t>::max();

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
template <class Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

/// From two neighbours to the rank of their merge. A table of all pairs where the vocabulary is small, as that of nucleotides is.
class PairRanks {
 public:
  PairRanks() = default;
  PairRanks(std::size_t merges, std::uint32_t vocab);
  void add(Token left, Token right, std::uint32_t rank);
  [[nodiscard]] std::uint32_t operator()(Token left, Token right) const {
    if (!dense_.empty()) return left < vocab_ && right < vocab_ ? dense_[std::size_t{left} * vocab_ + right] : NO_RANK;
    const std::uint64_t key = key_of(left, right);
    for (std::size_t at = place_of(key);; at = (at + 1) & mask_) {
      if (keys_[at] == key) return ranks_[at];
      if (keys_[at] == NOTHING) return NO_RANK;
    }
  }

 private:
  static constexpr std::uint64_t NOTHING = ~0ULL;
  static std::uint64_t key_of(Token left, Token right) { return (std::uint64_t{left} << 32) | right; }
  [[nodiscard]] std::size_t place_of(std::uint64_t key) const { return ((key * 0x9e3779b97f4a7c15ULL) >> 20) & mask_; }

  std::uint32_t vocab_ = 0;
  std::vector<std::uint32_t> dense_;
  std::vector<std::uint64_t> keys_ = {NOTHING};
  std::vector<std::uint32_t> ranks_ = {NO_RANK};
  std::size_t mask_ = 0;
};

/// A token that is found in the text as it stands, before anything else.
struct AddedToken {
  std::string text;
  Token id = 0;
  bool special = false;
};

struct BytePairs {
  TextMap<Token> ids;              ///< by their bytes
  std::vector<std::string> texts;  ///< by id
  PairRanks ranks;
  std::vector<Token> merged;                               ///< by rank
  std::vector<AddedToken> added;                           ///< the longest first
  std::vector<bool> added_begin = std::vector<bool>(256);  ///< by first byte
  std::vector<Splitter> splitters;
  bool of_bytes = false;     ///< symbols are bytes (ByteLevel), not characters
  bool whole_first = false;  ///< a word that is a token is that token (ignore_merges)
  bool fuse_unknown = false;
  std::optional<Token> unknown;
};

/// GPT-2 writes each byte as a character that can be seen: that one, in UTF-8.
std::string visible_byte(unsigned char byte);

/// Reads a tokenizer.json; the error says what in it is not done here.
Result<std::shared_ptr<const BytePairs>> parse_byte_pairs(std::string_view json, const std::string& name);

}  // namespace prime::data
