#include "cli/attendance.hpp"

#include <algorithm>
#include <poll.h>

#include "cli/end_report.hpp"
#include "cli/ending_watch.hpp"
#include "cli/going_on.hpp"
#include "cli/patience.hpp"
#include "cli/render/style.hpp"
#include "cli/saving_watch.hpp"
#include "runtime/agent/processes.hpp"
#include "runtime/launch/stop_processes.hpp"
#include "runtime/telemetry/error_text.hpp"
#include "runtime/telemetry/memory_kills.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
Attendance::Attendance(Terminal& terminal, Interrupts& interrupts, launch::StartedRun& run, std::string state_dir, bool may_move)
    : terminal_(terminal),
      interrupts_(interrupts),
      run_(run),
      state_dir_(std::move(state_dir)),
      may_move_(may_move),
      place_(run.directory),
      view_(terminal, run.directory) {}

int Attendance::until_the_end() {
  for (;;) {
    switch (next_turn()) {
      case Turn::Goes: break;
      case Turn::Interrupted: return interrupted();
      case Turn::StateGone: return state_gone();
      case Turn::CoordinatorEnded: return observer_.run().ended ? finish() : coordinator_lost();
      case Turn::Deserted: return deserted();
    }
  }
}

/// Waits for something to happen, shows it, and says what it means.
Attendance::Turn Attendance::next_turn() {
  std::vector<pollfd> watched{pollfd{interrupts_.descriptor(), POLLIN, 0}, pollfd{view_.descriptor(), POLLIN, 0},
                              pollfd{run_.coordinator.pid_descriptor(), POLLIN, 0}};
  for (auto& peer : run_.peers)
    if (!peer.process.reap()) watched.push_back(pollfd{peer.process.pid_descriptor(), POLLIN, 0});
  view_.show_news();
  if (view_.reader_gone()) return Turn::Interrupted;
  ::poll(watched.data(), watched.size(), LOOK_AGAIN_MS);
  if (interrupts_.take()) return Turn::Interrupted;
  // Asked before the journals are read: what a process wrote before its end is then in the picture.
  const bool coordinator_ended = run_.coordinator.reap().has_value();
  const bool agents_ended = all_agents_ended();
  note_move();
  if (place_.removed()) return Turn::StateGone;
  view_.show_news();
  if (coordinator_ended) return Turn::CoordinatorEnded;
  const auto status = observer_.status();
  note_obstacle(status.revision);
  const bool nobody_left = std::all_of(status.peers.begin(), status.peers.end(),
                                       [](const telemetry::PeerStatus& peer) { return telemetry::is_gone(peer.state); });
  return agents_ended && nobody_left && !run_.peers.empty() && !is_over(status.state) ? Turn::Deserted : Turn::Goes;
}

void Attendance::note_obstacle(std::uint64_t revision) {
  if (revision != obstructed_) obstacle_.clear();
  obstructed_ = revision;
  if (auto now = observer_.held_up(); !now.empty()) obstacle_ = std::move(now);
}

void Attendance::note_move() {
  const auto moved = place_.moved();
  if (moved && !moved_) terminal_.say("Waiting", harmless(to_string(*moved)), Role::Degraded);
  moved_ = moved.has_value();
}

bool Attendance::all_agents_ended() {
  return std::all_of(run_.peers.begin(), run_.peers.end(), [](launch::StartedPeer& peer) { return peer.process.reap().has_value(); });
}

bool Attendance::wait_for_agents(Duration limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!all_agents_ended()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return true;
    std::vector<pollfd> watched{pollfd{interrupts_.descriptor(), POLLIN, 0}};
    for (auto& peer : run_.peers)
      if (!peer.process.reap()) watched.push_back(pollfd{peer.process.pid_descriptor(), POLLIN, 0});
    ::poll(watched.data(), watched.size(), static_cast<int>(std::min<std::int64_t>(left.count(), LOOK_AGAIN_MS)));
    if (interrupts_.take()) return false;
    view_.show_news();
  }
  return true;
}

/// The coordinator first: it tells every peer of the run to save what it holds. A second interrupt ends the patience.
void Attendance::stop_all() {
  std::vector<telemetry::ProcessIdentity> agents;
  for (auto& peer : run_.peers)
    if (!peer.process.reap()) agents.push_back(peer.process.identity());
  waits_for_ = stop_coordinator(run_.coordinator.identity(), observer_, terminal_, interrupts_, " (once more: waits no longer)").waits_for;
  launch::stop_processes(agents, launch::StopLimits{PEER_PATIENCE, interrupts_.descriptor(), true,
                                                    SavingWatch{observer_, terminal_, " (once more: at once)"}});
  view_.show_news();
}

int Attendance::finish() {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - since_;
  wait_for_agents(FAREWELL_LIMIT);
  stop_all();
  const auto status = observer_.status();
  if (status.state != telemetry::RunState::Done) return report_early_end(observer_, status, state_dir_, terminal_);
  return report_done(observer_, elapsed.count(), state_dir_, terminal_);
}

