// Owns `primectl down`: everything of a run that runs on this machine ends, and what was trained is saved.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "cli/commands.hpp"
#include "cli/end_report.hpp"
#include "cli/ending_watch.hpp"
#include "cli/going_on.hpp"
#include "cli/interrupts.hpp"
#include "cli/observing.hpp"
#include "cli/patience.hpp"
#include "cli/render/figures.hpp"
#include "cli/saving_watch.hpp"
#include "cli/terminal.hpp"
#include "runtime/agent/processes.hpp"
#include "runtime/launch/run_directory.hpp"
#include "runtime/launch/stop_processes.hpp"
#include "runtime/telemetry/run_choice.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/run_observer.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

/// Whether somebody stands by, perhaps, who has not heard that the run was to end.
bool goes_on_elsewhere(const std::filesystem::path& directory, const telemetry::RunJournal& run) {
  const auto& status = run.status;
  if (run.ended && (status.state == telemetry::RunState::Done || status.state == telemetry::RunState::Stopped)) return false;
  const auto manifest = launch::read_manifest(directory);
  return !status.stands_by_for && manifest && !manifest->membership.standby.etcd.empty();
}

std::string what_ended(std::size_t peers, bool coordinator) {
  if (peers == 0) return "the coordinator";
  return plural(peers, "peer") + (coordinator ? " and the coordinator" : "");
}

}  // namespace

int run_command(const DownArguments& arguments, Terminal& terminal) {
  const auto directory = chosen_run(arguments.common.state_dir, arguments.run, terminal);
  if (!directory) return terminal.complain(directory.error());
  telemetry::RunObserver observer{*directory};
  look_at(observer, terminal);
  std::vector<telemetry::ProcessIdentity> agents;
  for (const auto& peer : observer.local_peers())
    if (!peer.ended && telemetry::is_alive(peer.agent)) agents.push_back(peer.agent);
  // The guard tells it on, and starts no other one.
  const auto& coordinator = telemetry::is_alive(observer.run().guard) ? observer.run().guard : observer.run().coordinator;
  const bool coordinator_runs = telemetry::is_alive(observer.run().guard) || (!observer.run().ended && telemetry::is_alive(coordinator));
  const auto elsewhere = telemetry::lives_elsewhere(observer);
  if (elsewhere && agents.empty() && !coordinator_runs) return terminal.complain(*elsewhere);
  if (elsewhere) terminal.warn("ends what runs here alone: " + elsewhere->detail);
  // The coordinator first: it tells every peer of the run to save what it holds.
  Interrupts interrupts;
  CoordinatorEnd end;
  if (coordinator_runs) end = stop_coordinator(coordinator, observer, terminal, interrupts, " (Ctrl-C: waits no longer)");
  std::size_t killed = end.by_force ? 1 : 0;
  killed += launch::stop_processes(
      agents, launch::StopLimits{PEER_PATIENCE, interrupts.descriptor(), true, SavingWatch{observer, terminal, " (Ctrl-C: ends it now)"}});
  observer.update();
  if (coordinator_runs && goes_on_elsewhere(*directory, observer.run()))
    terminal.warn(
        "etcd was not told that this run ends: another machine may go on with it; `primectl down` on the machine that stands by ends it");
  if (coordinator_runs && !observer.run().ended && end.waits_for.empty())
    note_end(*directory, Error{ErrorName::RunStopped, "by its owner, by force"});
  std::vector<std::string> saved;
  std::vector<Error> unsaved;
  std::set<std::uint64_t> shards;    // that are held here
  std::set<std::uint64_t> complete;  // those of which somebody's checkpoint is of what the run held at its end
  for (const auto& peer : observer.local_peers()) {
    if (std::none_of(agents.begin(), agents.end(), [&](const auto& agent) { return agent == peer.agent; })) continue;
    if (peer.checkpoint) saved.push_back(*peer.checkpoint);
    if (peer.problem) unsaved.emplace_back(ErrorName::StorageFailed, peer.status.name + " could not save its state: " + *peer.problem);
    else if (!peer.ended) unsaved.emplace_back(ErrorName::AgentLost, peer.status.name + " was ended by force and saved nothing");
    else if (peer.checkpoint) complete.insert(peer.status.shard);
    shards.insert(peer.status.shard);
  }
  const bool holds_all = !complete.empty() && complete == shards;
  const auto run = directory->filename().string();
  const bool coordinator_ended = coordinator_runs && end.waits_for.empty();
  const auto ended = agents.size() + (coordinator_ended ? 1 : 0);
  if (terminal.json()) {
    terminal.print(
        telemetry::dump({{"schema", "primectl.down/1"}, {"run_id", run}, {"ended", ended}, {"killed", killed}, {"saved", saved}}) + "\n");
  } else {
    terminal.print(ended == 0 ? "nothing of " + run + " runs on this machine\n"
                              : "ended " + what_ended(agents.size(), coordinator_ended) + " of " + run +
                                    (killed > 0 ? ", " + std::to_string(killed) + " by force" : "") + "\n");
    for (const auto& path : saved) terminal.print((holds_all ? "saved " : "saved before that: ") + path + "\n");
    if (!saved.empty() && !elsewhere) terminal.print(text_of(way_on(*directory, saved.back(), arguments.common.state_dir)));
  }
  int exit_code = coordinator_runs && !coordinator_ended ? info(ErrorName::StorageFailed).exit_code : 0;
  for (const auto& error : unsaved) exit_code = terminal.complain(error);
  if (unsaved.empty() && end.waits_for.empty() && say_what_is_lost(observer, terminal)) exit_code = 1;
  return holds_all && end.waits_for.empty() ? 0 : exit_code;  // every peer of a shard holds the same state: one copy is all that is needed
}

}  // namespace prime::cli
