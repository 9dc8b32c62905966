// Owns how a run's status is shown to people.
#pragma once

#include <chrono>
#include <optional>
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

/// "brave-otter computes on cpu, since …"; of a peer whose device is known.
std::string device_text(const telemetry::PeerStatus& peer);

/// What the run is at, how far, and since when, after a while without news: "for the final checkpoint, which a writes (since 31s)".
/// `step_since`: UTC, as journals have it, when the step's present phase began.
std::string doing_text(const telemetry::RunStatus& status, const std::string& step_since, std::chrono::system_clock::time_point now);

/// A run for who follows it in a pipe: a line for each change that is worth one.
class ChangeLines {
 public:
  /// The run, how many peers there are in each state, and who came and went since the last call. Nothing when that is as before.
  std::optional<std::string> next(const telemetry::RunStatus& now, const Style& style);

 private:
  telemetry::RunStatus before_;
  std::string last_;  ///< without who came and went
};

}  // namespace prime::cli
