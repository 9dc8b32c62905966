#include "cli/join_progress.hpp"

#include <array>
#include <chrono>
#include <poll.h>
#include <sys/eventfd.h>
#include <system_error>
#include <thread>

#include "cli/patience.hpp"
#include "cli/render/figures.hpp"
#include "cli/render/status_text.hpp"
#include "runtime/store/file_io.hpp"
#include "runtime/store/journal.hpp"
#include "runtime/telemetry/error_text.hpp"
#include "runtime/telemetry/event_json.hpp"
#include "runtime/telemetry/journal_watch.hpp"
#include "runtime/telemetry/run_files.hpp"

namespace prime::cli {
namespace {

std::string step_text(OuterStep step) { return "outer step " + std::to_string(step.value); }

/// What a joiner waits for, as long as nothing is heard.
constexpr auto TRAINER = "for its trainer, which has yet to bind its tensors";
constexpr auto ENTRY = "to enter: an outer step has to begin, which a paused run does not";
constexpr auto COMMIT = "for the next commit; the run's own `primectl status` says who is behind, and whether it is paused";

/// What a person who waits wants to hear of an event.
struct Telling {
  Terminal& terminal;
  bool& entered;
  std::string& awaited;
  std::string& coordinator;
  std::string& name;
  std::string time;  ///< that the line tells

  /// Once it has been taken, and not before.
  void welcome() const {
    if (!name.empty()) terminal.say("Welcome", "as " + harmless(std::exchange(name, {})));
  }
  void operator()(const events::ReplicaWaits& e) const {
    terminal.say("Waiting", harmless("for " + e.missing + " of replica " + e.replica), Role::Degraded);
  }
  void operator()(const events::ReplicaWhole& e) const { terminal.say("Replica", harmless(e.replica) + " is whole"); }
  void operator()(const events::TrainerBound& e) const {
    terminal.say("Trainer", "pid " + std::to_string(e.trainer_pid));
    awaited = entered ? COMMIT : ENTRY;
    if (e.data) terminal.say("Data", harmless(*e.data));
  }
  void operator()(const events::TrainerRestarting& e) const {
    terminal.say("Trainer", "starts again: " + telemetry::short_reason(e.reason.text), Role::Degraded);
    awaited = TRAINER;
  }
  void operator()(const events::TrainerWaits& e) const {
    const auto how = e.reason.name ? "cannot be started yet: " : e.reason.text.empty() ? "goes on" : "waits for ";
    terminal.say("Trainer", harmless(how + telemetry::short_reason(e.reason.text)), e.reason.text.empty() ? Role::Good : Role::Degraded);
    if (e.reason.name) awaited = TRAINER;
  }
  void operator()(const events::DonorUnreached& e) const { terminal.say("Unreached", e.reason, Role::Degraded); }
  void operator()(const events::StateFetching& e) const {
    welcome();
    terminal.say("Fetching", "revision " + std::to_string(e.revision.value));
    awaited =
        "for revision " + std::to_string(e.revision.value) + " of the shared state; of a donor that stands still the run names another one";
  }
  void operator()(const events::StateFetched& e) const {
    terminal.say("Fetched", "revision " + std::to_string(e.revision.value) + "; this peer enters when an outer step begins");
    awaited = ENTRY;
  }
  void operator()(const events::StepEntered& e) const {
    welcome();
    if (!std::exchange(entered, true)) terminal.say("Entered", "at " + step_text(e.outer_step));
    awaited = COMMIT;
  }
  void operator()(const events::ReduceAborted& e) const {
    terminal.say("Aborted", step_text(e.outer_step) + ": " + telemetry::short_reason(e.reason) + "; it is tried again", Role::Degraded);
  }
  void operator()(const events::CommitApplied& e) const {
    terminal.say("Committed", step_text(e.outer_step) + ", averaged " + std::to_string(e.contributors.size()) + ", digest " +
                                  to_string(e.digest).substr(0, 8));
  }
  void operator()(const events::CheckpointWritten& e) const { terminal.say("Saved", e.path); }
  void operator()(const events::PeerEnded& e) const {
    if (e.phase == PeerPhase::Leaving) terminal.say("Left", "with revision " + std::to_string(e.revision.value));
  }
  void operator()(const events::CoordinatorsKnown& e) const {
    if (!e.addresses.empty()) coordinator = "";
    for (const auto& address : e.addresses) coordinator += (coordinator.empty() ? "" : " or ") + address;
  }
  void operator()(const events::CoordinatorLost& e) const {
    const telemetry::WaitStatus wait{{}, telemetry::moment(time), telemetry::moment(time, e.gives_up_after_s)};
    terminal.say("Waiting",
                 harmless("for the coordinator at " + coordinator + ": " + e.reason + span_of(wait) +
                          "; then this peer saves what it holds and ends"),
                 Role::Degraded);
  }
  void operator()(const events::CoordinatorBack& e) const {
    terminal.say("Back", "the coordinator, after " + short_time_figure(std::chrono::duration<double>(e.after_s).count()));
  }
  void operator()(const events::DescriptorsUsedUp& e) const { terminal.say("Short", harmless(e.reason), Role::Degraded); }
  void operator()(const events::DescriptorsFree&) const { terminal.say("Goes on", "files and connections can be opened again"); }
  void operator()(const events::StateSaving& e) const {
    terminal.say("Saving", "what it holds: " + harmless(telemetry::short_reason(e.reason)), Role::Degraded);
  }
  void operator()(const events::RunDoneHeard&) const { terminal.say("Done", "all outer steps are committed"); }
};

void tell(const store::JournalLine& line, const Telling& telling) {
  const auto event = telemetry::read_event(JournalWriter::Agent, line);
  if (!event || !*event) return;
  const auto told = [&](const auto& e) {
    if constexpr (std::is_invocable_v<const Telling&, decltype(e)>) telling(e);  // the others are for `logs`
  };
  std::visit(told, **event);
}

}  // namespace

struct JoinProgress::Teller {
  Teller(Terminal& out, const std::filesystem::path& peer_directory, std::string at, std::string own_name)
      : terminal(out),
        directory(peer_directory),
        coordinator(std::move(at)),
        name(std::move(own_name)),
        journal(directory / "journal.jsonl"),
        watch(directory),
        end(::eventfd(0, EFD_CLOEXEC)) {}

