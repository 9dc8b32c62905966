#include "cli/attendance.hpp"

#include <algorithm>
#include <poll.h>

#include "cli/going_on.hpp"
#include "cli/patience.hpp"
#include "cli/render/result_text.hpp"
#include "cli/saving_watch.hpp"
#include "runtime/agent/processes.hpp"
#include "runtime/launch/stop_processes.hpp"
#include "runtime/telemetry/error_text.hpp"
#include "runtime/telemetry/memory_kills.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

/// After the coordinator's end its peers have heard it; they write a checkpoint at most.
constexpr Duration FAREWELL_LIMIT{60s};

Error error_of(const std::string& reason) { return telemetry::parse_error_text(reason).value_or(Error{ErrorName::ProcessFailed, reason}); }

}  // namespace

Attendance::Attendance(Terminal& terminal, Interrupts& interrupts, launch::StartedRun& run, std::string state_dir, bool may_move)
    : terminal_(terminal),
      interrupts_(interrupts),
      run_(run),
      state_dir_(std::move(state_dir)),
      may_move_(may_move),
      observer_(run.directory),
      watch_(run.directory),
      table_(terminal.style()) {}

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
  std::vector<pollfd> watched{pollfd{interrupts_.descriptor(), POLLIN, 0}, pollfd{watch_.descriptor(), POLLIN, 0},
                              pollfd{run_.coordinator.pid_descriptor(), POLLIN, 0}};
  for (auto& peer : run_.peers)
    if (!peer.process.reap()) watched.push_back(pollfd{peer.process.pid_descriptor(), POLLIN, 0});
  show_news();
  if (reader_gone_) return Turn::Interrupted;
  ::poll(watched.data(), watched.size(), LOOK_AGAIN_MS);
  if (interrupts_.take()) return Turn::Interrupted;
  // Asked before the journals are read: what a process wrote before its end is then in the picture.
  const bool coordinator_ended = run_.coordinator.reap().has_value();
  const bool agents_ended = all_agents_ended();
  if (telemetry::is_gone(run_.directory)) return Turn::StateGone;
  show_news();
  if (coordinator_ended) return Turn::CoordinatorEnded;
  const auto status = observer_.status();
  const bool nobody_left = std::all_of(status.peers.begin(), status.peers.end(),
                                       [](const telemetry::PeerStatus& peer) { return telemetry::is_gone(peer.state); });
  return agents_ended && nobody_left && !is_over(status.state) ? Turn::Deserted : Turn::Goes;
}

void Attendance::show_news() {
  watch_.rearm();
  for (const auto& observed : observer_.update()) {
    if (observed.source != "coordinator" || !observed.event) continue;
    tell_of_the_end(*observed.event);
    if (const auto* founded = std::get_if<events::DataFounded>(&*observed.event)) terminal_.say("Data", harmless(founded->data));
    const auto row = table_.apply(*observed.event);
    if (!row || terminal_.json()) continue;
    if (!header_shown_) reader_gone_ = !terminal_.print(table_.header()) || reader_gone_;
    header_shown_ = true;
    reader_gone_ = !terminal_.print(*row) || reader_gone_;
  }
  // Only waits that stop the run are news; those within an outer step are over in a moment.
  const auto status = observer_.status();
  const auto waiting = status.state == telemetry::RunState::Waiting ? status.wait.what : std::string{};
  if (waiting != waiting_shown_ && !waiting.empty()) terminal_.say("Waiting", "for " + harmless(waiting), Role::Degraded);
  waiting_shown_ = waiting;
}

/// Between the last row and the result there may be many seconds.
void Attendance::tell_of_the_end(const JournalEvent& event) {
  const auto* waiting = std::get_if<events::Waiting>(&event);
  if (waiting != nullptr && waiting->phase == RunPhase::Finishing && !waiting->what.empty())
    terminal_.say("Waiting", "for " + harmless(waiting->what));
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
    ::poll(watched.data(), watched.size(), static_cast<int>(left.count()));
    if (interrupts_.take()) return false;
  }
  return true;
}

/// The coordinator first: it tells every peer of the run to save what it holds. A second interrupt ends the patience.
void Attendance::stop_all() {
  std::vector<telemetry::ProcessIdentity> agents;
  for (auto& peer : run_.peers)
    if (!peer.process.reap()) agents.push_back(peer.process.identity());
  launch::stop_processes(std::vector{run_.coordinator.identity()}, launch::StopLimits{COORDINATOR_PATIENCE, interrupts_.descriptor()});
  launch::stop_processes(agents, launch::StopLimits{PEER_PATIENCE, interrupts_.descriptor(), true,
                                                    SavingWatch{observer_, terminal_, " (once more: at once)"}});
  show_news();
}

