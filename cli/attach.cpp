// Owns `primectl attach`: the table of a run that goes on in the background, from its first step on.
#include <algorithm>
#include <chrono>
#include <poll.h>

#include "cli/commands.hpp"
#include "cli/end_report.hpp"
#include "cli/interrupts.hpp"
#include "cli/observing.hpp"
#include "cli/patience.hpp"
#include "cli/programs.hpp"
#include "cli/render/shell_word.hpp"
#include "cli/step_view.hpp"
#include "runtime/store/journal.hpp"
#include "runtime/telemetry/run_choice.hpp"
#include "runtime/telemetry/run_files.hpp"

namespace prime::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

/// Some peer here has not written its last line.
bool works_here(const telemetry::RunObserver& observer) {
  return std::ranges::any_of(observer.local_peers(),
                             [](const telemetry::PeerJournal& peer) { return !peer.ended && telemetry::is_alive(peer.agent); });
}

/// As the journals tell the time.
double lasted_s(const std::optional<std::string>& begun, const std::string& ended) {
  const auto from = begun ? store::parse_utc(*begun) : std::nullopt;
  const auto to = store::parse_utc(ended);
  return from && to ? std::chrono::duration<double>(*to - *from).count() : 0;
}

class Attachment {
 public:
  Attachment(Terminal& terminal, const fs::path& directory, std::string state_dir)
      : terminal_(terminal), directory_(directory), state_dir_(std::move(state_dir)), view_(terminal, directory) {}

  int until_the_end() {
    view_.show_news();
    warn_of_damage(terminal_, view_.observer());
    const auto status = view_.observer().status();
    if (const auto elsewhere = coordinator_elsewhere(status, "attach")) {
      const auto watch = "`" + typed_program() + " status --watch " + directory_.filename().string() + state_dir_option(state_dir_) +
                         "` shows the peers of this machine";
      return terminal_.complain(*elsewhere, is_over(status.state) ? std::nullopt : std::optional{watch});
    }
    while (!has_ended()) {
      if (view_.reader_gone()) return 0;
      pollfd watched[]{{view_.descriptor(), POLLIN, 0}, {interrupts_.descriptor(), POLLIN, 0}};
      ::poll(watched, 2, LOOK_AGAIN_MS);
      if (interrupts_.take()) return detach();
      // First: open journals are readable to their end after they were removed.
      view_.show_news();
      if (telemetry::is_gone(directory_)) return terminal_.complain(telemetry::state_gone(directory_));
    }
    return report();
  }

 private:
  /// Whoever saves what it holds writes the checkpoint that the result names.
  bool has_ended() {
    if (!is_over(view_.observer().status().state)) return false;
    if (!over_since_) over_since_ = steady_clock::now();
    if (works_here(view_.observer()) && steady_clock::now() - *over_since_ <= FAREWELL_LIMIT) return false;
    view_.show_news();  // whoever ended meanwhile had written its last lines by then
    return true;
  }

  int detach() {
    const auto run = directory_.filename().string();
    terminal_.say("Detached",
                  "from " + run + ", which goes on; `" + typed_program() + " down " + run + state_dir_option(state_dir_) + "` ends it");
    return info(ErrorName::Interrupted).exit_code;
  }

  int report() {
    const auto status = view_.observer().status();
    if (status.state == telemetry::RunState::Done)
      return report_done(view_.observer(), lasted_s(status.begun, view_.ended_at()), state_dir_, terminal_);
    return report_early_end(view_.observer(), status, state_dir_, terminal_);
  }

  Terminal& terminal_;
  const fs::path& directory_;
  std::string state_dir_;  ///< as `--state-dir` named it
  Interrupts interrupts_;
  StepView view_;
  std::optional<steady_clock::time_point> over_since_;
};

}  // namespace

int run_command(const AttachArguments& arguments, Terminal& terminal) {
  const auto directory = chosen_run(arguments.common.state_dir, arguments.run, terminal);
  if (!directory) return terminal.complain(directory.error());
  return Attachment{terminal, *directory, arguments.common.state_dir}.until_the_end();
}

}  // namespace prime::cli
