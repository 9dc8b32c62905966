// Owns what the coordinator waits for: whom, for how many, and how it says so.
#pragma once

#include <algorithm>

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator {

/// Some of the peers, by name. More than the first few would make a line of the journal that nobody reads, for each of a thousand
/// peers that is ready.
struct Named {
  static constexpr std::size_t MAX_NAMES = 8;
  std::vector<std::string> first;
  std::size_t count = 0;

  void add(const std::string& name) {
    if (count++ < MAX_NAMES) first.push_back(name);
  }
  [[nodiscard]] bool empty() const { return count == 0; }
};
/// As a sentence has them: "a, b", or the first ones "and 3 more".
std::string to_string(const Named& names);

/// The members to whom it applies, in rank order.
template <class Predicate>
Named members_who(const State& state, Predicate predicate) {
  Named list;
  // Over the seats, which is quicker than one search for each member; the names are those of the first few.
  for (const auto& [id, peer] : state.peers)
    if (peer.seat == Seat::Member && predicate(peer)) ++list.count;
  for (const auto& member : state.view.members) {
    if (list.first.size() == std::min(list.count, Named::MAX_NAMES)) break;
    if (predicate(state.peers.at(member.id))) list.first.push_back(member.name);
  }
  return list;
}

void set_phase(State& state, Phase phase, Instant now);
/// How many members end the wait for peers: the first step begins with all that were asked for.
std::uint32_t quorum_of_members(const State& state);
Wait wait_of(const State& state, Instant now);

}  // namespace prime::coordinator
