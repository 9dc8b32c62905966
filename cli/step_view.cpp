#include "cli/step_view.hpp"

#include <algorithm>

#include "runtime/telemetry/event_json.hpp"

namespace prime::cli {

StepView::StepView(Terminal& terminal, const std::filesystem::path& run_directory)
    : terminal_(terminal), observer_(run_directory), watch_(run_directory), table_(terminal.style()) {}

void StepView::show_news() {
  watch_.rearm();
  for (const auto& observed : observer_.update()) {
    last_told_ = std::max(last_told_, telemetry::time_of(observed.line));
    if (observed.source != "coordinator" || !observed.event) continue;
    tell_of_the_end(*observed.event);
    if (const auto* founded = std::get_if<events::DataFounded>(&*observed.event)) terminal_.say("Data", harmless(founded->data));
    if (const auto row = table_.apply(*observed.event); row && !terminal_.json()) show_row(*row);
  }
  // Only waits that stop the run are news; those within an outer step are over in a moment.
  const auto status = observer_.status();
  const auto waiting = status.state == telemetry::RunState::Waiting ? status.wait.what : std::string{};
  if (waiting != waiting_shown_ && !waiting.empty()) terminal_.say("Waiting", "for " + harmless(waiting), Role::Degraded);
  waiting_shown_ = waiting;
  for (const auto& problem : status.problems)
    if (std::ranges::find(problems_shown_, problem) == problems_shown_.end()) terminal_.warn(problem);
  problems_shown_ = status.problems;
}

void StepView::show_row(const std::string& row) {
  if (!header_shown_) reader_gone_ = !terminal_.print(table_.header()) || reader_gone_;
  header_shown_ = true;
  reader_gone_ = !terminal_.print(row) || reader_gone_;
}

/// Between the last row and the result there may be many seconds.
void StepView::tell_of_the_end(const JournalEvent& event) {
  const auto* waiting = std::get_if<events::Waiting>(&event);
  if (waiting != nullptr && waiting->phase == RunPhase::Finishing && !waiting->what.empty())
    terminal_.say("Waiting", "for " + harmless(waiting->what));
}

}  // namespace prime::cli
