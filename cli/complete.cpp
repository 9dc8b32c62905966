// Owns the words that a shell completes with and only this machine's files tell: runs, and peers that run here. Nothing is waited for.
#include <set>

#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/run_observer.hpp"

namespace prime::cli {
namespace {

/// `--state-dir` of the line that is being typed, the last word of which is not complete. bash hands `=` over as a word of its own.
std::string typed_state_dir(const std::vector<std::string>& typed) {
  constexpr std::string_view NAME = "--state-dir";
  std::string found;
  for (std::size_t i = 0; i < typed.size(); ++i) {
    const std::string_view word = typed[i];
    if (word == NAME) {
      const auto value = i + 1 + (i + 1 < typed.size() && typed[i + 1] == "=" ? 1 : 0);
      if (value + 1 < typed.size()) found = typed[value];
    } else if (word.starts_with(NAME) && word.size() > NAME.size() && word[NAME.size()] == '=') {
      found = word.substr(NAME.size() + 1);
    }
  }
  return found;
}

}  // namespace

int run_command(const CompleteArguments& arguments, Terminal& terminal) {
  const auto given = typed_state_dir(arguments.typed);
  const auto root = telemetry::existing_state_root(given.empty() ? arguments.common.state_dir : given);
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
