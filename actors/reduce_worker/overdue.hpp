// Owns whom a rank names that has missed its deadline in a reduce without a vote. Pure. With a vote the ranks ask each other
// (vote_machine.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "actors/ports.hpp"
#include "messages/data_types.hpp"

namespace prime {

/// What a rank knows of another one when the deadline comes.
struct Awaited {
  bool begun = false;     ///< something of the operation has come from it
  bool holds_up = false;  ///< the next chunk that is to be combined here lacks its input
  bool owes = false;      ///< inputs or results
  bool takes = true;      ///< nothing that is there for it waits to be sent
  Instant last_heard{};
};

/// Of those who keep this rank waiting the one that has been silent for longest; nobody when that cannot be told. `others` is in rank
/// order; the own rank, among them, neither owes nor is owed anything.
///
/// Who has not begun comes first. An input without which nothing here goes on is its sender's own fault, while a result may be late because
/// its owner waits for others. Who owes nothing, but does not take what is there for it, is named when nobody owes anything. In a ring
/// those behind one that stands still wait as it seems to: only one that has not begun is named.
std::optional<std::uint32_t> most_overdue(Schedule schedule, std::span<const Awaited> others);

}  // namespace prime
