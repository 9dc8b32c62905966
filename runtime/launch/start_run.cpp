#include "runtime/launch/start_run.hpp"

#include <algorithm>
#include <unistd.h>
#include <utility>

#include "runtime/launch/launch_plan.hpp"
#include "runtime/launch/run_directory.hpp"
#include "runtime/launch/stop_processes.hpp"
#include "runtime/net/run_key.hpp"

namespace prime::launch {
namespace fs = std::filesystem;
namespace {

constexpr Duration COORDINATOR_START_LIMIT{30s};
/// Looking up the address, the handshake and the welcome.
constexpr Duration AGENT_START_LIMIT{60s};
constexpr Duration STOP_PATIENCE{5s};

std::vector<std::string> command_of(const std::string& program, const char* command, const fs::path& directory) {
  return {program, command, "--directory", directory.string(), "--ready-fd", std::to_string(READY_DESCRIPTOR)};
}

Result<LaunchedProcess> launch_coordinator(const RunRequest& request, const std::string& run, const fs::path& directory) {
  const auto wanted = request.quorum > 0 ? request.quorum : request.peers;
  const CoordinatorPlan plan{run, request.manifest, request.listen, std::max(request.manifest.shared.membership.peers.minimum, wanted)};
  return LaunchedProcess::start(
      {command_of(request.program, "coordinator", directory), format_plan(plan), directory / "coordinator" / "coordinator.log"});
}

/// Its log lies beside the peers' directories at first: an agent draws its own name, so its directory is not known yet.
Result<LaunchedProcess> launch_agent(const std::string& program, const fs::path& directory, const AgentPlan& plan, std::uint32_t index) {
  const auto log = "agent-" + std::to_string(::getpid()) + "-" + std::to_string(index) + ".log";
  return LaunchedProcess::start({command_of(program, "agent", directory), format_plan(plan), directory / "peers" / log});
}

Result<StartedPeer> welcome(LaunchedProcess process, int interrupt) {
  auto said = process.readiness(AGENT_START_LIMIT, interrupt);
  if (!said) {
    stop_processes(std::vector{process.identity()}, StopLimits{STOP_PATIENCE});
    return fail(std::move(said).error());
  }
  StartedPeer peer{said->value("peer", std::string{}), said->value("name", std::string{}), said->value("directory", std::string{}),
                   std::move(process)};
  peer.process.move_log(peer.directory / "agent.log");
  return peer;
}

/// All are started before the first is waited for, so that they come up at the same time.
Result<void> start_agents(const RunRequest& request, StartedRun& run) {
  auto local = request.manifest.local;
  local.network.listen = net::format_endpoint(Endpoint{request.listen.host, 0});
  std::vector<LaunchedProcess> processes;
  Result<void> outcome;
  for (std::uint32_t index = 0; index < request.peers && outcome; ++index) {
    auto process = launch_agent(request.program, run.directory, AgentPlan{run.invite, "", local}, index);
    if (process) processes.push_back(std::move(*process));
    else outcome = fail(std::move(process).error());
  }
  for (auto& process : processes) {
    const auto identity = process.identity();
    auto peer = outcome ? welcome(std::move(process), request.interrupt) : Result<StartedPeer>{fail(outcome.error())};
    if (peer) {
      run.peers.push_back(std::move(*peer));
    } else {
      stop_processes(std::vector{identity}, StopLimits{STOP_PATIENCE});
      if (outcome) outcome = fail(std::move(peer).error().with_context("starting a peer"));
    }
  }
  return outcome;
}

void stop_run(const StartedRun& run) {
  std::vector<telemetry::ProcessIdentity> agents;
  for (const auto& peer : run.peers) agents.push_back(peer.process.identity());
  stop_processes(agents, StopLimits{STOP_PATIENCE});
  stop_processes(std::vector{run.coordinator.identity()}, StopLimits{STOP_PATIENCE});
}

}  // namespace

Result<void> check_start(const manifest::Manifest& manifest, std::uint32_t peers, std::uint32_t quorum) {
  const auto maximum = manifest.shared.membership.peers.maximum;
  for (const auto& [option, value] : {std::pair{"--local ", peers}, std::pair{"--quorum ", quorum}})
    if (value > maximum)
      return fail(ErrorName::Usage, option + std::to_string(value) + " is more than `membership.peers` admits, " + std::to_string(maximum));
  const auto data = manifest.local.data_path.value_or(manifest.shared.data.path);
  if (manifest.local.trainer_command.empty() && ::access(data.c_str(), R_OK) != 0) return fail(ErrorName::DataUnreadable, data);
  return {};
}

Result<StartedRun> start_run(const RunRequest& request) {
  const auto run = make_run_id(request.manifest.shared.run);
  PRIME_TRY(const auto directory, make_run_directory(request.state_root, run, request.manifest));
  PRIME_TRY(auto coordinator, launch_coordinator(request, run, directory));
  StartedRun started{run, {}, directory, {}, std::move(coordinator), {}};
  const auto bring_up = [&]() -> Result<void> {
    PRIME_TRY(const auto said, started.coordinator.readiness(COORDINATOR_START_LIMIT, request.interrupt));
    started.address = said.value("address", std::string{});
    PRIME_TRY(started.invite, read_invite(directory));
    return start_agents(request, started);
  };
  if (auto up = bring_up(); !up) {
    stop_run(started);
    return fail(std::move(up).error());
  }
  return started;
}

Result<StartedPeer> start_peer(const PeerRequest& request) {
  std::error_code error;
  fs::create_directories(request.run_directory / "peers", error);
  if (error) return fail(store::storage_error("create", request.run_directory, error.value()));
  PRIME_TRY(auto process, launch_agent(request.program, request.run_directory, AgentPlan{request.invite, request.name, request.local}, 0));
  return welcome(std::move(process), request.interrupt);
}

}  // namespace prime::launch
