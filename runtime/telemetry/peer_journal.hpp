// Owns the fold of one peer's journal: what this peer says of itself. Pure.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "messages/events.hpp"
#include "runtime/telemetry/memory_kills.hpp"
#include "runtime/telemetry/run_status.hpp"

namespace prime::telemetry {

/// Their directories are named step-N, with leading zeros. 0 for what is none.
std::uint64_t step_of_checkpoint(const std::filesystem::path& checkpoint);

struct PeerJournal {
  PeerStatus status;
  ProcessIdentity agent;
  std::optional<MemoryKills> kills_before;  ///< when the agent began; of this start of this machine only
  std::string run;
  std::optional<std::string> begun;  ///< as its first line tells the time
  std::string instead_of;            ///< the peer in whose place it takes part; empty: of nobody
  bool ended = false;                ///< the agent wrote its last line
  std::uint64_t revision = 0;        ///< of the state that it holds, as far as its whole steps tell
  bool entered = false;              ///< it was sent for the state, or trained
  bool refused = false;              ///< it ended because it is none of the run's, and never entered
  bool run_done = false;             ///< it heard that all outer steps are committed
  std::optional<std::uint64_t> exit_code;
  std::optional<std::string> checkpoint;  ///< the last one that it wrote
  std::string fresh;                      ///< why its trainer does not go on with what was saved for it; empty: it does, or nothing was
  bool no_room = false;                   ///< its disk is full, so that the journal may lack its last lines; not from the journal
  bool saving = false;                    ///< what it holds, before it ends
  std::optional<std::string> problem;     ///< why there is none of its last state
  std::optional<WaitStatus> absence;      ///< of the coordinator, while this peer looks for it
  std::string shortage;                   ///< why it can open no file and no connection; empty while it can
  std::string lacks;                      ///< of its replica, "shard 1", as long as it waits for that

  /// The next event, and the time that its line tells.
  void apply(const JournalEvent& event, std::string_view time);
};

/// Whether the step that a peer holds, which has not ended, is saved neither by it nor by another one of these, as far as their journals
/// tell; in a run that is done it is.
bool holds_only_copy(const PeerJournal& peer, std::span<const PeerJournal> all);

}  // namespace prime::telemetry
