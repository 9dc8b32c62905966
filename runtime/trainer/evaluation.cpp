// Owns the loop over held-out windows.
#include "runtime/trainer/evaluation.hpp"

#include <algorithm>
#include <vector>

namespace prime::trainer {
namespace {

/// Windows that go through the model at once: small enough to stay in the cache, many enough to hide the calls.
constexpr std::uint64_t WINDOWS_AT_ONCE = 16;

}  // namespace

Result<std::optional<HeldOut>> held_out_loss(const Learner& learner, const data::Corpus& corpus, std::uint64_t limit_bytes,
                                             const EvaluationShare& share, const std::function<Result<void>()>& alive) {
  const std::uint64_t tokens_each = corpus.window_tokens() - 1;
  const std::uint64_t windows = corpus.held_out_windows(limit_bytes);
  if (share.of == 0) return std::nullopt;
  const std::uint64_t begin = windows * share.index / share.of;
  const std::uint64_t end = windows * (share.index + std::uint64_t{1}) / share.of;
  if (begin == end) return std::nullopt;
  double sum = 0;
  std::vector<Token> tokens;
  for (std::uint64_t first = begin; first < end; first += WINDOWS_AT_ONCE) {
    PRIME_CHECK(alive());
    const std::uint64_t count = std::min(WINDOWS_AT_ONCE, end - first);
    tokens.resize(count * corpus.window_tokens());
    PRIME_CHECK(corpus.read_held_out(first, tokens));
    sum += learner.loss(tokens) * static_cast<double>(count);
  }
  return HeldOut{sum / static_cast<double>(end - begin), (end - begin) * tokens_each};
}

}  // namespace prime::trainer
