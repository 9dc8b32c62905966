// Owns the bisection.
#include "runtime/trainer/data/token_index.hpp"

#include <algorithm>

namespace prime::data {

void TokenIndex::add(std::uint32_t shard, std::uint64_t first, std::uint64_t tokens) {
  const auto size = packed_ ? tokens : windows_of(tokens);
  if (size == 0) return;
  const auto before = stretches_.empty() ? 0 : stretches_.back().end;
  // Where documents of a shard follow one another they are one stretch: the index stays small.
  if (packed_ && !stretches_.empty()) {
    auto& last = stretches_.back();
    const auto length = last.end - (stretches_.size() > 1 ? stretches_[stretches_.size() - 2].end : 0);
    if (last.shard == shard && last.first + length == first) {
      last.end += size;
      return;
    }
  }
  stretches_.push_back({shard, first, before + size});
}

std::uint64_t TokenIndex::windows() const {
  const auto end = stretches_.empty() ? 0 : stretches_.back().end;
  return packed_ ? windows_of(end) : end;
}

Result<void> TokenIndex::read(const std::vector<TokenShard>& shards, std::uint64_t window, std::span<Token> into) const {
  std::uint64_t at = packed_ ? window * context_ : window;
  auto stretch = std::ranges::upper_bound(stretches_, at, {}, &Stretch::end);
  auto before = stretch == stretches_.begin() ? 0 : std::prev(stretch)->end;
  if (!packed_) return shards[stretch->shard].read(stretch->first + (at - before) * context_, into);
  while (!into.empty()) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), stretch->end - at));
    PRIME_CHECK(shards[stretch->shard].read(stretch->first + (at - before), into.first(count)));
    into = into.subspan(count);
    at += count;
    before = stretch->end;
    ++stretch;
  }
  return {};
}

}  // namespace prime::data
