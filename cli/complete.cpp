// Owns the words that a shell completes with and only this machine's files tell: runs, and peers that run here. Nothing is waited for.
#include <set>

#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/run_observer.hpp"

namespace prime::cli {

int run_command(const CompleteArguments& arguments, Terminal& terminal) {
  const auto root = telemetry::existing_state_root(arguments.common.state_dir);
  if (!root) return 0;  // nobody who types wants to read of it
  std::set<std::string> words;
  for (const auto& directory : telemetry::list_runs(*root)) {
    if (arguments.kind == "runs") words.insert(directory.filename().string());
    if (arguments.kind != "peers") continue;
    telemetry::RunObserver observer{directory};
    observer.update();
    for (const auto& peer : observer.local_peers())
      if (!peer.ended && telemetry::is_alive(peer.agent)) words.insert(peer.status.name);
  }
  for (const auto& word : words) terminal.print(harmless(word) + "\n");
  return 0;
}

}  // namespace prime::cli
