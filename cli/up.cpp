// Owns `primectl up`: from a manifest to a run, in the background or watched until its end.
#include <chrono>
#include <cstdlib>

#include "cli/attendance.hpp"
#include "cli/commands.hpp"
#include "cli/interrupts.hpp"
#include "cli/programs.hpp"
#include "cli/render/figures.hpp"
#include "cli/terminal.hpp"
#include "runtime/launch/start_run.hpp"
#include "runtime/manifest/canonical.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/net/run_key.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/status_json.hpp"

namespace prime::cli {
namespace {

std::string names_of(const launch::StartedRun& run) {
  std::string names;
  for (const auto& peer : run.peers) names += (names.empty() ? "" : ", ") + peer.name;
  return names;
}

nlohmann::ordered_json to_json(const launch::StartedRun& run) {
  auto peers = nlohmann::ordered_json::array();
  for (const auto& peer : run.peers) peers.push_back({{"id", peer.id}, {"name", peer.name}, {"pid", peer.process.pid()}});
  return {{"schema", "primectl.up/1"},
          {"run_id", run.run},
          {"invite", run.invite},
          {"state_dir", run.directory.string()},
          {"coordinator", {{"pid", run.coordinator.pid()}, {"address", run.address}}},
          {"peers", std::move(peers)}};
}

Result<launch::RunRequest> request_of(const UpArguments& arguments, manifest::Manifest manifest, const Interrupts& interrupts) {
  const auto peers = arguments.local.value_or(1);
  PRIME_CHECK(launch::check_start(manifest, peers, arguments.quorum.value_or(0)));
  PRIME_TRY(auto root, telemetry::state_root(arguments.common.state_dir));
  PRIME_TRY(auto listen, net::parse_endpoint(arguments.listen.empty() ? manifest.local.network.listen : arguments.listen));
  return launch::RunRequest{own_program(),     std::move(root),        std::move(manifest), peers, arguments.quorum.value_or(0),
                            std::move(listen), interrupts.descriptor()};
}

std::string join_line(const launch::StartedRun& run, const launch::RunRequest& request) {
  const bool loopback = request.listen.host.starts_with("127.") || request.listen.host == "::1" || request.listen.host == "localhost";
  return "primectl join '" + run.invite + "'" + (loopback ? "   (this machine only; --listen HOST:PORT for others)" : "");
}

}  // namespace

int run_command(const UpArguments& arguments, Terminal& terminal) {
  auto loaded = manifest::load_manifest(arguments.file, arguments.overrides);
  if (!loaded) {
    terminal.complain(manifest::render(loaded));
    return info(manifest::first_error(loaded).name).exit_code;
  }
  terminal.say("Validating", arguments.file + " (digest " + to_string(manifest::run_digest(*loaded.manifest)).substr(0, 8) + ")");
  Interrupts interrupts;
  auto request = request_of(arguments, std::move(*loaded.manifest), interrupts);
  if (!request) return terminal.complain(request.error());
  terminal.say("Starting",
               "a coordinator and " + std::to_string(request->peers) + (request->peers == 1 ? " peer" : " peers") + " on this machine");
  const auto since = std::chrono::steady_clock::now();
  auto run = launch::start_run(*request);
  if (!run) return terminal.complain(run.error());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - since;
  terminal.say("Ready", run->run + " at " + run->address + " in " + elapsed_figure(took.count()) + ": " + names_of(*run));
  if (arguments.detach) {
    if (terminal.json()) terminal.print(telemetry::dump(to_json(*run)) + "\n");
    else
      terminal.print("run " + run->run + " goes on in the background\n\n  primectl status " + run->run + "\n  primectl down " + run->run +
                     "\n  " + join_line(*run, *request) + "\n");
    return 0;
  }
  terminal.say("Join", join_line(*run, *request));
  return Attendance{terminal, interrupts, *request, *run}.until_the_end();
}

}  // namespace prime::cli
