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

/// As a sentence has them.
std::string names(const std::vector<std::string>& list);
void set_phase(State& state, Phase phase, Instant now);
/// How many members end the wait for peers: the first step begins with all that were asked for.
std::uint32_t quorum_of_members(const State& state);
/// What the run waits for at this moment, whom, and until when; empty when it is at work.
std::string waiting_for(const State& state, Instant now);

}  // namespace prime::coordinator
