#include "cli/ending_watch.hpp"

#include <chrono>
#include <utility>
#include <vector>

#include "cli/patience.hpp"
#include "cli/render/figures.hpp"
#include "cli/render/style.hpp"
#include "runtime/launch/run_directory.hpp"
#include "runtime/launch/stop_processes.hpp"

namespace prime::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// After so long one looks for what holds it up: it shows that after two seconds.
constexpr Duration LOOKED_FOR_AFTER = 3s;

/// How long a coordinator waits for its ledger, as its manifest has it, and a little for its end.
Duration ledger_patience(const std::filesystem::path& run_directory) {
  const auto manifest = launch::read_manifest(run_directory);
  return (manifest ? manifest->membership.coordinator_grace : manifest::Shared{}.membership.coordinator_grace) + COORDINATOR_PATIENCE;
}

}  // namespace

CoordinatorEnd stop_coordinator(const telemetry::ProcessIdentity& coordinator, telemetry::RunObserver& observer, Terminal& terminal,
                                const Interrupts& interrupts, const std::string& at_once) {
  const auto began = Clock::now();
  const auto patience = ledger_patience(observer.directory());
  std::string waits_for;
  std::string said;
  Clock::time_point said_at;
  const auto watch = [&](const telemetry::ProcessIdentity&) {
    observer.update();
    waits_for = observer.held_up();
    const auto now = Clock::now();
    if (waits_for.empty()) return now - began < COORDINATOR_PATIENCE;
    if (waits_for != said || now - said_at >= QUIET_LIMIT) {
      const std::chrono::duration<double> waited = now - began;
      const auto span = waits_for == said ? " (for " + elapsed_figure(waited.count()) + ")" : std::string{};
      terminal.say("Waiting", "for " + harmless(waits_for) + span + at_once, Role::Degraded);
      said = waits_for;
      said_at = now;
    }
    return now - began < patience;
  };
  const std::vector one{coordinator};
  if (launch::stop_processes(one, launch::StopLimits{LOOKED_FOR_AFTER, interrupts.descriptor(), false, watch}) == 0) return {};
  observer.update();
  waits_for = observer.held_up();
  if (waits_for.empty()) return {launch::stop_processes(one, launch::StopLimits{}) > 0, {}};
  terminal.warn("the coordinator cannot end yet: it waits for " + waits_for +
                "; it ends by itself when that is over, and says so in its journal");
  return {false, std::move(waits_for)};
}

}  // namespace prime::cli
