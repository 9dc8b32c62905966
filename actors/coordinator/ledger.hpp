// Owns the order between what the coordinator decides, what it has written down, and what it tells (law 8): the machines go on deciding
// while a disk or a store writes, and whatever follows from a decision waits for that alone. Pure.
//
// One entry is written at a time; the next one takes all that was decided meanwhile, of which only the newest snapshot is needed. A
// heartbeat's answer waits for nothing, so that no peer takes a slow disk for a dead coordinator.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator {

/// Written in one piece, the decisions first: a line of the journal tells nothing that is not decided.
struct Entry {
  std::optional<Snapshot> decided;
  std::vector<JournalEvent> events;

  [[nodiscard]] bool empty() const { return !decided && events.empty(); }
};

struct WriteEntry {
  Entry entry;
};
/// What is left of the machines' effects.
using Action = std::variant<WriteEntry, Send, Fence, LookFor, Finish, Probe>;

struct Ledger {
  Duration limit{};              ///< one entry may take so long
  std::optional<Instant> since;  ///< the entry that is being written
  Instant decided_at{};          ///< the oldest of what that holds
  std::vector<Action> held;      ///< until that is written
  Entry next;
  Instant next_decided_at{};
  std::vector<Action> held_next;  ///< until `next` is written, too

  [[nodiscard]] bool is_writing() const { return since.has_value(); }
};

/// One entry may take as long as peers look for a coordinator that is gone, and this at least.
inline constexpr Duration LEAST_LEDGER_LIMIT = 10s;
[[nodiscard]] Ledger open_ledger(const membership::Options& options);
/// What may be done now of what was decided.
[[nodiscard]] std::vector<Action> record(Ledger& ledger, std::optional<Snapshot> decided, Effects effects, Instant now);
/// The entry that was being written is written.
[[nodiscard]] std::vector<Action> written(Ledger& ledger, Instant now);
/// A peer greets over a new connection. What was decided for it before, and is not told yet, was for the one that broke: what of it still
/// holds, and what that one has lost, the machine tells in answer to the greeting, and in order.
void forget(Ledger& ledger, PeerId peer);
/// Time has passed, and the machine hears since when nobody hears what it decides.
[[nodiscard]] Tick tick(const Ledger& ledger, Instant now);
/// Why this coordinator has to end on the spot: its decisions may never be kept, and nobody is told of them.
[[nodiscard]] std::optional<Error> overdue(const Ledger& ledger, Instant now);

}  // namespace prime::coordinator
