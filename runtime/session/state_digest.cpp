#include "runtime/session/state_digest.hpp"

#include <algorithm>
#include <array>

#include "kernels/digest/digest.hpp"

namespace prime {

Digest fragment_digest(std::uint32_t fragment, OuterStep version, std::span<const float> parameters, std::span<const float> momentum,
                       unsigned threads) {
  const auto first = kernels::digest_tensor(std::as_bytes(parameters), threads);
  const auto second = kernels::digest_tensor(std::as_bytes(momentum), threads);
  const std::array<std::uint64_t, 6> words{first.high, first.low, second.high, second.low, fragment, version.value};
  return kernels::digest_bytes(std::as_bytes(std::span{words}));
}

void place(const FlatState& from, const Layout& layout, std::uint32_t fragment, std::span<float> parameters, std::span<float> momentum) {
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < layout.homes().size(); ++i) {
    const auto& home = layout.homes()[i];
    const auto count = layout.counts()[i];
    if (home.fragment == fragment) {
      std::ranges::copy(from.parameters.subspan(at, count), parameters.subspan(home.offset, count).begin());
      const auto to = momentum.subspan(home.offset, count);
      if (from.momentum.empty()) std::ranges::fill(to, 0.0F);
      else std::ranges::copy(from.momentum.subspan(at, count), to.begin());
    }
    at += count;
  }
}

std::vector<Digest> fragment_digests(const FlatState& state, const Layout& layout, OuterStep version) {
  std::vector<Digest> parts;
  for (std::uint32_t fragment = 0; fragment < layout.fragments(); ++fragment) {
    std::vector<float> parameters(layout.size(fragment));
    std::vector<float> momentum(layout.size(fragment));
    place(state, layout, fragment, parameters, momentum);
    parts.push_back(fragment_digest(fragment, version, parameters, momentum));
  }
  return parts;
}

}  // namespace prime
