// Owns `up` in the foreground: shows the run as it goes, and sees to it that nothing of it is left when it ends.
#pragma once

#include <chrono>
#include <vector>

#include "cli/interrupts.hpp"
#include "cli/step_view.hpp"
#include "cli/terminal.hpp"
#include "runtime/launch/start_run.hpp"
#include "runtime/store/kept_place.hpp"

namespace prime::cli {

class Attendance {
 public:
  /// `may_move`: another machine may stand by, and serve the run when this one's coordinator is gone.
  Attendance(Terminal& terminal, Interrupts& interrupts, launch::StartedRun& run, std::string state_dir, bool may_move);
  /// Returns the exit code of `up`.
  int until_the_end();

 private:
  enum class Turn { Goes, Interrupted, StateGone, CoordinatorEnded, Deserted };

  Turn next_turn();
  /// Between two tries to serve again nothing says what kept the coordinator away: what was seen last counts until the run goes on.
  void note_obstacle(std::uint64_t revision);
  /// Says once that the directory was moved, and where to: what is at work waits until it is back.
  void note_move();
  bool all_agents_ended();
  /// False when it was interrupted.
  bool wait_for_agents(Duration limit);
  void stop_all();
  int finish();
  int interrupted();
  int state_gone();
  int coordinator_lost();
  int led_elsewhere();
  int deserted();

  Terminal& terminal_;
  Interrupts& interrupts_;
  launch::StartedRun& run_;
  std::string state_dir_;  ///< as `--state-dir` named it
  bool may_move_;
  store::KeptPlace place_;
  bool moved_ = false;
  StepView view_;
  telemetry::RunObserver& observer_ = view_.observer();
  std::string obstacle_;  ///< what kept the coordinator from going on, at this revision
  std::uint64_t obstructed_ = 0;
  std::string waits_for_;  ///< what keeps a coordinator that was told to end from doing so
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace prime::cli