  void run() {
    bool entered = false;
    std::string awaited = TRAINER;
    auto told_at = std::chrono::steady_clock::now();
    for (bool last = false;;) {
      watch.rearm();
      const auto lines = journal.read_new();
      if (!lines) return;
      const auto now = std::chrono::steady_clock::now();
      if (!lines->empty()) told_at = now;
      if (now - told_at >= QUIET_LIMIT) {
        terminal.say("Waiting", awaited);
        told_at = now;
      }
      for (const auto& line : *lines) tell(line, {terminal, entered, awaited, coordinator, name, telemetry::time_of(line)});
      if (last) return;
      tell_of_the_disk();
      std::array<pollfd, 2> watched{pollfd{end.get(), POLLIN, 0}, pollfd{watch.descriptor(), POLLIN, 0}};
      ::poll(watched.data(), watched.size(), LOOK_AGAIN_MS);
      last = watched[0].revents != 0;
    }
  }

  /// What is shown here is read from the journal.
  void tell_of_the_disk() {
    const bool full = telemetry::has_no_room(directory);
    if (full != std::exchange(was_full, full) && full)
      terminal.say("Unseen",
                   "the disk of " + directory.string() + " is full: this peer goes on, and what it does is shown when there is room",
                   Role::Degraded);
  }

  Terminal& terminal;
  std::filesystem::path directory;
  std::string coordinator;
  std::string name;  ///< until it was told that it is welcome
  bool was_full = false;
  store::JournalReader journal;
  telemetry::JournalWatch watch;
  store::Descriptor end;
  std::thread thread;
};

JoinProgress::JoinProgress(Terminal& terminal, const std::filesystem::path& peer_directory, const std::string& name,
                           std::string coordinator)
    : teller_(std::make_unique<Teller>(terminal, peer_directory, std::move(coordinator), name)) {
  terminal.say("Seating", harmless(name) + ": its model and data are compared with the run's");
  try {
    teller_->thread = std::thread([teller = teller_.get()] { teller->run(); });
  } catch (const std::system_error&) {  // there may be no more threads: it joins without a word
  }
}

JoinProgress::~JoinProgress() {
  ::eventfd_write(teller_->end.get(), 1);
  if (teller_->thread.joinable()) teller_->thread.join();
}

}  // namespace prime::cli
