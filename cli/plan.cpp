// Owns `primectl plan`: what a run will cost, from its manifest alone.
#include "runtime/planning/plan.hpp"

#include "cli/commands.hpp"
#include "cli/render/plan_text.hpp"
#include "cli/terminal.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {

int run_command(const PlanArguments& arguments, Terminal& terminal) {
  const auto outcome = manifest::load_manifest(arguments.file, arguments.overrides);
  if (!outcome) {
    terminal.complain(manifest::render(outcome));
    return info(manifest::first_error(outcome).name).exit_code;
  }
  const planning::Circumstances circumstances{arguments.link_bits_per_s, arguments.peers, arguments.step_time, arguments.mtbf,
                                              arguments.recovery};
  const auto plan = planning::make_plan(*outcome.manifest, circumstances);
  if (!plan) return terminal.complain(plan.error());
  if (terminal.json()) {
    terminal.print(telemetry::dump(plan_json(*plan)) + "\n");
    return 0;
  }
  terminal.print(plan_text(*plan, terminal.style()));
  for (const auto& missing : what_is_missing(*plan)) terminal.say("Missing", missing, Role::Name);
  return 0;
}

}  // namespace prime::cli
