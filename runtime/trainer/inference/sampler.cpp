#include "runtime/trainer/inference/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/trainer/permutation.hpp"

namespace prime::trainer {
namespace {

constexpr std::uint64_t ODD = 0x9e3779b97f4a7c15ULL;

/// A uniform number in [0, 1).
double uniform(std::uint64_t seed, TokenPlace place) {
  const auto bits = mix(mix(mix(seed + ODD) ^ (place.sequence * ODD)) + place.position * ODD);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

/// exp((logit − highest) / temperature): never overflows, and the highest weighs 1.
std::vector<double> weights_of(std::span<const float> logits, double temperature) {
  const double highest = *std::ranges::max_element(logits);
  std::vector<double> weights(logits.size());
  std::ranges::transform(logits, weights.begin(), [&](float logit) { return std::exp((logit - highest) / temperature); });
  return weights;
}

double sum_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

}  // namespace

std::uint32_t choose(std::span<const float> logits, const proofs::Sampling& sampling, TokenPlace place) {
  if (sampling.temperature == 0) return static_cast<std::uint32_t>(std::ranges::max_element(logits) - logits.begin());
  const auto weights = weights_of(logits, sampling.temperature);
  double left = uniform(sampling.seed, place) * sum_of(weights);
  std::size_t token = 0;
  while (token + 1 < weights.size() && left >= weights[token]) left -= weights[token++];
  return static_cast<std::uint32_t>(token);
}

bool is_choice(std::span<const float> logits, const proofs::Sampling& sampling, TokenPlace place, std::uint32_t token,
               const ChoiceTolerance& tolerance) {
  if (token >= logits.size()) return false;
  const double highest = *std::ranges::max_element(logits), step = tolerance.step * std::abs(highest);
  if (sampling.temperature == 0) return logits[token] >= highest - std::max(tolerance.logit, 2 * step);
  const auto weights = weights_of(logits, sampling.temperature);
  const double sum = sum_of(weights), drawn = uniform(sampling.seed, place);
  const double begin = sum_of(std::span{weights}.first(token)) / sum;
  // Where a share ends moves by a quarter of what the logits move by, at most.
  const double probability = std::max(tolerance.probability, step / (4 * sampling.temperature));
  return drawn >= begin - probability && drawn < begin + weights[token] / sum + probability;
}

}  // namespace prime::trainer
