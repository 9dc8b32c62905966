#include "actors/coordinator/relay_order.hpp"

#include <algorithm>

namespace prime::coordinator {

RelayOrder relay_order(const LinkSpeeds& hops, std::size_t from) {
  const auto hop = [&](std::size_t a, std::size_t b) { return std::min(hops.at(a, b), hops.at(b, a)); };
  RelayOrder order(hops.peers());
  for (std::size_t to = 0; to < hops.peers(); ++to) {
    if (to == from) continue;
    const auto speed = [&](std::size_t by) { return std::min(hop(from, by), hop(by, to)); };
    auto& by = order[to];
    for (std::size_t each = 0; each < hops.peers(); ++each)
      if (each != from && each != to && speed(each) > 0) by.push_back(static_cast<std::uint32_t>(each));
    std::ranges::stable_sort(by, std::ranges::greater{}, speed);
    by.resize(std::min(by.size(), RELAYS_TOLD));
  }
  return order;
}

}  // namespace prime::coordinator
