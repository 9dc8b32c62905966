// Owns `primectl down`: everything of a run that runs on this machine ends, peers first.
#include "cli/commands.hpp"
#include "cli/journal_warnings.hpp"
#include "cli/terminal.hpp"
#include "runtime/launch/stop_processes.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/run_observer.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

constexpr Duration PEER_PATIENCE{20s};
constexpr Duration COORDINATOR_PATIENCE{10s};

}  // namespace

int run_command(const DownArguments& arguments, Terminal& terminal) {
  const auto root = telemetry::existing_state_root(arguments.common.state_dir);
  if (!root) return terminal.complain(root.error());
  const auto directory = telemetry::select_run(*root, arguments.run);
  if (!directory) return terminal.complain(directory.error());
  telemetry::RunObserver observer{*directory};
  observer.update();
  warn_of_damage(terminal, observer);
  std::vector<telemetry::ProcessIdentity> agents;
  for (const auto& peer : observer.local_peers())
    if (!peer.ended && telemetry::is_alive(peer.agent)) agents.push_back(peer.agent);
  const bool coordinator_runs = !observer.run().ended && telemetry::is_alive(observer.run().coordinator);
  auto killed = launch::stop_processes(agents, launch::StopLimits{PEER_PATIENCE});
  if (coordinator_runs) killed += launch::stop_processes(std::vector{observer.run().coordinator}, launch::StopLimits{COORDINATOR_PATIENCE});
  const auto run = directory->filename().string();
  const auto ended = agents.size() + (coordinator_runs ? 1 : 0);
  if (terminal.json()) {
    terminal.print(telemetry::dump({{"schema", "primectl.down/1"}, {"run_id", run}, {"ended", ended}, {"killed", killed}}) + "\n");
  } else {
    terminal.print(ended == 0 ? "nothing of " + run + " runs on this machine\n"
                              : "ended " + std::to_string(agents.size()) + " peers" + (coordinator_runs ? " and the coordinator" : "") +
                                    " of " + run + (killed > 0 ? ", " + std::to_string(killed) + " by force" : "") + "\n");
  }
  return 0;
}

}  // namespace prime::cli
