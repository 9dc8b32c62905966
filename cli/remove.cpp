// Owns `primectl remove`: the files of runs that have ended, checkpoints with them.
#include "cli/commands.hpp"
#include "cli/observing.hpp"
#include "cli/terminal.hpp"
#include "runtime/store/atomic_file.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/run_observer.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

/// Nothing of it may run here, whatever its journals say of its state.
bool runs_here(const telemetry::RunObserver& observer) {
  if (telemetry::is_alive(observer.run().coordinator) || telemetry::is_alive(observer.run().guard)) return true;
  const auto peers = observer.local_peers();
  return std::any_of(peers.begin(), peers.end(), [](const telemetry::PeerJournal& peer) { return telemetry::is_alive(peer.agent); });
}

Result<std::filesystem::path> find_ended(const std::filesystem::path& root, const std::string& name, Terminal& terminal) {
  PRIME_TRY(auto directory, telemetry::find_run(root, name));
  telemetry::RunObserver observer{directory};
  observer.settle(says_that_it_watches(terminal));
  const auto run = directory.filename().string();
  if (runs_here(observer)) return fail(ErrorName::Usage, run + " still runs here; `primectl down " + run + "` ends it");
  if (auto elsewhere = telemetry::lives_elsewhere(observer)) return fail(*std::move(elsewhere));
  return directory;
}

}  // namespace

int run_command(const RemoveArguments& arguments, Terminal& terminal) {
  const auto root = telemetry::existing_state_root(arguments.common.state_dir);
  if (!root) return terminal.complain(root.error());
  // All are looked at before the first is removed: a wrong name costs nothing.
  std::vector<std::filesystem::path> directories;
  for (const auto& name : arguments.runs) {
    auto found = find_ended(*root, name, terminal);
    if (!found) return terminal.complain(found.error());
    directories.push_back(*std::move(found));
  }
  auto removed = nlohmann::ordered_json::array();
  for (const auto& directory : directories) {
    if (const auto done = store::remove_directory_atomically(directory); !done) return terminal.complain(done.error());
    removed.push_back(directory.filename().string());
  }
  if (terminal.json()) terminal.print(telemetry::dump({{"schema", "primectl.remove/1"}, {"removed", removed}}) + "\n");
  else
    for (const auto& run : removed) terminal.print("removed " + run.get<std::string>() + "\n");
  return 0;
}

}  // namespace prime::cli
