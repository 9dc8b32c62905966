// Owns `primectl remove`: the files of runs that have ended, checkpoints with them.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <unistd.h>

#include "cli/commands.hpp"
#include "cli/observing.hpp"
#include "cli/render/figures.hpp"
#include "cli/terminal.hpp"
#include "runtime/store/atomic_file.hpp"
#include "runtime/telemetry/run_choice.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

namespace fs = std::filesystem;

struct Kept {
  std::string run;
  Error why;
};

/// What is to go, and what was meant and stays.
struct Choice {
  std::vector<fs::path> removed;
  std::vector<Kept> kept;
  std::uint64_t bytes = 0;
};

/// Nothing of it may run here, whatever its journals say of its state.
bool runs_here(const telemetry::RunObserver& observer) {
  if (telemetry::is_alive(observer.run().coordinator) || telemetry::is_alive(observer.run().guard)) return true;
  const auto peers = observer.local_peers();
  return std::any_of(peers.begin(), peers.end(), [](const telemetry::PeerJournal& peer) { return telemetry::is_alive(peer.agent); });
}

/// Why a run must not go; of an observer that is settled.
std::optional<Error> reason_to_keep(const telemetry::RunObserver& observer) {
  const auto run = observer.directory().filename().string();
  if (runs_here(observer)) return Error{ErrorName::Usage, run + " still runs here; `primectl down " + run + "` ends it"};
  return telemetry::lives_elsewhere(observer);
}

/// All are looked at before the first is removed: a wrong name costs nothing.
Result<Choice> named(const fs::path& root, const std::vector<std::string>& names, Terminal& terminal) {
  Choice choice;
  for (const auto& name : names) {
    PRIME_TRY(auto directory, telemetry::find_run(root, name));
    telemetry::RunObserver observer{directory};
    observer.settle(says_that_it_watches(terminal));
    if (auto why = reason_to_keep(observer)) return fail(*std::move(why));
    choice.removed.push_back(std::move(directory));
  }
  return choice;
}

/// By the last line of its journals: what has none of a known time is never old.
bool is_older(const fs::path& run, Duration age) {
  const auto last = telemetry::last_written(run);
  return last && fs::file_time_type::clock::now() - *last > age;
}

Choice all_that_ended(const fs::path& root, std::optional<Duration> age, Terminal& terminal) {
  auto runs = telemetry::list_runs(root);
  if (age) std::erase_if(runs, [&](const fs::path& run) { return !is_older(run, *age); });
  Choice choice;
  for (const auto& observer : telemetry::observe(runs, says_that_it_watches(terminal)))
    if (auto why = reason_to_keep(observer)) choice.kept.push_back({observer.directory().filename().string(), *std::move(why)});
    else choice.removed.push_back(observer.directory());
  for (const auto& run : choice.removed) choice.bytes += telemetry::size_of_files(run);
  return choice;
}

/// Usage where nobody can be asked.
Result<bool> agreed(const Choice& choice, Terminal& terminal) {
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDERR_FILENO) != 1)
    return fail(ErrorName::Usage, "nobody can be asked here, which is no terminal: `--yes` removes " +
                                      plural(choice.removed.size(), "run") + ", " + bytes_figure(choice.bytes));
  for (const auto& run : choice.removed) terminal.complain("  " + run.filename().string() + "\n");
  terminal.complain("remove " + plural(choice.removed.size(), "run") + ", " + bytes_figure(choice.bytes) +
                    ", checkpoints with them? [y/N] ");
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

int remove_chosen(Choice choice, Terminal& terminal) {
  auto removed = nlohmann::ordered_json::array();
  int exit_code = 0;
  for (const auto& directory : choice.removed) {
    const auto run = directory.filename().string();
    // Once more: somebody may have thought about it for long.
    telemetry::RunObserver observer{directory};
    observer.settle();
    if (auto why = reason_to_keep(observer)) choice.kept.push_back({run, *std::move(why)});
    else if (const auto done = store::remove_directory_atomically(directory); !done) exit_code = terminal.complain(done.error());
    else removed.push_back(run);
  }
  auto kept = nlohmann::ordered_json::array();
  for (const auto& [run, why] : choice.kept) kept.push_back({{"run_id", run}, {"reason", to_string(why)}});
  if (terminal.json()) {
    terminal.print(telemetry::dump({{"schema", "primectl.remove/1"}, {"removed", removed}, {"kept", kept}}) + "\n");
    return exit_code;
  }
  for (const auto& run : removed) terminal.print("removed " + run.get<std::string>() + "\n");
  for (const auto& [run, why] : choice.kept) terminal.print("kept " + run + ": " + why.detail + "\n");
  if (removed.empty() && choice.kept.empty() && exit_code == 0) terminal.print("nothing to remove\n");
  return exit_code;
}

}  // namespace

int run_command(const RemoveArguments& arguments, Terminal& terminal) {
  const auto root = telemetry::existing_state_root(arguments.common.state_dir);
  if (!root) return terminal.complain(root.error());
  auto choice = arguments.runs.empty() ? all_that_ended(*root, arguments.older, terminal) : named(*root, arguments.runs, terminal);
  if (!choice) return terminal.complain(choice.error());
  if (arguments.runs.empty() && !arguments.yes && !choice->removed.empty()) {
    const auto answer = agreed(*choice, terminal);
    if (!answer) return terminal.complain(answer.error());
    if (!*answer) {
      terminal.say("Kept", "all of them", Role::Plain);
      if (!terminal.json()) return 0;
      choice->removed.clear();
    }
  }
  return remove_chosen(*std::move(choice), terminal);
}

}  // namespace prime::cli
