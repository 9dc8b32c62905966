#include "runtime/telemetry/run_status.hpp"

#include <algorithm>
#include <chrono>

#include "runtime/store/journal.hpp"

namespace prime::telemetry {

std::string_view to_string(RunState state) {
  switch (state) {
    case RunState::Waiting: return "waiting";
    case RunState::Training: return "training";
    case RunState::Paused: return "paused";
    case RunState::Standby: return "standby";
    case RunState::Done: return "done";
    case RunState::Stopped: return "stopped";
    case RunState::Left: return "left";
    case RunState::Failed: return "failed";
  }
  return "failed";
}

std::string_view to_string(PeerState state) {
  switch (state) {
    case PeerState::Joining: return "joining";
    case PeerState::Fetching: return "fetching";
    case PeerState::Training: return "training";
    case PeerState::Reducing: return "reducing";
    case PeerState::Saving: return "saving";
    case PeerState::Left: return "left";
    case PeerState::Lost: return "lost";
  }
  return "lost";
}

std::string_view to_string(FragmentState state) {
  switch (state) {
    case FragmentState::Committed: return "committed";
    case FragmentState::Collecting: return "collecting";
    case FragmentState::Reducing: return "reducing";
  }
  return "committed";
}

std::optional<std::string> moment(std::string_view time, Duration after) {
  const auto told = store::parse_utc(std::string{time});
  if (!told) return std::nullopt;
  return store::format_utc(*told + std::chrono::duration_cast<std::chrono::milliseconds>(after));
}

std::string short_wait(const RunStatus& status) {
  const auto& what = status.wait.what;
  return status.state != RunState::Waiting || what.empty() ? "" : "waits for " + what.substr(0, what.find_first_of(",;"));
}

bool is_sharded(const RunStatus& status) {
  return status.shards > 1 ||
         std::any_of(status.peers.begin(), status.peers.end(), [](const PeerStatus& peer) { return !peer.replica.empty(); });
}

std::string run_name(std::string_view run_id) { return std::string{run_id.substr(0, run_id.rfind('-'))}; }

}  // namespace prime::telemetry
