// Owns the division of a block, and how many samples sources have given before one.
#include "runtime/trainer/data/mix.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include "messages/assert.hpp"
#include "runtime/trainer/permutation.hpp"

namespace prime::data {
namespace {

/// Blocks between two marks: so many are counted again for a block, and no more is kept than a number in so many.
constexpr std::uint64_t MARK_EVERY = 64;

/// The number with its bits, as many as count a block, in the other order: each two, four, eight … that follow one another lie far apart.
std::uint64_t reversed(std::uint64_t number) {
  static_assert(std::has_single_bit(Mix::BLOCK));
  std::uint64_t place = 0;
  for (std::uint64_t bit = 1; bit < Mix::BLOCK; bit *= 2, number /= 2) place = place * 2 + number % 2;
  return place;
}

void add_to(std::vector<std::uint64_t>& sums, const std::vector<std::uint64_t>& parts) {
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += parts[i];
}

}  // namespace

std::vector<std::vector<MixShare>> shares_of(const std::vector<manifest::Source>& sources) {
  std::set<std::uint64_t> samples;
  for (const auto& source : sources)
    for (const auto& point : source.weight.points) samples.insert(point.at);
  if (samples.empty()) return std::vector<std::vector<MixShare>>(sources.size());
  samples.insert(0);
  std::vector<std::vector<MixShare>> shares(sources.size());
  for (const auto at : samples) {
    double sum = 0;
    for (const auto& source : sources) sum += manifest::weight_at(source.weight, at);
    for (std::size_t i = 0; i < sources.size(); ++i) shares[i].push_back({at, manifest::weight_at(sources[i].weight, at) / sum});
  }
  return shares;
}

Mix::Mix(std::span<const manifest::SourceWeight> weights, std::uint64_t seed, std::uint64_t range)
    : weights_(weights.begin(), weights.end()), seed_(seed), range_(range) {
  PRIME_ASSERT(!weights.empty() && weights.size() <= BLOCK / 2, "a mix has sources, and room for each");
  PRIME_ASSERT(range > 0 && (range == 1 || std::ranges::none_of(weights, &manifest::SourceWeight::changes)), "weights of ranges are level");
  for (const auto& weight : weights_)
    if (weight.changes()) level_from_ = std::max(level_from_, (weight.points.back().at + BLOCK - 1) / BLOCK);
  std::vector<std::uint64_t> before(weights_.size());
  for (std::uint64_t block = 0; block < level_from_; ++block) {
    if (block % MARK_EVERY == 0) marks_.push_back(before);
    add_to(before, parts_at(block));
  }
  if (level_from_ % MARK_EVERY == 0) marks_.push_back(before);
  level_parts_ = parts_at(level_from_);
}

std::vector<std::uint64_t> Mix::parts_at(std::uint64_t block) const {
  std::vector<double> weights;
  for (const auto& weight : weights_) weights.push_back(manifest::weight_at(weight, block * BLOCK));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const auto drawn = static_cast<std::size_t>(std::ranges::count_if(weights, [](double weight) { return weight > 0; }));
  PRIME_ASSERT(drawn > 0, "a block has a source");
  // One each, and the rest by the largest remainders.
  const auto rest = static_cast<double>(BLOCK - drawn);
  std::vector<std::uint64_t> parts(weights.size());
  std::vector<std::pair<double, std::size_t>> remainders;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    const double exact = std::max(0.0, weights[i] / sum * static_cast<double>(BLOCK) - 1);
    parts[i] = 1 + static_cast<std::uint64_t>(std::min(exact, rest));
    remainders.emplace_back(static_cast<double>(parts[i] - 1) - exact, i);
  }
  std::ranges::sort(remainders);
  auto all = std::accumulate(parts.begin(), parts.end(), std::uint64_t{0});
  for (std::size_t i = 0; all < BLOCK; i = (i + 1) % remainders.size(), ++all) ++parts[remainders[i].second];
  for (; all > BLOCK; --all) --*std::ranges::max_element(parts);
  return parts;
}

Mix::Block Mix::block_of(std::uint64_t sample) const {
  Block block{sample / range_ / BLOCK, std::vector<std::uint64_t>(weights_.size()), {}};
  const auto changing = std::min(block.number, level_from_);
  if (!marks_.empty()) block.first = marks_[changing / MARK_EVERY];
  for (auto at = changing / MARK_EVERY * MARK_EVERY; at < changing; ++at) add_to(block.first, parts_at(at));
  for (std::size_t i = 0; i < weights_.size(); ++i) block.first[i] += (block.number - changing) * level_parts_[i];
  std::uint64_t end = 0;
  for (const auto part : block.number < level_from_ ? parts_at(block.number) : level_parts_) block.ends.push_back(end += part);
  return block;
}

Mix::Drawn Mix::draw(const Block& block, std::uint64_t sample) const {
  PRIME_ASSERT(is_in(block, sample), "the sample is in the block");
  if (block.ends.size() == 1) return {0, sample};
  const auto number = sample / range_ % BLOCK;
  const std::uint64_t place = range_ > 1 ? reversed(number) : trainer::Permutation(BLOCK, seed_, block.number)(number);
  const auto source = static_cast<std::size_t>(std::ranges::upper_bound(block.ends, place) - block.ends.begin());
  const std::uint64_t begin = source == 0 ? 0 : block.ends[source - 1];
  const auto drawn = block.first[source] + (place - begin);
  return {source, drawn * range_ + sample % range_};
}

}  // namespace prime::data
