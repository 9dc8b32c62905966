#include "cli/join_progress.hpp"

#include <array>
#include <poll.h>
#include <sys/eventfd.h>
#include <thread>

#include "cli/patience.hpp"
#include "runtime/store/file_io.hpp"
#include "runtime/store/journal.hpp"
#include "runtime/telemetry/error_text.hpp"
#include "runtime/telemetry/journal_fields.hpp"
#include "runtime/telemetry/journal_watch.hpp"

namespace prime::cli {
namespace {

using telemetry::count_field;
using telemetry::text_field;

std::string step_text(const nlohmann::json& fields) {
  return "outer step " + std::to_string(count_field(fields, "outer_step").value_or(0));
}

void tell(Terminal& terminal, const store::JournalLine& line, bool& entered) {
  const auto& fields = line.fields;
  const auto replica = text_field(fields, "replica").value_or("");
  const auto reason = telemetry::short_reason(text_field(fields, "reason").value_or("no reason"));
  if (line.event == "shard_waits")
    terminal.say("Waiting", harmless("for " + text_field(fields, "missing").value_or("") + " of replica " + replica), Role::Degraded);
  if (line.event == "replica_whole") terminal.say("Replica", harmless(replica) + " is whole");
  if (line.event == "trainer_bound") {
    terminal.say("Trainer", "pid " + std::to_string(count_field(fields, "trainer_pid").value_or(0)));
    if (const auto data = text_field(fields, "data")) terminal.say("Data", harmless(*data));
  }
  if (line.event == "trainer_restarting") terminal.say("Trainer", "starts again: " + reason, Role::Degraded);
  if (line.event == "state_fetching") terminal.say("Fetching", "revision " + std::to_string(count_field(fields, "revision").value_or(0)));
  if (line.event == "outer_step_begun" && !std::exchange(entered, true)) terminal.say("Entered", "at " + step_text(fields));
  if (line.event == "outer_step_aborted")
    terminal.say("Aborted", step_text(fields) + ": " + reason + "; it is tried again", Role::Degraded);
  if (line.event == "outer_step_committed") {
    const auto list = fields.find("contributors");
    terminal.say("Committed", step_text(fields) + ", averaged " + std::to_string(list != fields.end() ? list->size() : 0) + ", digest " +
                                  text_field(fields, "digest").value_or("").substr(0, 8));
  }
  if (line.event == "checkpoint_written") terminal.say("Saved", text_field(fields, "path").value_or(""));
  if (line.event == "peer_ended" && text_field(fields, "phase") == "leaving")
    terminal.say("Left", "with revision " + std::to_string(count_field(fields, "revision").value_or(0)));
  if (line.event == "run_done") terminal.say("Done", "all outer steps are committed");
}

}  // namespace

struct JoinProgress::Teller {
  Teller(Terminal& out, const std::filesystem::path& directory)
      : terminal(out), journal(directory / "journal.jsonl"), watch(directory), end(::eventfd(0, EFD_CLOEXEC)) {}

  void run() {
    bool entered = false;
    for (bool last = false;;) {
      watch.rearm();
      const auto lines = journal.read_new();
      if (!lines) return;
      for (const auto& line : *lines) tell(terminal, line, entered);
      if (last) return;
      std::array<pollfd, 2> watched{pollfd{end.get(), POLLIN, 0}, pollfd{watch.descriptor(), POLLIN, 0}};
      ::poll(watched.data(), watched.size(), LOOK_AGAIN_MS);
      last = watched[0].revents != 0;
    }
  }

  Terminal& terminal;
  store::JournalReader journal;
  telemetry::JournalWatch watch;
  store::Descriptor end;
  std::thread thread;
};

JoinProgress::JoinProgress(Terminal& terminal, const std::filesystem::path& peer_directory, const std::string& name)
    : teller_(std::make_unique<Teller>(terminal, peer_directory)) {
  terminal.say("Welcome", "as " + name);
  teller_->thread = std::thread([teller = teller_.get()] { teller->run(); });
}

JoinProgress::~JoinProgress() {
  ::eventfd_write(teller_->end.get(), 1);
  teller_->thread.join();
}

}  // namespace prime::cli
