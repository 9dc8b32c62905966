// Owns what one peer has moved of a reduce or of a state fetch: slow is not dead. A transfer is overdue when nothing of it has moved for
// long, however long it lasts in all.
#pragma once

#include <string>

#include "actors/membership/roster.hpp"

namespace prime::membership {

/// One peer's share of the reduce, or its fetch.
struct Transfer {
  const Peer* peer = nullptr;
  std::uint64_t moved_bytes = 0;   ///< sent and received so far, as its last heartbeat had it
  std::uint64_t needed_bytes = 0;  ///< about: frames and what is sent again are not counted
  Duration elapsed{};

  [[nodiscard]] std::uint64_t bytes_per_s() const;
};

/// A reduce or a fetch of this peer begins.
void begin_transfer(Peer& peer, Instant now);
/// As a heartbeat says.
void note_moved(Peer& peer, std::uint64_t moved_bytes, Instant now);
[[nodiscard]] Transfer transfer_of(const Peer& peer, std::uint64_t needed_bytes, Instant now);
[[nodiscard]] Transfer of_fetch(const Roster& roster, const Peer& peer, Instant now);
/// So long may nothing move: `sync.deadline`, later than peers judge it by their own clocks and name a suspect, and beside it the time
/// for work on a state of this size.
[[nodiscard]] Duration transfer_limit(const Roster& roster);
[[nodiscard]] bool fetch_stands_still(const Roster& roster, const Peer& peer, Instant now);
/// For people: "c has moved 3.1 MiB of about 13.6 MiB in 40.0 s, 79.4 KiB/s"
[[nodiscard]] std::string to_string(const Transfer& transfer);

}  // namespace prime::membership
