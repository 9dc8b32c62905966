// Owns `primectl replay`: every version of a run, made again.
#include "cli/commands.hpp"
#include "cli/render/replay_text.hpp"
#include "cli/terminal.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

Result<replay::Replay> replayed(const ReplayArguments& arguments) {
  PRIME_TRY(const auto root, telemetry::existing_state_root(arguments.common.state_dir));
  PRIME_TRY(const auto directory, telemetry::find_run(root, arguments.run));
  return replay::replay({directory, {arguments.contributions.begin(), arguments.contributions.end()}});
}

}  // namespace

int run_command(const ReplayArguments& arguments, Terminal& terminal) {
  const auto replay = replayed(arguments);
  if (!replay) return terminal.complain(replay.error());
  terminal.print(terminal.json() ? telemetry::dump(replay_json(*replay)) + "\n" : replay_text(*replay));
  return replay->difference ? info(ErrorName::ProofRefused).exit_code : 0;
}

}  // namespace prime::cli
