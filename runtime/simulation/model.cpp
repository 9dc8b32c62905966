#include "runtime/simulation/model.hpp"

#include <algorithm>
#include <bit>

#include "kernels/digest/digest.hpp"
#include "runtime/simulation/random.hpp"

namespace prime::sim {
namespace {

std::uint64_t fold(const Model& model, std::uint32_t fragment, std::uint64_t hash) {
  for (std::size_t i = fragment; i < model.numbers.size(); i += model.versions.size())
    hash = mix(hash ^ std::bit_cast<std::uint64_t>(model.numbers[i]));
  hash = mix(hash ^ model.versions[fragment].value);
  return model.versions.size() > 1 ? hash : mix(hash ^ model.cursor);
}

double small_number(std::uint64_t bits) { return static_cast<double>(mix(bits) >> 11U) * 0x1.0p-53 - 0.5; }

}  // namespace

Digest digest_of(const Model& model) { return kernels::digest_of_parts(parts_of(model)); }

Digest digest_of(const Model& model, std::uint32_t fragment) { return Digest{fold(model, fragment, 1), fold(model, fragment, 2)}; }

std::vector<Digest> parts_of(const Model& model) {
  std::vector<Digest> parts;
  for (std::uint32_t fragment = 0; fragment < model.versions.size(); ++fragment) parts.push_back(digest_of(model, fragment));
  return parts;
}

Model next_of(const Model& model, std::uint32_t fragment, const Numbers& mean, std::uint64_t next_sample) {
  auto next = model;
  for (std::size_t i = fragment; i < mean.size(); i += model.versions.size()) next.numbers[i] -= mean[i];
  next.versions[fragment] = model.versions[fragment].next();
  return with_fragment(model, next, fragment, next_sample);
}

Model with_fragment(Model model, const Model& from, std::uint32_t fragment, std::uint64_t next_sample) {
  const auto made = std::ranges::min(model.versions);
  for (std::size_t i = fragment; i < model.numbers.size(); i += model.versions.size()) model.numbers[i] = from.numbers[i];
  model.versions[fragment] = from.versions[fragment];
  model.revision = model.revision.next();
  // The cursor is that of the last step which all fragments have made.
  if (std::ranges::min(model.versions) > made) model.cursor = next_sample;
  return model;
}

Numbers pseudo_gradient(PeerId peer, OuterStep step, const Model& base, std::uint64_t first_sample) {
  Numbers result{};
  const auto root = mix(peer.value ^ mix(step.value ^ mix(first_sample)));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = small_number(root + i) + base.numbers[i] * 0.125;
  return result;
}

std::uint64_t weight_of(PeerId peer, OuterStep step) { return 100 + mix(peer.value + step.value) % 900; }

Model initial_model(std::uint64_t seed, std::uint32_t fragments) {
  Model model;
  model.versions.resize(fragments);
  for (std::size_t i = 0; i < model.numbers.size(); ++i) model.numbers[i] = small_number(seed * 31 + i);
  return model;
}

}  // namespace prime::sim
