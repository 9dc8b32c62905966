#include "cli/end_report.hpp"

#include "cli/going_on.hpp"
#include "cli/programs.hpp"
#include "cli/render/result_text.hpp"
#include "runtime/telemetry/error_text.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {

Error error_of(const std::string& reason) { return telemetry::parse_error_text(reason).value_or(Error{ErrorName::ProcessFailed, reason}); }

std::optional<std::string> no_general_hint(const Error& cause) {
  if (auto libtorch = libtorch_hint(cause.detail); !libtorch.empty()) return libtorch;
  // Of a run that has begun nobody has typed a wrong command; a trainer has made a wrong call.
  if (cause.name == ErrorName::Usage) return "where a trainer did it, trainer.log beside its journal names the line";
  return hint_is_way_on(cause) ? std::optional{std::string{}} : std::nullopt;
}

void print_result(const telemetry::RunObserver& observer, std::string_view state, Terminal& terminal) {
  if (terminal.json()) terminal.print(telemetry::dump(result_json(observer.status(), state)) + "\n");
}

int report_done(const telemetry::RunObserver& observer, double elapsed_s, const std::string& state_dir, Terminal& terminal) {
  const auto status = observer.status();
  print_result(observer, to_string(status.state), terminal);
  if (terminal.json()) return 0;
  const auto peers = observer.local_peers();
  terminal.print(result_text(status, compare_digests(status, peers), elapsed_s, terminal.style(), peers));
  if (!status.checkpoint) return 0;
  for (const auto& step : next_steps(observer.directory(), *status.checkpoint, status.outer_step, state_dir))
    terminal.say(step.verb, step.line);
  return 0;
}

int report_early_end(const telemetry::RunObserver& observer, const telemetry::RunStatus& status, const std::string& state_dir,
                     Terminal& terminal) {
  print_result(observer, to_string(telemetry::RunState::Failed), terminal);
  const auto cause = error_of(status.reason);
  const auto exit_code = terminal.complain(cause, no_general_hint(cause));
  tell_what_was_saved(observer, state_dir, terminal);
  return exit_code == 0 ? 1 : exit_code;
}

void tell_what_was_saved(const telemetry::RunObserver& observer, const std::string& state_dir, Terminal& terminal) {
  std::optional<std::string> saved;
  const auto peers = observer.local_peers();
  for (const auto& peer : peers) {
    if (!peer.checkpoint) continue;
    terminal.say("Saved", *peer.checkpoint);
    saved = peer.checkpoint;
  }
  if (saved) {
    const auto way = way_on(observer.directory(), *saved, state_dir);
    if (!way.lacking.empty()) terminal.say("Missing", way.lacking, Role::Degraded);
    if (!way.line.empty()) terminal.say("Go on", "from " + way.from + " by\n  " + way.line);
  }
  const auto status = observer.status();
  const auto unsaved = what_is_not_saved(status, peers);
  for (const auto& line : unsaved) terminal.say("Not saved", harmless(line), Role::Bad);
  if (unsaved.empty() && !saved && status.outer_step > 0)
    terminal.say("Saved", "nothing; `checkpoint.every` makes a run save on the way", Role::Degraded);
}

bool say_what_is_lost(const telemetry::RunObserver& observer, Terminal& terminal) {
  if (telemetry::is_gone(observer.directory())) {  // moved, perhaps, and what came of its peers is not seen from here
    terminal.complain(telemetry::state_gone(observer.directory()));
    return true;
  }
  const auto status = observer.status();
  const auto here = observer.local_peers();
  const auto is_over_here = [&](const telemetry::PeerStatus& peer) {
    const auto local = std::ranges::find(here, peer.id, [](const telemetry::PeerJournal& each) { return each.status.id; });
    return local != here.end() ? !telemetry::is_alive(local->agent) : false;
  };
  // Peers of other machines and containers may have saved what nobody has here, or go on.
  if (!observer.foreign().empty() || !status.coordinator_here || status.peers.empty() || !std::ranges::all_of(status.peers, is_over_here))
    return false;
  const auto lines = what_is_not_saved(status, here);
  for (const auto& line : lines) terminal.say("Not saved", harmless(line), Role::Bad);
  return !lines.empty();
}

}  // namespace prime::cli
