// Owns the numbering of samples over the shards: which tokens window number n is.
//
// Packed, documents follow one another, and a window is wherever it falls; else each document is cut by itself, and its windows lie within
// it. Windows lie `context` tokens apart and are one longer, so that each token but the first is predicted once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/trainer/data/token_shard.hpp"

namespace prime::data {

class TokenIndex {
 public:
  TokenIndex(std::uint32_t context, bool packed) : context_(context), packed_(packed) {}

  /// A stretch of one shard; stretches are added in their order.
  void add(std::uint32_t shard, std::uint64_t first, std::uint64_t tokens);
  [[nodiscard]] std::uint64_t windows() const;
  [[nodiscard]] bool packed() const { return packed_; }
  [[nodiscard]] std::uint64_t context() const { return context_; }
  [[nodiscard]] std::uint64_t windows_of(std::uint64_t tokens) const { return tokens < 1 ? 0 : (tokens - 1) / context_; }
  /// Fills `into`, context + 1 long.
  Result<void> read(const std::vector<TokenShard>& shards, std::uint64_t window, std::span<Token> into) const;

 private:
  struct Stretch {
    std::uint32_t shard;
    std::uint64_t first;
    std::uint64_t end;  ///< of it and all before it: tokens where packed, windows else
  };

  std::uint64_t context_;
  bool packed_;
  std::vector<Stretch> stretches_;
};

}  // namespace prime::data
