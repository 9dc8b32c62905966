// Owns `primectl pause` and `primectl resume`: a run stands still between two outer steps, its peers seated, and goes on.
#include <chrono>
#include <optional>
#include <thread>

#include "cli/commands.hpp"
#include "cli/observing.hpp"
#include "cli/patience.hpp"
#include "cli/terminal.hpp"
#include "runtime/agent/owners_wish.hpp"
#include "runtime/launch/run_directory.hpp"
#include "runtime/telemetry/run_choice.hpp"
#include "runtime/telemetry/run_observer.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

std::string_view word_of(Wish wish) { return wish == Wish::Pause ? "pause" : "resume"; }

/// What comes then is evaluated and saved, and not held.
std::optional<Error> all_committed(const std::string& run, const telemetry::RunObserver& observer) {
  const auto shared = launch::read_manifest(observer.directory());
  if (!shared || observer.status().outer_step < shared->train.outer_steps) return std::nullopt;
  return Error{ErrorName::RunDone, "all outer steps of " + run + " are committed: nothing is left to pause"};
}

/// Only the coordinator that leads the run can be asked, and only from its own machine.
std::optional<Error> out_of_reach(const std::string& run, const telemetry::RunObserver& observer, Wish wish) {
  const auto status = observer.status();
  if (is_over(status.state) && status.state != telemetry::RunState::Left)
    return Error{ErrorName::RunDone, run + " is " + std::string{to_string(status.state)}};
  if (auto elsewhere = telemetry::lives_elsewhere(observer)) return elsewhere;
  if (status.stands_by_for)
    return Error{ErrorName::RunElsewhere, "the coordinator of " + run + " runs at " + *status.stands_by_for + "; `primectl " +
                                              std::string{word_of(wish)} + "` is to be typed there"};
  if (auto elsewhere = coordinator_elsewhere(status, word_of(wish))) return elsewhere;
  return all_committed(run, observer);
}

/// Until the coordinator has said so in its journal. One that is just started again is asked anew.
Result<telemetry::RunStatus> wish_of(telemetry::RunObserver& observer, Wish wish) {
  const auto deadline = std::chrono::steady_clock::now() + COORDINATOR_PATIENCE;
  std::optional<telemetry::ProcessIdentity> asked;
  for (;;) {
    auto status = observer.status();
    if (is_over(status.state)) return fail(ErrorName::RunDone, status.id + " is " + std::string{to_string(status.state)});
    if (status.paused_since.has_value() == (wish == Wish::Pause)) return status;
    const auto& coordinator = observer.run().coordinator;
    if (asked != coordinator && ask(coordinator, wish)) asked = coordinator;
    if (auto done = all_committed(status.id, observer)) return fail(*std::move(done));
    if (std::chrono::steady_clock::now() > deadline) {
      // It does not become true later, when nobody counts with it any more.
      if (asked && wish == Wish::Pause) ask(*asked, Wish::Resume);
      return fail(ErrorName::DeadlineExceeded, std::string{asked ? "the coordinator of " : "there is no coordinator of "} + status.id +
                                                   (asked ? " does not answer" : " that could be asked") +
                                                   (wish == Wish::Pause ? ", and the run is not paused" : "") + "; `primectl status " +
                                                   status.id + "` says more");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    observer.update();
  }
}

std::string text_of(const telemetry::RunStatus& status, Wish wish, bool already) {
  if (wish == Wish::Resume && already && status.state == telemetry::RunState::Paused)
    return status.id +
           " was not paused by its owner: it waits since too many peers were lost at once (`membership.correlated_loss`) until "
           "others have come in their place\n";
  if (wish == Wish::Resume) return status.id + (already ? " was not paused\n" : " goes on\n");
  std::string text = status.id + (already ? " was paused already" : " is paused");
  if (status.state == telemetry::RunState::Training)
    text += ": outer step " + std::to_string(status.outer_step + 1) + ", which is under way, ends first";
  return text + "; `primectl resume " + status.id + "` lets it go on\n";
}

int fulfil(const CommonArguments& common, const std::string& run, Wish wish, Terminal& terminal) {
  const auto directory = chosen_run(common.state_dir, run, terminal);
  if (!directory) return terminal.complain(directory.error());
  telemetry::RunObserver observer{*directory};
  look_at(observer, terminal);
  if (const auto problem = out_of_reach(directory->filename().string(), observer, wish)) return terminal.complain(*problem);
  const bool already = observer.status().paused_since.has_value() == (wish == Wish::Pause);
  const auto status = wish_of(observer, wish);
  if (!status) return terminal.complain(status.error());
  if (terminal.json())
    terminal.print(telemetry::dump({{"schema", wish == Wish::Pause ? "primectl.pause/1" : "primectl.resume/1"},
                                    {"run_id", status->id},
                                    {"outer_step", status->outer_step},
                                    {"changed", !already}}) +
                   "\n");
  else terminal.print(text_of(*status, wish, already));
  return 0;
}

}  // namespace

int run_command(const PauseArguments& arguments, Terminal& terminal) {
  return fulfil(arguments.common, arguments.run, Wish::Pause, terminal);
}

int run_command(const ResumeArguments& arguments, Terminal& terminal) {
  return fulfil(arguments.common, arguments.run, Wish::Resume, terminal);
}

}  // namespace prime::cli
