// Owns the division of a block.
#include "runtime/trainer/data/mix.hpp"

#include <algorithm>
#include <numeric>

#include "messages/assert.hpp"
#include "runtime/trainer/permutation.hpp"

namespace prime::data {

Mix::Mix(std::span<const double> weights, std::uint64_t seed) : seed_(seed) {
  PRIME_ASSERT(!weights.empty() && weights.size() <= BLOCK / 2, "a mix has sources, and room for each");
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  // One each, and the rest by the largest remainders.
  const auto rest = static_cast<double>(BLOCK - weights.size());
  std::vector<std::uint64_t> parts(weights.size());
  std::vector<std::pair<double, std::size_t>> remainders;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double exact = std::max(0.0, weights[i] / sum * static_cast<double>(BLOCK) - 1);
    parts[i] = 1 + static_cast<std::uint64_t>(std::min(exact, rest));
    remainders.emplace_back(static_cast<double>(parts[i] - 1) - exact, i);
  }
  std::ranges::sort(remainders);
  auto all = std::accumulate(parts.begin(), parts.end(), std::uint64_t{0});
  for (std::size_t i = 0; all < BLOCK; i = (i + 1) % remainders.size(), ++all) ++parts[remainders[i].second];
  for (; all > BLOCK; --all) --*std::ranges::max_element(parts);
  for (std::uint64_t end = 0; const auto part : parts) ends_.push_back(end += part);
}

Mix::Drawn Mix::operator()(std::uint64_t sample) const {
  if (ends_.size() == 1) return {0, sample};
  const std::uint64_t block = sample / BLOCK;
  const std::uint64_t place = trainer::Permutation(BLOCK, seed_, block)(sample % BLOCK);
  const auto source = static_cast<std::size_t>(std::ranges::upper_bound(ends_, place) - ends_.begin());
  const std::uint64_t begin = source == 0 ? 0 : ends_[source - 1];
  return {source, block * (ends_[source] - begin) + (place - begin)};
}

}  // namespace prime::data
