// Owns the fold of a coordinator's journal: event by event to what the run is. Pure; whether processes live is asked elsewhere.
#pragma once

#include <optional>
#include <set>
#include <string_view>

#include "messages/events.hpp"
#include "runtime/telemetry/memory_kills.hpp"
#include "runtime/telemetry/run_status.hpp"

namespace prime::telemetry {

struct RunJournal {
  RunStatus status;
  std::optional<std::string> begun;  ///< the first coordinator here, as its line tells the time
  ProcessIdentity coordinator;
  std::optional<MemoryKills> kills_before;  ///< when the coordinator began; of this start of this machine only
  ProcessIdentity guard;  ///< starts the coordinator again when it was killed; none where a program serves the run by itself
  bool ended = false;     ///< the coordinator wrote its last line
  /// What was known before that line, where it ended no run: its guard may yet start another one.
  std::optional<RunStatus> before_the_end;
  /// What ended a coordinator before the run's end, for as long as none has come to serve it, or to stand by, since.
  std::optional<std::string> obstacle;

  std::string shortage;              ///< why the coordinator can open no file and no connection; empty while it can
  std::set<PeerId> ready;            ///< members that have contributed to the step that is under way
  std::set<std::uint64_t> reducing;  ///< fragments with an operation in flight
  std::string data_differs;          ///< in what the data differs from that of the run that this one goes on from

  std::optional<WaitStatus> unwritten;  ///< the disk or store that takes no entry of the ledger; not from the journal

  /// The next event, and the time that its line tells.
  void apply(const JournalEvent& event, std::string_view time);
};

}  // namespace prime::telemetry
