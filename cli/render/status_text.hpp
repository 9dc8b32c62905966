// Owns how a run's status is shown to people.
#pragma once

#include <span>
#include <string>

#include "cli/render/style.hpp"
#include "runtime/telemetry/run_observer.hpp"

namespace prime::cli {

/// One run with its peers.
/// `peers`: those of this machine, which tell what else is saved here.
std::string status_text(const telemetry::RunStatus& status, const Style& style, std::span<const telemetry::PeerJournal> peers = {});
/// The path, and of what it is where that is not the whole model; empty when there is none.
std::string checkpoint_text(const telemetry::RunStatus& status, std::span<const telemetry::PeerJournal> peers);
/// Of a wait: " (since 09:30:00Z, until 09:32:00Z)".
std::string span_of(const telemetry::WaitStatus& wait);

}  // namespace prime::cli
