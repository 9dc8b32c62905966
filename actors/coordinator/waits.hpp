// Owns what the coordinator waits for: whom, for how many, and how it says so.
#pragma once

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator {

/// The names of the members to whom it applies, in rank order.
template <class Predicate>
std::vector<std::string> members_who(const State& state, Predicate predicate) {
  std::vector<std::string> list;
  for (const auto& member : state.view.members)
    if (predicate(state.peers.at(member.id))) list.push_back(member.name);
  return list;
}

/// More would make a line of the journal that nobody reads, for each of a thousand peers that is ready.
inline constexpr std::size_t MAX_NAMES = 8;
/// As a sentence has them: "a, b", or the first ones "and 3 more".
std::string names(const std::vector<std::string>& list);
void set_phase(State& state, Phase phase, Instant now);
/// How many members end the wait for peers: the first step begins with all that were asked for.
std::uint32_t quorum_of_members(const State& state);
/// What the run waits for at this moment, whom, and until when; empty when it is at work.
std::string waiting_for(const State& state, Instant now);

}  // namespace prime::coordinator
