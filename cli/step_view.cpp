#include "cli/step_view.hpp"

#include <algorithm>

#include "cli/patience.hpp"
#include "cli/render/status_text.hpp"
#include "runtime/telemetry/event_json.hpp"

namespace prime::cli {

namespace {

bool is_of_the_end(const JournalEvent& event) {
  return std::holds_alternative<events::RunDone>(event) || std::holds_alternative<events::FinalStateSaved>(event) ||
         std::holds_alternative<events::FinalReport>(event);
}

}  // namespace

StepView::StepView(Terminal& terminal, const std::filesystem::path& run_directory)
    : terminal_(terminal), observer_(run_directory), watch_(run_directory), table_(terminal.style()) {}

void StepView::show_news() {
  watch_.rearm();
  for (const auto& observed : observer_.update()) {
    if (observed.source != "coordinator" || !observed.event) continue;
    tell_of_the_end(*observed.event);
    if (is_of_the_end(*observed.event)) ended_at_ = telemetry::time_of(observed.line);
    if (std::holds_alternative<events::OuterStepBegun>(*observed.event) || std::holds_alternative<events::ReduceStarted>(*observed.event))
      step_since_ = telemetry::time_of(observed.line);
    if (const auto* founded = std::get_if<events::DataFounded>(&*observed.event)) say("Data", harmless(founded->data), Role::Good);
    if (const auto row = table_.apply(*observed.event); row && !terminal_.json()) show_row(*row);
  }
  // Only waits that stop the run are news; those within an outer step are over in a moment.
  const auto status = observer_.status();
  const bool stands_still = status.state == telemetry::RunState::Waiting || status.state == telemetry::RunState::Paused;
  const auto waiting = stands_still ? status.wait.what : std::string{};
  if (waiting != waiting_shown_ && !waiting.empty()) say("Waiting", "for " + harmless(waiting), Role::Degraded);
  waiting_shown_ = waiting;
  for (const auto& problem : status.problems)
    if (std::ranges::find(problems_shown_, problem) == problems_shown_.end()) terminal_.warn(problem);
  problems_shown_ = status.problems;
  tell_devices(status);
  break_silence(status);
}

/// What a choice of the machine's came to, as with `local.device: auto`.
void StepView::tell_devices(const telemetry::RunStatus& status) {
  for (const auto& peer : status.peers)
    if (!peer.device.empty() && devices_told_.insert(device_text(peer)).second) say("Device", device_text(peer), Role::Good);
}

void StepView::say(std::string_view word, const std::string& text, Role role) {
  terminal_.say(word, text, role);
  said_at_ = std::chrono::steady_clock::now();
}

void StepView::break_silence(const telemetry::RunStatus& status) {
  if (std::chrono::steady_clock::now() - said_at_ < QUIET_LIMIT) return;
  say("Waiting", doing_text(status, step_since_, std::chrono::system_clock::now()), Role::Plain);
}

void StepView::show_row(const std::string& row) {
  if (!header_shown_) reader_gone_ = !terminal_.print(table_.header()) || reader_gone_;
  header_shown_ = true;
  said_at_ = std::chrono::steady_clock::now();
  reader_gone_ = !terminal_.print(row) || reader_gone_;
}

/// Between the last row and the result there may be many seconds.
void StepView::tell_of_the_end(const JournalEvent& event) {
  const auto* waiting = std::get_if<events::Waiting>(&event);
  if (waiting != nullptr && waiting->phase == RunPhase::Finishing && !waiting->what.empty())
    say("Waiting", "for " + harmless(waiting->what), Role::Good);
}

}  // namespace prime::cli
