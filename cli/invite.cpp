// Owns `primectl invite`: the string that lets a machine join, once more.
#include "cli/commands.hpp"
#include "cli/observing.hpp"
#include "cli/programs.hpp"
#include "cli/render/join_line.hpp"
#include "cli/terminal.hpp"
#include "runtime/launch/run_directory.hpp"
#include "runtime/telemetry/run_choice.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

Result<std::string> invite_of(const std::filesystem::path& directory, const telemetry::RunStatus& status) {
  if (auto elsewhere = coordinator_elsewhere(status, "invite")) return fail(*std::move(elsewhere));
  if (is_over(status.state)) return fail(ErrorName::RunDone, directory.filename().string() + " is " + std::string{to_string(status.state)});
  return launch::read_invite(directory);
}

}  // namespace

int run_command(const InviteArguments& arguments, Terminal& terminal) {
  const auto directory = chosen_run(arguments.common.state_dir, arguments.run, terminal);
  if (!directory) return terminal.complain(directory.error());
  telemetry::RunObserver observer{*directory};
  look_at(observer, terminal);
  const auto invite = invite_of(*directory, observer.status());
  if (!invite) return terminal.complain(invite.error());
  if (terminal.json()) {
    terminal.print(telemetry::dump({{"schema", "primectl.invite/1"}, {"run_id", directory->filename().string()}, {"invite", *invite}}) +
                   "\n");
    return 0;
  }
  terminal.print(*invite + "\n");
  // Of a sharded run the line has more than the invite.
  if (auto shared = launch::read_manifest(*directory))
    terminal.say("Join", "by\n  " + join_line(typed_program(), *invite, manifest::Manifest{*std::move(shared), {}}));
  return 0;
}

}  // namespace prime::cli
