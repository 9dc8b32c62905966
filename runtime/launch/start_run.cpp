#include "runtime/launch/start_run.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>
#include <unistd.h>
#include <utility>

#include "runtime/agent/random_id.hpp"
#include "runtime/etcd/run_store.hpp"
#include "runtime/launch/find_checkpoint.hpp"
#include "runtime/launch/launch_plan.hpp"
#include "runtime/launch/network_ports.hpp"
#include "runtime/launch/run_directory.hpp"
#include "runtime/launch/stop_processes.hpp"
#include "runtime/manifest/check.hpp"
#include "runtime/net/reachable.hpp"
#include "runtime/net/run_key.hpp"
#include "runtime/shortage.hpp"
#include "runtime/store/atomic_file.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/telemetry/run_observer.hpp"
#include "runtime/trainer/data/corpus.hpp"

namespace prime::launch {
namespace fs = std::filesystem;
namespace {

constexpr Duration COORDINATOR_START_LIMIT{30s};
/// Looking up the address, the handshake and the welcome.
constexpr Duration AGENT_START_LIMIT{60s};
constexpr Duration STOP_PATIENCE{5s};
/// Of one call of etcd, whose lease is not known yet.
constexpr Duration STORE_LIMIT{5s};
/// Of the first one: an etcd may be slow to answer first.
constexpr int STORE_TRIES = 3;

std::vector<std::string> command_of(const std::string& program, const char* command, const fs::path& directory) {
  return {program, command, "--directory", directory.string(), "--ready-fd", std::to_string(READY_DESCRIPTOR)};
}

Result<LaunchedProcess> launch_coordinator(const RunRequest& request, const std::string& run, const fs::path& directory,
                                           const std::vector<std::string>& founders) {
  const auto wanted = request.quorum > 0 ? request.quorum : request.peers;
  const CoordinatorPlan plan{
      run,           request.manifest, request.listen, std::max(request.manifest.shared.membership.peers.minimum, wanted), request.origin,
      request.fresh, founders};
  return LaunchedProcess::start(
      {command_of(request.program, "coordinator", directory), format_plan(plan), directory / "coordinator" / "coordinator.log"});
}

/// Names for peers that start together, no two alike: there are a thousand, of which eight agents would draw one twice in 3 % of runs.
class Names {
 public:
  std::string next() {
    for (int attempt = 0; attempt < 100; ++attempt)
      if (auto name = readable_name(random_peer_id()); drawn_.insert(name).second) return name;
    return {};  // so many are there that the agent's own draw does as well
  }

