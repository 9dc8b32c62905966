// Owns the loop over held-out windows.
#include "runtime/trainer/evaluation.hpp"

#include <algorithm>
#include <vector>

namespace prime::trainer {
namespace {

/// Windows that go through the model at once: small enough to stay in the cache, many enough to hide the calls.
constexpr std::uint64_t WINDOWS_AT_ONCE = 16;

}  // namespace

Result<std::optional<double>> held_out_loss(const Learner& learner, const Corpus& corpus, std::uint64_t limit_bytes) {
  const std::uint64_t allowed = std::max<std::uint64_t>(1, limit_bytes / (corpus.window_bytes() - 1));
  const std::uint64_t windows = std::min(allowed, corpus.held_out_windows());
  if (windows == 0) return std::nullopt;
  double sum = 0;
  std::vector<std::uint8_t> bytes;
  for (std::uint64_t first = 0; first < windows; first += WINDOWS_AT_ONCE) {
    const std::uint64_t count = std::min(WINDOWS_AT_ONCE, windows - first);
    bytes.resize(count * corpus.window_bytes());
    PRIME_CHECK(corpus.read_held_out(first, bytes));
    sum += learner.loss(bytes) * static_cast<double>(count);
  }
  return sum / static_cast<double>(windows);
}

}  // namespace prime::trainer
