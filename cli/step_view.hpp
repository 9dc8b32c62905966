// Owns the picture of a run as it goes, wherever it is watched: its table on stdout, row by row, and beside it what it waits for.
#pragma once

#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "cli/render/step_table.hpp"
#include "cli/terminal.hpp"
#include "runtime/telemetry/journal_watch.hpp"
#include "runtime/telemetry/run_observer.hpp"

namespace prime::cli {

class StepView {
 public:
  StepView(Terminal& terminal, const std::filesystem::path& run_directory);

  /// Shows what is new, from the run's first step on; when nothing was for QUIET_LIMIT, what is being done.
  void show_news();
  /// Readable when there may be more.
  [[nodiscard]] int descriptor() const { return watch_.descriptor(); }
  /// Nobody reads stdout any more.
  [[nodiscard]] bool reader_gone() const { return reader_gone_; }
  telemetry::RunObserver& observer() { return observer_; }
  /// When the run had its last step, and whatever came of that, as the coordinator tells the time, UTC: empty before. Who looks while the
  /// processes end, and who looks later, see the same.
  [[nodiscard]] const std::string& ended_at() const { return ended_at_; }

 private:
  void tell_of_the_end(const JournalEvent& event);
  void show_row(const std::string& row);
  void say(std::string_view word, const std::string& text, Role role);
  void tell_devices(const telemetry::RunStatus& status);
  void break_silence(const telemetry::RunStatus& status);

  Terminal& terminal_;
  telemetry::RunObserver observer_;
  telemetry::JournalWatch watch_;
  StepTable table_;
  bool header_shown_ = false;
  bool reader_gone_ = false;
  std::string waiting_shown_;
  std::vector<std::string> problems_shown_;
  std::string ended_at_;
  std::set<std::string> devices_told_;
  std::string step_since_;  ///< as the journal tells it
  std::chrono::steady_clock::time_point said_at_ = std::chrono::steady_clock::now();
};

}  // namespace prime::cli
