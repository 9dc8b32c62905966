// Owns the hidden `primectl coordinator`: the process that serves a run. `up` starts it.
#include <optional>
#include <utility>

#include "cli/commands.hpp"
#include "cli/terminal.hpp"
#include "runtime/agent/processes.hpp"
#include "runtime/launch/launch_plan.hpp"
#include "runtime/launch/readiness.hpp"
#include "runtime/launch/run_directory.hpp"

namespace prime::cli {
namespace {

Result<void> serve(const CoordinatorArguments& arguments, std::optional<int>& ready) {
  PRIME_TRY(const auto text, launch::take_plan_from_stdin());
  PRIME_TRY(auto plan, launch::parse_coordinator_plan(text));
  // The key is born here and leaves this process only in the invite file, and from there in invites.
  const CoordinatorOptions options{std::move(plan.run),    net::RunKey::generate(), std::move(plan.manifest),
                                   std::move(plan.listen), arguments.directory,     plan.start_quorum};
  return run_coordinator(options, [&](const Endpoint& address) {
    const auto written = launch::write_invite(options.directory, net::format_invite({address, options.run, options.key}));
    const auto descriptor = *std::exchange(ready, std::nullopt);
    if (written) launch::announce(descriptor, nlohmann::json{{"address", net::format_endpoint(address)}});
    else launch::announce(descriptor, written.error());
  });
}

}  // namespace

int run_command(const CoordinatorArguments& arguments, Terminal& terminal) {
  std::optional<int> ready = arguments.ready_descriptor;
  const auto outcome = serve(arguments, ready);
  if (outcome) return 0;
  if (ready) launch::announce(*ready, outcome.error());
  return terminal.complain(outcome.error());
}

}  // namespace prime::cli
