// Owns `primectl standby`: this machine's coordinator waits until the one that leads the run is gone, and serves the run then.
#include <optional>
#include <poll.h>
#include <sys/wait.h>

#include "cli/commands.hpp"
#include "cli/given_invite.hpp"
#include "cli/interrupts.hpp"
#include "cli/patience.hpp"
#include "cli/programs.hpp"
#include "cli/render/shell_word.hpp"
#include "cli/terminal.hpp"
#include "runtime/launch/start_run.hpp"
#include "runtime/launch/stop_processes.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/manifest/text_rules.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

/// Of the local half alone: the rest is the run's.
Result<manifest::Local> local_of(const StandbyArguments& arguments) {
  for (const auto& text : arguments.overrides)
    if (!text.starts_with("local."))
      return fail(ErrorName::Usage, "`--set " + text + "`: a standby sets only keys of `local`; the rest comes from the run");
  auto loaded = manifest::parse_manifest("version: 1\nrun: standby\n", "the defaults", arguments.overrides);
  if (!loaded) return fail(manifest::first_error(loaded).name, manifest::render(loaded));
  return std::move(loaded.manifest->local);
}

Result<launch::StandbyRequest> request_of(const StandbyArguments& arguments) {
  PRIME_TRY(auto given, given_invite(arguments.invite));
  for (const auto& url : arguments.etcd)
    if (!manifest::is_url(url))
      return fail(ErrorName::Usage, "`--etcd " + url + "`: it must be " + std::string{manifest::URL_RULE.expected});
  PRIME_TRY(auto local, local_of(arguments));
  launch::StandbyRequest request{own_program(), {}, std::move(given.text), arguments.etcd, std::move(local), {}, -1};
  if (!arguments.listen.empty()) {
    PRIME_TRY(request.listen, net::parse_endpoint(arguments.listen));
  }
  PRIME_TRY(const auto root, telemetry::state_root(arguments.common.state_dir));
  request.run_directory = root / given.invite.run;
  return request;
}

void tell_detached(const StandbyArguments& arguments, const launch::StandbyRequest& request, const launch::StartedStandby& standby,
                   Terminal& terminal) {
  const auto run = request.run_directory.filename().string();
  if (terminal.json()) {
    terminal.print(telemetry::dump({{"schema", "primectl.standby/1"},
                                    {"run_id", run},
                                    {"state_dir", request.run_directory.string()},
                                    {"address", standby.addresses},
                                    {"pid", standby.guard.pid()}}) +
                   "\n");
    return;
  }
  const auto line = [&](const char* command) {
    return "  " + typed_program() + command + run + state_dir_option(arguments.common.state_dir) + "\n";
  };
  terminal.print("stands by for " + run + " at " + standby.addresses + " in the background\n\n" + line(" status ") + line(" down "));
}

/// In the foreground it ends with its guard, whose exit code it has.
int attend(launch::StartedStandby& standby, Interrupts& interrupts) {
  for (;;) {
    if (const auto status = standby.guard.reap()) return WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status);
    pollfd watched[]{{standby.guard.pid_descriptor(), POLLIN, 0}, {interrupts.descriptor(), POLLIN, 0}};
    ::poll(watched, 2, -1);
    if (interrupts.take()) launch::stop_processes(std::vector{standby.guard.identity()}, launch::StopLimits{COORDINATOR_PATIENCE});
  }
}

}  // namespace

int run_command(const StandbyArguments& arguments, Terminal& terminal) {
  auto request = request_of(arguments);
  if (!request) return terminal.complain(request.error());
  Interrupts interrupts;
  request->interrupt = interrupts.descriptor();
  auto standby = launch::start_standby(*request);
  if (!standby) return terminal.complain(standby.error());
  if (arguments.detach) {
    tell_detached(arguments, *request, *standby, terminal);
    return 0;
  }
  terminal.say("Standing by", "for " + request->run_directory.filename().string() + " at " + standby->addresses);
  return attend(*standby, interrupts);
}

}  // namespace prime::cli
