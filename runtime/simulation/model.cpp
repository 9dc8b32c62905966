#include "runtime/simulation/model.hpp"

#include <bit>

#include "runtime/simulation/random.hpp"

namespace prime::sim {
namespace {

std::uint64_t fold(const Model& model, std::uint64_t hash) {
  for (const double x : model.numbers) hash = mix(hash ^ std::bit_cast<std::uint64_t>(x));
  return mix(mix(hash ^ model.revision.value) ^ model.cursor);
}

double small_number(std::uint64_t bits) { return static_cast<double>(mix(bits) >> 11U) * 0x1.0p-53 - 0.5; }

}  // namespace

Digest digest_of(const Model& model) { return Digest{fold(model, 1), fold(model, 2)}; }

Numbers pseudo_gradient(PeerId peer, OuterStep step, const Model& base, std::uint64_t first_sample) {
  Numbers result{};
  const auto root = mix(peer.value ^ mix(step.value ^ mix(first_sample)));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = small_number(root + i) + base.numbers[i] * 0.125;
  return result;
}

std::uint64_t weight_of(PeerId peer, OuterStep step) { return 100 + mix(peer.value + step.value) % 900; }

Model initial_model(std::uint64_t seed) {
  Model model;
  for (std::size_t i = 0; i < model.numbers.size(); ++i) model.numbers[i] = small_number(seed * 31 + i);
  return model;
}

}  // namespace prime::sim
