// Owns the order of blame.
#include "actors/reduce_worker/overdue.hpp"

#include <tuple>

namespace prime {

std::optional<std::uint32_t> most_overdue(Schedule schedule, std::span<const Awaited> others) {
  std::optional<std::tuple<bool, bool, bool, Instant, std::uint32_t>> worst;
  for (std::uint32_t rank = 0; rank < others.size(); ++rank) {
    const Awaited& other = others[rank];
    if ((other.begun && schedule == Schedule::Ring) || (other.begun && !other.owes && other.takes)) continue;
    const std::tuple candidate{other.begun, !other.owes, !other.holds_up, other.last_heard, rank};
    if (!worst || candidate < *worst) worst = candidate;
  }
  if (!worst) return std::nullopt;
  return std::get<std::uint32_t>(*worst);
}

}  // namespace prime
