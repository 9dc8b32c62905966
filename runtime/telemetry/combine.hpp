// Owns the picture of a run that its journals on this machine give together. Pure.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "runtime/telemetry/peer_journal.hpp"
#include "runtime/telemetry/run_journal.hpp"

namespace prime::telemetry {

/// How the reason of a run begins whose coordinator is gone without a word.
inline constexpr std::string_view COORDINATOR_LOST = "the coordinator was lost";

/// What the journals say together. Where the coordinator's view and a local process disagree, what can be checked here wins:
/// `alive` tells whether a process still runs.
RunStatus combine(const RunJournal& run, const std::vector<PeerJournal>& local, const std::function<bool(const ProcessIdentity&)>& alive);

}  // namespace prime::telemetry