int Attendance::interrupted() {
  const auto unwritten = terminal_.output_error();
  terminal_.say("Stopping",
                unwritten             ? "the output cannot be written"
                : view_.reader_gone() ? "nobody reads the output any more"
                                      : "all; the peers save what they hold (once more: at once)",
                Role::Degraded);
  stop_all();
  if (!observer_.run().ended && waits_for_.empty()) note_end(run_.directory, Error{ErrorName::RunStopped, "by its owner, by force"});
  const auto step = observer_.status().outer_step;
  print_result(observer_, "interrupted", terminal_);
  // Output that could not be written is complained of by whoever ends the command.
  const auto exit_code = unwritten ? info(unwritten->name).exit_code
                                   : terminal_.complain(Error{ErrorName::Interrupted, "after outer step " + std::to_string(step)});
  tell_what_was_saved(observer_, state_dir_, terminal_);
  return exit_code;
}

/// Nothing can be saved any more: nobody waits for that.
int Attendance::state_gone() {
  std::vector processes{run_.coordinator.identity()};
  for (auto& peer : run_.peers)
    if (!peer.process.reap()) processes.push_back(peer.process.identity());
  launch::stop_processes(processes, launch::StopLimits{Duration{2s}, interrupts_.descriptor(), true});
  print_result(observer_, to_string(telemetry::RunState::Failed), terminal_);
  return terminal_.complain(telemetry::state_gone(run_.directory));
}

/// Its guard would have started it again, and is gone, too: nobody is to wait for it.
int Attendance::coordinator_lost() {
  auto how = launch::describe_wait_status(run_.coordinator.reap().value_or(0));
  if (const auto& began = observer_.run().kills_before; began && !observer_.run().ended)
    if (const auto kills = telemetry::kills_since_it_began(*began); !kills.empty()) how += "; " + kills;
  if (may_move_ && !all_agents_ended() && !telemetry::is_gone(telemetry::coordinator_journal(run_.directory))) {
    terminal_.say("Lost", "the coordinator: " + how + "; the peers here go on with who stands by, if somebody does", Role::Degraded);
    return led_elsewhere();
  }
  terminal_.say("Lost", "the coordinator: " + how + "; the peers save what they hold", Role::Bad);
  stop_all();
  print_result(observer_, to_string(telemetry::RunState::Failed), terminal_);
  auto cause = run_.coordinator.last_error();
  // Who removes the directory takes a moment for it: the coordinator may have missed its journal before the rest was gone.
  if (telemetry::is_gone(telemetry::coordinator_journal(run_.directory))) cause = telemetry::state_gone(run_.directory);
  const auto said = cause ? std::move(*cause).with_context("the coordinator served the run") : Error{ErrorName::CoordinatorLost, how};
  const auto exit_code = terminal_.complain(said, no_general_hint(said));
  tell_what_was_saved(observer_, state_dir_, terminal_);
  return exit_code;
}

/// What is committed now stands in the journals of who leads and of each peer; here only the peers' end is seen.
int Attendance::led_elsewhere() {
  while (!all_agents_ended())
    if (!wait_for_agents(FAREWELL_LIMIT)) return interrupted();
  view_.show_news();
  if (!std::ranges::all_of(run_.peers, [](launch::StartedPeer& peer) { return peer.process.reap() == 0; })) return deserted();
  print_result(observer_, to_string(telemetry::RunState::Done), terminal_);
  terminal_.say("Done", "the peers here; another machine led the run to its end");
  tell_what_was_saved(observer_, state_dir_, terminal_);
  return 0;
}

/// Every peer is gone before the end: what the first of them complained about is the cause.
int Attendance::deserted() {
  // Asked while the guard is there: a full disk has no journal that could tell afterwards.
  note_obstacle(observer_.status().revision);
  stop_all();
  auto status = observer_.status();
  // Of a coordinator that was kept away until the last peer gave up it is known what kept it.
  status.reason = observer_.run().obstacle.value_or(to_string(Error{ErrorName::TooFewPeers, "all peers left"}));
  // One that could not even write its journal has said so in its log.
  for (const auto& peer : run_.peers)
    if (const auto cause = peer.process.last_error()) status.reason = to_string(*cause);
  for (const auto& peer : observer_.local_peers()) {
    const auto kills = !peer.ended && peer.kills_before ? telemetry::kills_since_it_began(*peer.kills_before) : std::string{};
    if (!kills.empty())
      status.reason = to_string(Error{ErrorName::TooFewPeers, "the agent of " + peer.status.name + " is gone without a word; " + kills});
    if (!peer.exit_code.has_value() || peer.exit_code == 0U) continue;
    status.reason = peer.status.reason;
    break;
  }
  // Peers miss a coordinator; why it did not come back, this machine knows better.
  if (error_of(status.reason).name == ErrorName::CoordinatorLost && !obstacle_.empty()) status.reason = obstacle_;
  // The coordinator was told to end, and knows no more than that.
  if (waits_for_.empty()) note_end(run_.directory, error_of(status.reason));
  status.state = telemetry::RunState::Failed;
  return report_early_end(observer_, status, state_dir_, terminal_);
}

}  // namespace prime::cli