void Attendance::print_result(std::string_view state) {
  if (terminal_.json()) terminal_.print(telemetry::dump(result_json(observer_.status(), state)) + "\n");
}

int Attendance::report_early_end(const telemetry::RunStatus& status) {
  print_result(to_string(telemetry::RunState::Failed));
  const auto exit_code = terminal_.complain(error_of(status.reason));
  tell_what_was_saved();
  return exit_code == 0 ? 1 : exit_code;
}

void Attendance::tell_what_was_saved() {
  std::optional<std::string> saved;
  for (const auto& peer : observer_.local_peers()) {
    if (!peer.checkpoint) continue;
    terminal_.say("Saved", *peer.checkpoint);
    saved = peer.checkpoint;
  }
  if (saved) {
    const auto way = way_on(run_.directory, *saved, state_dir_);
    if (!way.lacking.empty()) terminal_.say("Missing", way.lacking, Role::Degraded);
    if (!way.line.empty()) terminal_.say("Go on", "from " + way.from + " by\n  " + way.line);
  }
  const auto status = observer_.status();
  const auto unsaved = what_is_not_saved(status, observer_.local_peers());
  for (const auto& line : unsaved) terminal_.say("Not saved", harmless(line), Role::Bad);
  if (unsaved.empty() && !saved && status.outer_step > 0)
    terminal_.say("Saved", "nothing; `checkpoint.every` makes a run save on the way", Role::Degraded);
}

int Attendance::finish() {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - since_;
  wait_for_agents(FAREWELL_LIMIT);
  stop_all();
  const auto status = observer_.status();
  if (status.state != telemetry::RunState::Done) return report_early_end(status);
  print_result(to_string(status.state));
  if (!terminal_.json()) {
    const auto peers = observer_.local_peers();
    terminal_.print(result_text(status, compare_digests(status, peers), elapsed.count(), terminal_.style(), peers));
  }
  return 0;
}

int Attendance::interrupted() {
  const auto unwritten = terminal_.output_error();
  terminal_.say("Stopping",
                unwritten      ? "the output cannot be written"
                : reader_gone_ ? "nobody reads the output any more"
                               : "all; the peers save what they hold (once more: at once)",
                Role::Degraded);
  stop_all();
  if (!observer_.run().ended) note_end(run_.directory, Error{ErrorName::RunStopped, "by its owner, by force"});
  const auto step = observer_.status().outer_step;
  print_result("interrupted");
  // Output that could not be written is complained of by whoever ends the command.
  const auto exit_code = unwritten ? info(unwritten->name).exit_code
                                   : terminal_.complain(Error{ErrorName::Interrupted, "after outer step " + std::to_string(step)});
  tell_what_was_saved();
  return exit_code;
}

/// The processes notice it by themselves when they next write; nobody waits for that.
int Attendance::state_gone() {
  stop_all();
  print_result(to_string(telemetry::RunState::Failed));
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
  print_result(to_string(telemetry::RunState::Failed));
  auto cause = run_.coordinator.last_error();
  // Who removes the directory takes a moment for it: the coordinator may have missed its journal before the rest was gone.
  if (telemetry::is_gone(telemetry::coordinator_journal(run_.directory))) cause = telemetry::state_gone(run_.directory);
  const auto exit_code =
      terminal_.complain(cause ? std::move(*cause).with_context("the coordinator served the run") : Error{ErrorName::CoordinatorLost, how});
  tell_what_was_saved();
  return exit_code;
}

/// What is committed now stands in the journals of who leads and of each peer; here only the peers' end is seen.
int Attendance::led_elsewhere() {
  while (!all_agents_ended())
    if (!wait_for_agents(FAREWELL_LIMIT)) return interrupted();
  show_news();
  if (!std::ranges::all_of(run_.peers, [](launch::StartedPeer& peer) { return peer.process.reap() == 0; })) return deserted();
  print_result(to_string(telemetry::RunState::Done));
  terminal_.say("Done", "the peers here; another machine led the run to its end");
  tell_what_was_saved();
  return 0;
}

/// Every peer is gone before the end: what the first of them complained about is the cause.
int Attendance::deserted() {
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
  // The coordinator was told to end, and knows no more than that.
  note_end(run_.directory, error_of(status.reason));
  status.state = telemetry::RunState::Failed;
  return report_early_end(status);
}

}  // namespace prime::cli
