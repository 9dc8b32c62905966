// Owns the hidden `primectl coordinator`: the process that serves a run, and the one that guards it. `up` starts the guard.
#include <optional>
#include <utility>

#include "cli/commands.hpp"
#include "cli/programs.hpp"
#include "cli/terminal.hpp"
#include "runtime/agent/processes.hpp"
#include "runtime/launch/coordinator_guard.hpp"
#include "runtime/launch/launch_plan.hpp"
#include "runtime/launch/readiness.hpp"
#include "runtime/launch/run_directory.hpp"
#include "runtime/store/kept_place.hpp"
#include "runtime/telemetry/run_lock.hpp"

namespace prime::cli {
namespace {

/// The key is born with the run, and leaves it only in the invite file, and from there in invites. Who serves the run again takes it from
/// there.
Result<CoordinatorOptions> options_of(const CoordinatorArguments& arguments, launch::CoordinatorPlan plan) {
  auto key = net::RunKey::generate();
  const bool stands_by = !plan.invite.empty();
  if (stands_by) {
    PRIME_TRY(const auto invite, net::parse_invite(plan.invite));
    key = invite.key;
  }
  if (arguments.again) {
    PRIME_TRY(const auto text, launch::read_invite(arguments.directory));
    PRIME_TRY(const auto invite, net::parse_invite(text));
    key = invite.key;
  }
  auto for_standbys = launch::format_standby_plan(plan, key);
  return CoordinatorOptions{plan.run,
                            key,
                            std::move(plan.manifest),
                            plan.listen,
                            arguments.directory,
                            plan.origin,
                            plan.fresh,
                            plan.start_quorum,
                            std::move(plan.founders),
                            arguments.again,
                            arguments.killed,
                            stands_by || arguments.again,
                            std::move(for_standbys),
                            *arguments.guard};
}

Result<void> serve(const CoordinatorArguments& arguments, std::optional<int>& ready) {
  launch::end_with(static_cast<pid_t>(*arguments.guard));
  PRIME_TRY(const auto text, launch::take_plan_from_stdin());
  PRIME_TRY(auto plan, launch::parse_coordinator_plan(text));
  PRIME_TRY(const auto options, options_of(arguments, std::move(plan)));
  return run_coordinator(options, [&](const ServedAt& served) {
    const auto written = launch::write_invite(options.directory, net::format_invite({served.addresses, options.run, options.key}));
    const auto descriptor = *std::exchange(ready, std::nullopt);
    if (written)
      launch::announce(descriptor, nlohmann::json{{"addresses", net::format_addresses(served.addresses)}, {"port", served.port}});
    else launch::announce(descriptor, written.error());
  });
}

Result<int> guard(const CoordinatorArguments& arguments, std::optional<int>& ready) {
  PRIME_TRY(auto text, launch::take_plan_from_stdin());
  PRIME_TRY(const auto plan, launch::parse_coordinator_plan(text));
  // The coordinator ends with its guard, so that one lock is enough for both.
  PRIME_TRY(const auto lock, telemetry::RunLock::take(std::filesystem::path{arguments.directory} / "coordinator"));
  const store::KeptPlace place{arguments.directory};
  const auto grace = plan.manifest.shared.membership.coordinator_grace;
  auto outcome = launch::guard_coordinator({own_program(), arguments.directory, std::move(text), grace}, [&](const nlohmann::json& said) {
    launch::announce(*std::exchange(ready, std::nullopt), said);
  });
  // The coordinator could not say why it ended; `status` reads it here.
  if (!outcome && !ready) note_end(place.now(), outcome.error());
  return outcome;
}

}  // namespace

int run_command(const CoordinatorArguments& arguments, Terminal& terminal) {
  std::optional<int> ready = arguments.ready_descriptor;
  std::optional<Error> error;
  int exit_code = 0;
  if (arguments.guard) {
    if (auto served = serve(arguments, ready); !served) error = std::move(served.error());
  } else if (const auto guarded = guard(arguments, ready)) {
    exit_code = *guarded;
  } else {
    error = guarded.error();
  }
  if (!error) return exit_code;
  if (ready) launch::announce(*ready, *error);
  return terminal.complain(*error);
}

}  // namespace prime::cli
