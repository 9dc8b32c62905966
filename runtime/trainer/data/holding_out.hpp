// Owns the choice of what is never trained on.
#pragma once

#include "runtime/trainer/data/source_files.hpp"
#include "runtime/trainer/data/token_index.hpp"

namespace prime::data {

struct HoldingOut {
  double percent = 5;
  std::uint64_t per_document_tokens = ~0ULL;
  std::uint64_t limit_tokens = ~0ULL;
};

/// Adds the documents of one source, whose shards are those of `shards` from `first_shard` on: each to one of the two indexes, or its end
/// to one and the rest to the other. Returns whether ends were held out.
Result<bool> hold_out(const std::vector<TokenShard>& shards, std::size_t first_shard, bool texts, const HoldingOut& rules,
                      TokenIndex& training, TokenIndex& held_out);

}  // namespace prime::data