 private:
  std::set<std::string> drawn_;
};

/// It lies beside the peers' directories at first: an agent's id is its own to draw, so its directory is not known yet. Other machines may
/// start peers of the run in the same directory, under the same process number.
fs::path agent_log(const fs::path& directory, std::uint32_t index) {
  static const auto starter = to_string(random_peer_id());
  return directory / "peers" / ("agent-" + starter + "-" + std::to_string(index) + ".log");
}

Result<LaunchedProcess> launch_agent(const std::string& program, const fs::path& directory, const AgentPlan& plan, std::uint32_t index) {
  return LaunchedProcess::start({command_of(program, "agent", directory), format_plan(plan), agent_log(directory, index)});
}

Result<StartedPeer> welcome(LaunchedProcess process, const AgentPlan& plan, int interrupt) {
  auto said = process.readiness(AGENT_START_LIMIT, interrupt);
  if (!said) {
    stop_processes(std::vector{process.identity()}, StopLimits{STOP_PATIENCE});
    return fail(std::move(said).error());
  }
  StartedPeer peer{said->value("peer", std::string{}),
                   said->value("name", std::string{}),
                   said->value("directory", std::string{}),
                   std::move(process),
                   plan.replica,
                   plan.shard};
  peer.process.move_log(peer.directory / "agent.log");
  return peer;
}

/// All are started before the first is waited for, so that they come up at the same time. All or none.
Result<std::vector<StartedPeer>> launch_agents(const std::string& program, const fs::path& directory, const std::vector<AgentPlan>& plans,
                                               int interrupt) {
  std::vector<LaunchedProcess> processes;
  std::optional<Error> failed;
  for (std::uint32_t index = 0; index < plans.size() && !failed; ++index) {
    auto process = launch_agent(program, directory, plans[index], index);
    if (process) processes.push_back(std::move(*process));
    else failed = std::move(process).error();
  }
  std::vector<telemetry::ProcessIdentity> started;
  for (const auto& process : processes) started.push_back(process.identity());
  std::vector<StartedPeer> peers;
  for (std::size_t i = 0; i < processes.size() && !failed; ++i) {
    auto peer = welcome(std::move(processes[i]), plans[i], interrupt);
    if (peer) peers.push_back(std::move(*peer));
    else failed = std::move(peer).error();
  }
  if (!failed) return peers;
  stop_processes(started, StopLimits{STOP_PATIENCE});
  return fail(std::move(*failed));
}

/// `names`: of the peers; shards: of the replicas.
Result<void> start_agents(const RunRequest& request, StartedRun& run, const std::vector<std::string>& names) {
  // They dial what the coordinator listens at, which the addresses that others know it by may not lead to from here.
  PRIME_TRY(auto invite, net::parse_invite(run.invite));
  const auto host = net::listening_for(request.listen).at.host;
  invite.addresses = Endpoint{net::is_wildcard(host) ? "localhost" : host, run.port};
  AgentPlan plan{net::format_invite(invite), "", request.manifest.local, ""};
  const auto shards = request.manifest.shared.membership.shards;
  std::vector<AgentPlan> plans;
  for (std::uint32_t index = 0; index < request.peers * shards; ++index) {
    plan.shard = index % shards;
    PRIME_TRY(plan.local.network, network_of(request.manifest.local.network, request.first_peer_port + index, 1 + index));
    if (!plan.local.network.listen) plan.local.network.listen = net::format_endpoint({request.listen.host, 0});
    (shards == 1 ? plan.name : plan.replica) = names[index / shards];
    if (!request.checkpoints.empty()) plan.checkpoint = request.checkpoints.at(plan.shard).string();
    if (!request.private_states.empty()) plan.private_state = request.private_states.at(index / shards).at(plan.shard).string();
    plans.push_back(plan);
  }
  auto peers = launch_agents(request.program, run.directory, plans, request.interrupt);
  if (!peers) return fail(std::move(peers).error().with_context("starting a peer"));
  run.peers = *std::move(peers);
  return {};
}

void stop_run(const StartedRun& run) {
  std::vector<telemetry::ProcessIdentity> agents;
  for (const auto& peer : run.peers) agents.push_back(peer.process.identity());
  stop_processes(agents, StopLimits{STOP_PATIENCE});
  stop_processes(std::vector{run.coordinator.identity()}, StopLimits{STOP_PATIENCE});
}

/// Its cause is told by now; only one that names a log needs it.
bool needs_log(const Error& error) { return error.name == ErrorName::ProcessFailed; }

/// Of a run that never began: it would be listed as one that failed. Unless some peers have trained while others could not be started.
void remove_run(const fs::path& directory) {
  if (!has_checkpoint(directory)) static_cast<void>(store::remove_directory_atomically(directory));
}

/// Of a standby that never stood by; peers of the run may be here.
void remove_coordinator(const fs::path& run_directory) {
  static_cast<void>(store::remove_directory_atomically(run_directory / "coordinator"));
  if (telemetry::peer_journals(run_directory).empty()) remove_run(run_directory);
}

/// Of peers that the run never let in; directories that hold nothing else go with them.
void remove_peers(const fs::path& run_directory, std::uint32_t count) {
  std::error_code ignored;
  for (std::uint32_t index = 0; index < count; ++index) fs::remove(agent_log(run_directory, index), ignored);
  for (const auto& path : {run_directory / "peers", run_directory}) fs::remove(path, ignored);
}

}  // namespace

// As execvp looks for it.
Result<void> check_trainer(const manifest::Local& local) {
  if (local.trainer_command.empty()) return {};
  const auto& program = local.trainer_command.front();
  const auto can_run = [](const fs::path& path) { return ::access(path.c_str(), X_OK) == 0 && !fs::is_directory(path); };
  const auto cannot = [&](const std::string& why) {
    return fail(ErrorName::ProcessFailed, "`local.trainer_command` names `" + program + "`, which " + why);
  };
  if (program.find('/') != std::string::npos) {
    if (can_run(program)) return {};
    return cannot(fs::exists(program) ? "is no program that may be run" : "is not there");
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders{path != nullptr ? path : "/bin:/usr/bin"};
  for (std::string folder; std::getline(folders, folder, ':');)
    if (can_run(fs::path{folder.empty() ? "." : folder} / program)) return {};
  return cannot("is in no folder of PATH");
}

Result<void> check_start(const manifest::Manifest& manifest, std::uint32_t peers, std::uint32_t quorum,
                         const data::OnProgress& on_progress) {
  const auto maximum = manifest.shared.membership.peers.maximum;
  for (const auto& [option, value] : {std::pair{"--local ", peers}, std::pair{"--quorum ", quorum}})
    if (value > maximum)
      return fail(ErrorName::Usage, option + std::to_string(value) + " is more than `membership.peers` admits, " + std::to_string(maximum));
  const auto& membership = manifest.shared.membership;
  const auto first = std::max({peers, quorum, membership.peers.minimum});  // that must be there for the first step
  PRIME_CHECK(check_descriptors(std::uint64_t{first} * membership.shards, manifest.shared.sync.wire.streams));
  if (peers == 0) return {};  // nobody here trains
  PRIME_CHECK(check_trainer(manifest.local));
  PRIME_CHECK(manifest::check_shards(manifest.shared, manifest.local));
  if (!manifest.local.trainer_command.empty()) return {};  // what a trainer of one's own reads is its own affair
  PRIME_CHECK(data::Corpus::open(manifest, on_progress));
  return {};
}

Result<StartedRun> start_run(const RunRequest& request) {
  const auto run = make_run_id(request.manifest.shared.run);
  const auto directory = request.state_root / run;
  Names draw;
  std::vector<std::string> names(request.peers);
  std::ranges::generate(names, [&] { return draw.next(); });
  const auto launch = [&]() -> Result<LaunchedProcess> {
    PRIME_CHECK(make_run_directory(directory, request.manifest));
    return launch_coordinator(request, run, directory, names);
  };
  auto coordinator = launch();
  if (!coordinator) {
    remove_run(directory);
    return fail(std::move(coordinator).error());
  }
  StartedRun started{run, {}, directory, {}, 0, 0, *std::move(coordinator), {}};
  const auto bring_up = [&]() -> Result<void> {
    PRIME_TRY(const auto said, started.coordinator.readiness(COORDINATOR_START_LIMIT, request.interrupt));
    PRIME_TRY(started.addresses, net::parse_addresses(said.value("addresses", std::string{})));
    started.port = said.value("port", std::uint16_t{0});
    started.coordinator_pid = said.value("pid", pid_t{0});
    PRIME_TRY(started.invite, read_invite(directory));
    return start_agents(request, started, names);
  };
  if (auto up = bring_up(); !up) {
    stop_run(started);
    if (!needs_log(up.error())) remove_run(directory);
    return fail(std::move(up).error());
  }
  return started;
}

std::string draw_replica_name() { return Names{}.next() + "-" + to_string(random_peer_id()).substr(0, 4); }

Result<std::vector<StartedPeer>> start_peers(const PeerRequest& request) {
  std::error_code error;
  fs::create_directories(request.run_directory / "peers", error);
  if (error) return fail(store::storage_error("create", request.run_directory, error.value()));
  std::vector<AgentPlan> plans;
  for (const auto shard : request.shards) {
    auto local = request.local;
    const auto place = static_cast<std::uint32_t>(plans.size());
    PRIME_TRY(local.network, network_of(std::move(local.network), place, place));
    plans.push_back({request.invite, request.name, std::move(local), {}, {}, request.replica, shard, request.whole});
  }
  auto peers = launch_agents(request.program, request.run_directory, plans, request.interrupt);
  if (!peers && !needs_log(peers.error())) remove_peers(request.run_directory, static_cast<std::uint32_t>(request.shards.size()));
  return peers;
}

Result<StartedStandby> start_standby(const StandbyRequest& request) {
  PRIME_TRY(const auto invite, net::parse_invite(request.invite));
  telemetry::RunObserver observer{request.run_directory};
  observer.settle();
  for (const auto& foreign : observer.foreign())
    if (foreign.coordinator)
      return fail(ErrorName::RunElsewhere, "a coordinator of " + invite.run + " has its files in " + request.run_directory.string() +
                                               ", and runs " + telemetry::place_text(foreign.process.place) +
                                               "; `--state-dir` names another place for the one here");
  if (fs::exists(telemetry::coordinator_journal(request.run_directory)))
    return fail(ErrorName::Usage, "a coordinator of " + invite.run + " has its files in " + request.run_directory.string() +
                                      " already; `primectl remove " + invite.run +
                                      "` takes them away once it has ended, or `--state-dir` names another place");
  PRIME_TRY(const auto access, etcd::access_of(request.etcd, request.local.etcd));
  etcd::RunStore store{access, invite.run, STORE_LIMIT};
  auto known = store.plan();
  for (int again = 1; !known && !store.refused() && again < STORE_TRIES; ++again) known = store.plan();
  PRIME_TRY(const auto text, std::move(known));
  if (!text)
    return fail(ErrorName::RunUnknown,
                "etcd has nothing of " + invite.run + "; `membership.standby.etcd` of its manifest names the one that has");
  PRIME_TRY(auto plan, parse_coordinator_plan(*text));
  // Led by another key the run would be lost: no peer could come back to it.
  if (plan.key_check != net::key_check(invite.key, invite.run))
    return fail(ErrorName::KeyRefused, "the invite has another key than " + invite.run + ", as etcd knows it");
  plan.invite = request.invite;
  plan.manifest.local = request.local;
  if (request.listen) {
    plan.listen = *request.listen;
  } else {
    PRIME_TRY(const auto own, net::addresses_towards(invite.addresses, STORE_LIMIT));
    plan.listen = net::listen_towards(own);
  }
  PRIME_CHECK(make_run_directory(request.run_directory, plan.manifest));
  PRIME_TRY(auto guard, LaunchedProcess::start({command_of(request.program, "coordinator", request.run_directory), format_plan(plan),
                                                request.run_directory / "coordinator" / "coordinator.log"}));
  auto said = guard.readiness(COORDINATOR_START_LIMIT, request.interrupt);
  if (!said) {
    stop_processes(std::vector{guard.identity()}, StopLimits{STOP_PATIENCE});
    // What another one has taken meanwhile is not ours to remove.
    telemetry::LockWatch lock{request.run_directory / "coordinator"};
    const bool anothers = telemetry::settled_look(lock, {}, false) != telemetry::Presence::Gone;
    if (!needs_log(said.error()) && !anothers) remove_coordinator(request.run_directory);
    return fail(std::move(said).error());
  }
  return StartedStandby{said->value("addresses", std::string{}), std::move(guard)};
}

}  // namespace prime::launch
