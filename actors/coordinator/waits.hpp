// Owns what the coordinator waits for: whom, for how many, and how it says so.
#pragma once

#include <type_traits>

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

/// Asks about a member: about its seat, its work in the current round, both, or its duty in the end.
template <class Predicate>
bool applies(const State& state, PeerId member, Predicate predicate) {
  if constexpr (std::is_invocable_v<Predicate, const Peer&>) return predicate(state.peers.at(member));
  else if constexpr (std::is_invocable_v<Predicate, const Work&>) return predicate(state.round().work.at(member));
  else if constexpr (std::is_invocable_v<Predicate, const Peer&, const Work&>)
    return predicate(state.peers.at(member), state.round().work.at(member));
  else return predicate(duty_of(state, member));
}

/// The members to whom it applies, in rank order.
template <class Predicate>
Named members_who(const State& state, Predicate predicate) {
  Named list;
  for (const auto& member : state.view.members) {
    if (!applies(state, member.id, predicate)) continue;
    list.add(member.name);
  }
  return list;
}

/// Replicas that are members, or would be if there were a quorum.
[[nodiscard]] std::size_t caught_up(const State& state);
/// What is missing before a run can go on: peers of replicas, and shards of a step that it was rolled back to; empty where nothing is.
[[nodiscard]] std::string incomplete(const State& state);
/// Whether an operation in flight still lacks its vote.
[[nodiscard]] bool lacks_vote(const State& state, PeerId member);
/// Since when the oldest operation in flight is.
[[nodiscard]] Instant reducing_since(const State& state);
void set_phase(State& state, Phase phase, Instant now);
/// How many members end the wait for peers: the first step begins with all that were asked for.
std::uint32_t quorum_of_members(const State& state);
/// The joiner for which the next reduce waits: it was overtaken too often; empty when there is none.
std::optional<PeerId> held_for(const State& state, Instant now);
Wait wait_of(const State& state, Instant now);

}  // namespace prime::coordinator
