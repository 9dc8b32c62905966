// Owns how members share the evaluation of one state: each takes a part of the held-out data, and the parts are summed by tokens, so that
// nobody is late because it evaluates for all.
#pragma once

#include <map>

#include "actors/coordinator/columns.hpp"
#include "actors/coordinator/waits.hpp"

namespace prime::coordinator {

/// Equal parts for the members to whom it applies, in rank order. The peers of a replica evaluate one part together.
template <class Predicate>
std::map<PeerId, HeldOutShare> shares_of(const State& state, Predicate predicate) {
  std::map<PeerId, HeldOutShare> shares;
  std::uint32_t count = 0;
  for (std::size_t rank = 0; rank < replicas(state); ++rank) {
    const auto replica = replica_at(state, rank);
    if (!applies(state, replica.front().id, predicate)) continue;
    for (const auto& member : replica) shares[member.id].index = count;
    ++count;
  }
  for (auto& [id, share] : shares) share.of = count;
  return shares;
}

/// Whether the members evaluate the state that the current step begins with.
[[nodiscard]] bool evaluates_step(const State& state);

/// Adds parts of one evaluation.
class HeldOutSum {
 public:
  void add(const HeldOutLoss& part);
  /// 0 tokens when no part had any.
  [[nodiscard]] HeldOutLoss loss() const;

 private:
  double sum_ = 0;
  std::uint64_t tokens_ = 0;
};

}  // namespace prime::coordinator
