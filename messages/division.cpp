#include "messages/division.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <optional>
#include <string>

namespace prime {
namespace {

std::optional<std::uint64_t> layer_of(std::string_view name) {
  while (!name.empty()) {
    const auto word = name.substr(0, name.find('.'));
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (!word.empty() && error == std::errc{} && end == word.data() + word.size()) return number;
    name.remove_prefix(std::min(name.size(), word.size() + 1));
  }
  return std::nullopt;
}

/// By tensor, its layer's place among all layers; absent for tensors of none.
std::vector<std::optional<std::uint64_t>> ranks_of(const std::vector<TensorShape>& tensors, std::uint64_t& layers) {
  std::map<std::uint64_t, std::uint64_t> ranks;
  for (const auto& tensor : tensors)
    if (const auto layer = layer_of(tensor.name)) ranks.emplace(*layer, 0);
  layers = 0;
  for (auto& [layer, rank] : ranks) rank = layers++;
  std::vector<std::optional<std::uint64_t>> found;
  for (const auto& tensor : tensors) {
    const auto layer = layer_of(tensor.name);
    found.push_back(layer ? std::optional{ranks.at(*layer)} : std::nullopt);
  }
  return found;
}

}  // namespace

std::string_view to_string(FragmentPattern pattern) {
  switch (pattern) {
    case FragmentPattern::Strided: return "strided";
    case FragmentPattern::Sequential: return "sequential";
    case FragmentPattern::Balanced: return "balanced";
  }
  return "?";
}

std::optional<FragmentPattern> parse_pattern(std::string_view text) {
  for (const auto pattern : {FragmentPattern::Strided, FragmentPattern::Sequential, FragmentPattern::Balanced})
    if (text == to_string(pattern)) return pattern;
  return std::nullopt;
}

std::vector<std::uint32_t> publication_steps(Offsets offsets, std::uint32_t fragments, std::uint32_t inner_steps) {
  std::vector<std::uint32_t> steps(fragments, inner_steps);
  for (std::uint32_t fragment = 0; offsets == Offsets::Spread && fragment < fragments; ++fragment)
    steps[fragment] = static_cast<std::uint32_t>((std::uint64_t{inner_steps} * (fragment + 1) + fragments - 1) / fragments);
  return steps;
}

std::vector<bool> merged_radially(const std::vector<TensorShape>& tensors) {
  std::uint64_t layers = 0;
  const auto ranks = ranks_of(tensors, layers);
  std::vector<bool> radial;
  for (const auto& rank : ranks) radial.push_back(layers == 0 || rank);
  return radial;
}

Result<std::vector<std::uint32_t>> divide(const std::vector<TensorShape>& tensors, const std::vector<std::uint64_t>& counts,
                                          const Division& division) {
  const auto count = division.count;
  if (tensors.size() < count)
    return fail(ErrorName::LayoutUnusable, std::to_string(tensors.size()) + (tensors.size() == 1 ? " tensor is" : " tensors are") +
                                               " bound, too few for " + std::to_string(count) +
                                               " fragments: a tensor is never cut (`sync.fragments.count`)");
  std::uint64_t layers = 0;
  const auto ranks = ranks_of(tensors, layers);
  const bool by_layer = division.pattern != FragmentPattern::Balanced && layers >= count;
  std::vector<std::uint32_t> fragments(tensors.size(), 0);
  std::vector<std::uint64_t> sizes(count, 0);
  std::vector<std::size_t> rest;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!by_layer || !ranks[i]) {
      rest.push_back(i);
      continue;
    }
    fragments[i] =
        static_cast<std::uint32_t>(division.pattern == FragmentPattern::Strided ? *ranks[i] % count : *ranks[i] * count / layers);
    sizes[fragments[i]] += counts[i];
  }
  std::ranges::stable_sort(rest, std::greater{}, [&](std::size_t i) { return counts[i]; });
  for (const auto i : rest) {
    fragments[i] = static_cast<std::uint32_t>(std::ranges::min_element(sizes) - sizes.begin());
    sizes[fragments[i]] += counts[i];
  }
  return fragments;
}

}  // namespace prime
