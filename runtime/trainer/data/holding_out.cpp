// Owns both rules: whole documents, or the end of each.
#include "runtime/trainer/data/holding_out.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <openssl/sha.h>
#include <tuple>

namespace prime::data {
namespace {

struct Candidate {
  std::uint64_t hash = 0;
  std::uint32_t shard = 0;
  std::uint64_t first = 0;
  std::uint64_t tokens = 0;
};

/// The first eight bytes of SHA-256 as a number: what any other program can compute, so that a held-out set can be checked.
std::uint64_t hash_of(const std::string& path) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<const unsigned char*>(path.data()), path.size(), digest.data());
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) value = (value << 8) | digest[i];
  return value;
}

class Choice {
 public:
  Choice(const std::vector<TokenShard>& shards, std::size_t first_shard, bool texts, const HoldingOut& rules, TokenIndex& training,
         TokenIndex& held_out)
      : shards_(shards), first_shard_(first_shard), texts_(texts), rules_(rules), training_(training), held_out_(held_out) {}

  Result<bool> run() {
    std::uint64_t all = 0, chosen = 0;
    PRIME_CHECK(each([&](const Candidate& document) {
      all += units(document.tokens);
      if (is_chosen(document)) chosen += units(document.tokens);
    }));
    const bool ends = rules_.percent > 0 && (chosen == 0 || chosen > all / 2);
    PRIME_CHECK(ends ? ends_of_documents() : whole_documents());
    return ends;
  }

 private:
  [[nodiscard]] std::uint64_t units(std::uint64_t tokens) const { return held_out_.packed() ? tokens : held_out_.windows_of(tokens); }
  [[nodiscard]] bool is_chosen(const Candidate& document) const {
    return static_cast<double>(document.hash) * 0x1p-64 < rules_.percent / 100.0;
  }

  Result<void> each(const std::function<void(const Candidate&)>& hear) const {
    for (std::size_t shard = first_shard_; shard < shards_.size(); ++shard) {
      PRIME_TRY(const auto documents, shards_[shard].documents());
      std::uint64_t before = 0;
      for (std::size_t i = 0; i < documents.size(); ++i) {
        const auto hash = texts_ ? hash_of(shards_[shard].content().files[i].name) : documents[i].hash;
        hear({hash, static_cast<std::uint32_t>(shard), before, documents[i].end - before});
        before = documents[i].end;
      }
    }
    return {};
  }

  /// Tokens that hold so many units.
  [[nodiscard]] std::uint64_t tokens_of(std::uint64_t units) const { return held_out_.packed() ? units : units * held_out_.context() + 1; }

  Result<void> whole_documents() {
    std::vector<Candidate> chosen;
    PRIME_CHECK(each([&](const Candidate& document) {
      if (is_chosen(document)) chosen.push_back(document);
      else training_.add(document.shard, document.first, document.tokens);
    }));
    // Texts of equal names, of two paths, are in the order of those.
    std::ranges::sort(chosen, {}, [](const Candidate& c) { return std::tie(c.hash, c.shard, c.first); });
    std::uint64_t left = limit();
    for (const auto& document : chosen) {
      const auto count = std::min({left, units(document.tokens), units(rules_.per_document_tokens)});
      if (count > 0) held_out_.add(document.shard, document.first, tokens_of(count));
      left -= count;
    }
    return {};
  }

  /// What the limits leave out is trained on.
  Result<void> ends_of_documents() {
    std::uint64_t left = limit();
    return each([&](const Candidate& document) {
      const auto all = units(document.tokens);
      const auto share = static_cast<std::uint64_t>(std::ceil(static_cast<double>(all) * rules_.percent / 100.0));
      const auto count = all < 2 ? 0 : std::min({left, share, all - 1, units(rules_.per_document_tokens)});
      left -= count;
      const auto kept = held_out_.packed() ? document.tokens - count : (all - count) * held_out_.context() + (all > count ? 1 : 0);
      training_.add(document.shard, document.first, kept);
      if (count == 0) return;
      const auto from = held_out_.packed() ? kept : (all - count) * held_out_.context();
      held_out_.add(document.shard, document.first + from, tokens_of(count));
    });
  }

  /// A limit below one window would make an evaluation of nothing, hence at least one.
  [[nodiscard]] std::uint64_t limit() const {
    const auto context = held_out_.context();
    return held_out_.packed() ? std::max(rules_.limit_tokens, context + 1) : std::max<std::uint64_t>(1, rules_.limit_tokens / context);
  }

  const std::vector<TokenShard>& shards_;
  std::size_t first_shard_;
  bool texts_;
  const HoldingOut& rules_;
  TokenIndex& training_;
  TokenIndex& held_out_;
};

}  // namespace

Result<bool> hold_out(const std::vector<TokenShard>& shards, std::size_t first_shard, bool texts, const HoldingOut& rules,
                      TokenIndex& training, TokenIndex& held_out) {
  return Choice(shards, first_shard, texts, rules, training, held_out).run();
}

}  // namespace prime::data
