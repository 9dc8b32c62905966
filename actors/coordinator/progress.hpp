// Owns what peers have moved of a reduce or of a state fetch: slow is not dead. A transfer is overdue when nothing of it has moved for
// long, however long it lasts in all.
#pragma once

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator::progress {

/// One peer's share of the reduce, or its fetch.
struct Transfer {
  const Peer* peer = nullptr;
  std::uint64_t moved_bytes = 0;   ///< sent and received so far, as its last heartbeat had it
  std::uint64_t needed_bytes = 0;  ///< about: frames and what is sent again are not counted
  Duration elapsed{};

  [[nodiscard]] std::uint64_t bytes_per_s() const;
};

/// A reduce or a fetch of this peer begins.
void begin(Peer& peer, Instant now);
/// As a heartbeat says.
void note(Peer& peer, std::uint64_t moved_bytes, Instant now);
/// So long may nothing move: `sync.deadline`, later than peers judge it by their own clocks and name a suspect, and beside it the time
/// for work on a state of this size.
Duration limit(const State& state);
/// Whether nothing of the reduce moves any more.
bool reduce_stands_still(const State& state, Instant now);
bool fetch_stands_still(const State& state, const Peer& peer, Instant now);

Transfer of_fetch(const State& state, const Peer& peer, Instant now);
/// The member without a vote that has moved least.
std::optional<Transfer> least_of_reduce(const State& state, Instant now);
/// For people: "c has moved 3.1 MiB of about 13.6 MiB in 40.0 s, 79.4 KiB/s"
std::string to_string(const Transfer& transfer);
/// What would help after tries that all ended alike; empty before there were enough of them.
std::string advice(const State& state);
/// Now and then, of what lasts.
void tell(State& state, Instant now, std::vector<Effect>& effects);

}  // namespace prime::coordinator::progress
