// Owns `primectl leave`: peers of this machine say goodbye to their run.
#include <algorithm>
#include <optional>

#include "cli/commands.hpp"
#include "cli/end_report.hpp"
#include "cli/going_on.hpp"
#include "cli/observing.hpp"
#include "cli/saving_watch.hpp"
#include "cli/terminal.hpp"
#include "runtime/launch/stop_processes.hpp"
#include "runtime/telemetry/run_choice.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/run_observer.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

constexpr Duration PATIENCE{30s};

/// Who is called exactly so, or else whoever's name or id begins so.
std::vector<telemetry::PeerJournal> running_peers(const telemetry::RunObserver& observer, const std::string& who) {
  auto peers = observer.local_peers();
  std::erase_if(peers, [&](const telemetry::PeerJournal& peer) {
    const bool meant = peer.status.name.starts_with(who) || peer.status.id.starts_with(who) || peer.status.replica == who;
    return !meant || peer.ended || !telemetry::is_alive(peer.agent);
  });
  const auto differs = [&](const telemetry::PeerJournal& peer) {
    return peer.status.name != who && peer.status.id != who && (who.empty() || peer.status.replica != who);
  };
  if (!std::all_of(peers.begin(), peers.end(), differs)) std::erase_if(peers, differs);
  return peers;
}

/// The first of the peers that are meant and run where only their files are seen from here.
std::optional<Error> meant_elsewhere(const std::string& run, const telemetry::RunObserver& observer, const std::string& who) {
  for (const auto& foreign : observer.foreign())
    if (!foreign.coordinator && (foreign.what.starts_with(who) || foreign.peer.starts_with(who)))
      return Error{ErrorName::RunElsewhere, foreign.what + " of " + run + " runs " + telemetry::place_text(foreign.process.place) +
                                                "; `primectl leave " + foreign.what + "` there has it leave"};
  return std::nullopt;
}

Result<std::vector<telemetry::PeerJournal>> choose(const std::string& run, const telemetry::RunObserver& observer, const std::string& who) {
  auto peers = running_peers(observer, who);
  if (peers.empty()) {
    if (auto elsewhere = meant_elsewhere(run, observer, who)) return fail(*std::move(elsewhere));
    return fail(ErrorName::PeerUnknown, (who.empty() ? std::string{"none"} : "none called `" + who + "`") + " of " + run + " runs here");
  }
  // The name of a replica means all its peers.
  const bool replica =
      std::all_of(peers.begin(), peers.end(), [&](const telemetry::PeerJournal& peer) { return peer.status.replica == who; });
  if (!who.empty() && peers.size() > 1 && !replica) {
    std::string names;
    for (const auto& peer : peers) names += (names.empty() ? "" : ", ") + peer.status.name + " (" + peer.status.id + ")";
    return fail(ErrorName::Usage, "several peers match `" + who + "`: " + names + "; name one by its id");
  }
  return peers;
}

bool nobody_is_left(const telemetry::RunStatus& status) {
  return std::ranges::all_of(status.peers, [](const telemetry::PeerStatus& peer) { return telemetry::is_gone(peer.state); });
}

}  // namespace

int run_command(const LeaveArguments& arguments, Terminal& terminal) {
  const auto a_run = names_a_run(arguments.common.state_dir, arguments.peer, "leave --run");
  const auto directory = chosen_run(arguments.common.state_dir, arguments.run, terminal);
  if (!directory) return terminal.complain(a_run ? *a_run : directory.error());
  telemetry::RunObserver observer{*directory};
  look_at(observer, terminal);
  const auto run = directory->filename().string();
  const auto peers = choose(run, observer, arguments.peer);
  if (!peers) return terminal.complain(a_run && peers.error().name == ErrorName::PeerUnknown ? *a_run : peers.error());
  std::vector<telemetry::ProcessIdentity> agents;
  auto names = nlohmann::ordered_json::array();
  for (const auto& peer : *peers) {
    agents.push_back(peer.agent);
    names.push_back(peer.status.name);
    terminal.say("Leaving", peer.status.name);
  }
  if (launch::stop_processes(agents, launch::StopLimits{PATIENCE, -1, false, SavingWatch{observer, terminal, ""}}) > 0) {
    std::string stubborn;
    for (const auto& peer : *peers)
      if (telemetry::is_alive(peer.agent)) stubborn += (stubborn.empty() ? "" : ", ") + peer.status.name;
    return terminal.complain(Error{ErrorName::DeadlineExceeded, "still here after " + format_duration(PATIENCE) + ": " + stubborn});
  }
  observer.update();
  std::optional<std::string> saved;  // by the last of a run, which ends it
  for (const auto& peer : observer.local_peers()) {
    if (std::none_of(agents.begin(), agents.end(), [&](const auto& agent) { return agent == peer.agent; })) continue;
    const bool holds_last = peer.checkpoint && telemetry::step_of_checkpoint(*peer.checkpoint) >= peer.status.outer_step.value_or(0);
    if (holds_last && nobody_is_left(observer.status())) saved = peer.checkpoint;
    if (peer.problem)
      return terminal.complain(Error{ErrorName::StorageFailed, peer.status.name + " could not save the state: " + *peer.problem});
  }
  if (terminal.json()) terminal.print(telemetry::dump({{"schema", "primectl.leave/1"}, {"run_id", run}, {"left", names}}) + "\n");
  else
    for (const auto& name : names) terminal.print(name.get<std::string>() + " left " + run + "\n");
  if (saved && !terminal.json()) terminal.print(text_of(way_on(*directory, *saved, arguments.common.state_dir)));
  return say_what_is_lost(observer, terminal) ? 1 : 0;
}

}  // namespace prime::cli
