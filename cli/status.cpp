// Owns `primectl status`.
#include <algorithm>
#include <optional>
#include <poll.h>
#include <set>

#include "cli/commands.hpp"
#include "cli/going_on.hpp"
#include "cli/observing.hpp"
#include "cli/patience.hpp"
#include "cli/programs.hpp"
#include "cli/render/join_line.hpp"
#include "cli/render/shell_word.hpp"
#include "cli/render/status_text.hpp"
#include "cli/terminal.hpp"
#include "runtime/launch/run_directory.hpp"
#include "runtime/telemetry/error_text.hpp"
#include "runtime/telemetry/journal_watch.hpp"
#include "runtime/telemetry/run_choice.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/run_observer.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

namespace fs = std::filesystem;

std::string rendered(const telemetry::RunStatus& status, const telemetry::RunObserver& observer, const Terminal& terminal) {
  return terminal.json() ? telemetry::dump(telemetry::to_json(status)) + "\n"
                         : status_text(status, terminal.style(), observer.local_peers());
}

/// `status --check`: it was answered, and something is wrong.
constexpr int UNHEALTHY = 5;

int health(bool check, const telemetry::RunStatus& run) {
  const bool well = run.state == telemetry::RunState::Training || run.state == telemetry::RunState::Standby ||
                    run.state == telemetry::RunState::Done || run.state == telemetry::RunState::Stopped ||
                    run.state == telemetry::RunState::Left;
  return !check || well ? 0 : UNHEALTHY;
}

/// The invite that `up` printed leads to the machine that had the coordinator before.
void tell_new_invite(const telemetry::RunStatus& status, const fs::path& directory, Terminal& terminal) {
  if (terminal.json() || !status.took_over || is_over(status.state)) return;
  const auto invite = launch::read_invite(directory);
  auto shared = launch::read_manifest(directory);
  if (!invite || !shared) return;
  const manifest::Manifest manifest{*std::move(shared), {}};
  terminal.print("\njoin it here" +
                 (lacks_trainer(manifest) ? ", with your own trainer for " + std::string{OWN_TRAINER} + "," : std::string{}) + " by\n\n  " +
                 join_line(typed_program(), *invite, manifest) + "\n");
}

/// Whether the same peer, as it is, would be taken again: what must be changed first, its own words say.
bool may_come_back(const telemetry::PeerStatus& peer) {
  const auto cause = telemetry::parse_error_text(peer.reason);
  const auto klass = cause ? info(cause->name).klass : ErrorClass::Rejoin;
  return peer.state == telemetry::PeerState::Lost && klass != ErrorClass::User && klass != ErrorClass::Fatal;
}

/// Whose agent is gone from this machine starts nothing any more; of another machine's only its silence is known.
bool comes_back_by_itself(const telemetry::PeerStatus& peer, const std::vector<telemetry::PeerJournal>& here) {
  const auto local = std::ranges::find(here, peer.id, [](const telemetry::PeerJournal& each) { return each.status.id; });
  return local == here.end() || telemetry::is_alive(local->agent);
}

/// Of those who are lost to a run that goes on, by name; who is there again under that name, or left since, is not.
void tell_way_back(const telemetry::RunStatus& status, const telemetry::RunObserver& observer, Terminal& terminal) {
  const auto& directory = observer.directory();
  if (terminal.json() || is_over(status.state) || !status.coordinator_here) return;
  std::set<std::string> lost;
  bool by_itself = false;
  for (const auto& peer : status.peers)
    if (may_come_back(peer)) by_itself |= comes_back_by_itself(peer, observer.local_lives());
  for (const auto& peer : status.peers)
    if (may_come_back(peer)) lost.insert(peer.replica.empty() ? peer.name : peer.replica);
  for (const auto& peer : status.peers)
    if (peer.state != telemetry::PeerState::Lost) lost.erase(peer.replica.empty() ? peer.name : peer.replica);
  const auto invite = launch::read_invite(directory);
  auto shared = launch::read_manifest(directory);
  if (lost.empty() || !invite || !shared) return;
  const manifest::Manifest manifest{*std::move(shared), {}};
  auto line = join_line(typed_program(), *invite, manifest);
  const bool one = lost.size() == 1;
  line += (manifest.shared.membership.shards > 1 ? " --replica " : " --name ") + (one ? shell_word(*lost.begin()) : "NAME");
  std::string names;
  for (const auto& name : lost) names += (names.empty() ? "" : ", ") + harmless(name);
  const std::string how = by_itself
                              ? one ? " is lost, and may come back by itself; else, on its machine, by"
                                    : " are lost, and may come back by themselves; else, each on its machine and with its own settings, by"
                          : one ? " is lost, and its process is gone; a new peer takes its place by"
                                : " are lost, and their processes are gone; new peers take their places, each by";
  terminal.print("\n" + names + how + "\n\n  " + line + "\n");
}

/// Whoever finds a run that has failed wants to go on from what is saved of it.
void tell_way_on(const telemetry::RunStatus& status, const fs::path& directory, const StatusArguments& arguments, Terminal& terminal) {
  if (terminal.json() || status.state != telemetry::RunState::Failed || !status.checkpoint) return;
  terminal.print(text_of(way_on(directory, *status.checkpoint, arguments.common.state_dir)));
}

/// A page anew on a terminal; in a pipe an object or a line for each change.
class Shown {
 public:
  Shown(Terminal& terminal, const telemetry::RunObserver& observer) : terminal_(terminal), observer_(observer) {}

  /// False: nobody reads it any more.
  bool show(const telemetry::RunStatus& status) {
    if (terminal_.json()) return terminal_.print(rendered(status, observer_, terminal_));
    if (terminal_.is_terminal()) return terminal_.print_page(rendered(status, observer_, terminal_));
    const auto line = lines_.next(status, terminal_.style());
    return !line || terminal_.print(*line);
  }

 private:
  Terminal& terminal_;
  const telemetry::RunObserver& observer_;
  ChangeLines lines_;
};

int watch(const StatusArguments& arguments, Terminal& terminal, const fs::path& directory) {
  telemetry::RunObserver observer{directory};
  telemetry::JournalWatch changes{directory};
  Shown page{terminal, observer};
  std::optional<telemetry::RunStatus> shown;
  for (;;) {
    changes.rearm();
    observer.update();
    auto status = observer.status();
    if (status != shown) {
      if (!page.show(status)) return 0;
      if (!shown) warn_of_damage(terminal, observer);
      shown = std::move(status);
    }
    // First: open journals are readable to their end after they were removed, and that end may be due to the removal.
    if (telemetry::is_gone(directory)) return terminal.complain(telemetry::state_gone(directory));
    if (is_over(shown->state)) return health(arguments.check, *shown);
    pollfd watched{changes.descriptor(), POLLIN, 0};
    ::poll(&watched, 1, LOOK_AGAIN_MS);
  }
}

}  // namespace

int run_command(const StatusArguments& arguments, Terminal& terminal) {
  const auto directory = chosen_run(arguments.common.state_dir, arguments.run, terminal);
  if (!directory) return terminal.complain(directory.error());
  if (arguments.watch) return watch(arguments, terminal, *directory);
  telemetry::RunObserver observer{*directory};
  look_at(observer, terminal);
  const auto status = observer.status();
  terminal.print(rendered(status, observer, terminal));
  tell_new_invite(status, *directory, terminal);
  tell_way_back(status, observer, terminal);
  tell_way_on(status, *directory, arguments, terminal);
  return health(arguments.check, status);
}

}  // namespace prime::cli
