// Owns the view as rows and columns: a row is a replica, by rank, and a column the peers that hold the same shard. Peers are told of their
// own column, which reduces among itself. Without shards there is one column, which is the view.
#pragma once

#include <span>

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator {

/// Replicas in the view.
[[nodiscard]] inline std::size_t replicas(const State& state) { return state.view.members.size() / state.options.shards; }

/// The peers of one, by shard.
[[nodiscard]] inline std::span<const Member> replica_at(const State& state, std::size_t rank) {
  return std::span{state.view.members.list()}.subspan(rank * state.options.shards, state.options.shards);
}

[[nodiscard]] inline std::uint32_t rank_of(const State& state, PeerId member) {
  const auto& members = state.view.members;
  return static_cast<std::uint32_t>(std::ranges::find(members, member, &Member::id) - members.begin()) / state.options.shards;
}

/// How many replicas there are to all of whose peers this applies.
template <class Predicate>
[[nodiscard]] std::size_t count_replicas(const State& state, Predicate predicate) {
  std::size_t count = 0;
  for (std::size_t rank = 0; rank < replicas(state); ++rank) count += std::ranges::all_of(replica_at(state, rank), predicate, &Member::id);
  return count;
}

/// Every `shards`-th of a list that has the peers of each replica by shard.
template <class T>
[[nodiscard]] SharedList<T> column_of(const SharedList<T>& list, std::uint32_t shard, std::uint32_t shards) {
  if (shards == 1) return list;
  std::vector<T> column;
  for (std::size_t at = shard; at < list.size(); at += shards) column.push_back(list[at]);
  return column;
}

/// As this member is told of it. It is made once for all of a column.
[[nodiscard]] inline const View& view_for(State& state, PeerId member) {
  if (state.options.shards == 1) return state.view;
  const auto shard = state.peers.at(member).hello.shard;
  auto& column = state.columns[shard];
  if (column.epoch != state.view.epoch || column.members.size() != replicas(state))  // within an epoch members only come
    column = {state.view.epoch, column_of(state.view.members, shard, state.options.shards)};
  return column;
}

}  // namespace prime::coordinator
