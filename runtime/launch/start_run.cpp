#include "runtime/launch/start_run.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <unistd.h>
#include <utility>

#include "runtime/agent/random_id.hpp"
#include "runtime/etcd/run_store.hpp"
#include "runtime/launch/launch_plan.hpp"
#include "runtime/launch/run_directory.hpp"
#include "runtime/launch/stop_processes.hpp"
#include "runtime/manifest/continuation.hpp"
#include "runtime/manifest/load.hpp"
#include "runtime/net/reachable.hpp"
#include "runtime/net/run_key.hpp"
#include "runtime/store/atomic_file.hpp"
#include "runtime/store/journal.hpp"
#include "runtime/telemetry/journal_fields.hpp"
#include "runtime/telemetry/run_files.hpp"
#include "runtime/trainer/corpus.hpp"

namespace prime::launch {
namespace fs = std::filesystem;
namespace {

constexpr Duration COORDINATOR_START_LIMIT{30s};
/// Looking up the address, the handshake and the welcome.
constexpr Duration AGENT_START_LIMIT{60s};
constexpr Duration STOP_PATIENCE{5s};
/// Of one call of etcd, whose lease is not known yet.
constexpr Duration STORE_LIMIT{5s};

std::vector<std::string> command_of(const std::string& program, const char* command, const fs::path& directory) {
  return {program, command, "--directory", directory.string(), "--ready-fd", std::to_string(READY_DESCRIPTOR)};
}

Result<LaunchedProcess> launch_coordinator(const RunRequest& request, const std::string& run, const fs::path& directory) {
  const auto wanted = request.quorum > 0 ? request.quorum : request.peers;
  const CoordinatorPlan plan{run, request.manifest, request.listen, std::max(request.manifest.shared.membership.peers.minimum, wanted),
                             request.origin};
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

/// It lies beside the peers' directories at first: an agent's id is its own to draw, so its directory is not known yet.
fs::path agent_log(const fs::path& directory, std::uint32_t index) {
  return directory / "peers" / ("agent-" + std::to_string(::getpid()) + "-" + std::to_string(index) + ".log");
}

Result<LaunchedProcess> launch_agent(const std::string& program, const fs::path& directory, const AgentPlan& plan, std::uint32_t index) {
  return LaunchedProcess::start({command_of(program, "agent", directory), format_plan(plan), agent_log(directory, index)});
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
  // They dial what the coordinator listens at, which the address that others know it by may not lead to from here.
  PRIME_TRY(auto invite, net::parse_invite(run.invite));
  auto local = request.manifest.local;
  local.network.listen = net::format_endpoint(Endpoint{request.listen.host, 0});
  if (net::is_wildcard(request.listen.host)) local.network.advertise = std::exchange(invite.address.host, "localhost");
  else invite.address.host = request.listen.host;
  AgentPlan plan{net::format_invite(invite), "", local, request.checkpoint.string()};
  Names names;
  std::vector<LaunchedProcess> processes;
  Result<void> outcome;
  for (std::uint32_t index = 0; index < request.peers && outcome; ++index) {
    plan.name = names.next();
    auto process = launch_agent(request.program, run.directory, plan, index);
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

/// The states that were committed and then undone by a rollback, by digest: peers that had been lost before it may have saved them.
Result<std::set<std::string>> undone_states(const fs::path& run) {
  std::map<std::uint64_t, std::string> standing;
  std::set<std::string> undone;
  PRIME_CHECK(store::JournalReader{telemetry::coordinator_journal(run)}.read_to_end([&](const store::JournalLine& line) {
    const auto revision = telemetry::count_field(line.fields, "revision").value_or(0);
    const auto digest = telemetry::text_field(line.fields, "digest").value_or("");
    if (line.event == "outer_step_committed") {
      standing[revision] = digest;
      undone.erase(digest);
    } else if (line.event == "rolled_back") {
      for (auto void_one = standing.upper_bound(revision); void_one != standing.end(); void_one = standing.erase(void_one))
        undone.insert(void_one->second);
    }
  }));
  return undone;
}

/// Of all its peers; damaged ones count, so that nobody goes on from an older one unawares, but any whole one of that step will do.
Result<fs::path> newest_checkpoint(const fs::path& run) {
  std::map<std::string, std::vector<fs::path>, std::greater<>> by_step;
  for (const auto& journal : telemetry::peer_journals(run)) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator{journal.parent_path() / "checkpoints", ignored})
      if (entry.path().filename().string().starts_with("step-")) by_step[entry.path().filename()].push_back(entry.path());
  }
  PRIME_TRY(const auto undone, undone_states(run));
  for (const auto& [step, paths] : by_step) {
    const fs::path* damaged = nullptr;
    for (const auto& path : paths) {
      const auto state = store::verify_checkpoint(path);
      if (!state) damaged = &path;
      else if (!undone.contains(to_string(state->state))) return path;
    }
    if (damaged != nullptr) return *damaged;  // whose damage is told next
  }
  return fail(ErrorName::Usage,
              run.filename().string() + " has no checkpoint; `down` saves one, and `checkpoint.every` makes a run save on the way");
}

/// With another model the peers would find out by themselves, after everything has started, and each of them for itself.
Result<void> check_model(const fs::path& checkpoint, const manifest::Shared& wanted) {
  PRIME_TRY(const auto text, store::read_manifest(checkpoint));
  const auto kept = manifest::parse_shared(text);
  if (!kept) return {};  // of another version, whose keys cannot be compared
  std::string differing;
  for (const auto& change : manifest::state_changes(*kept, wanted))
    differing +=
        (differing.empty() ? "`" : ", `") + std::string{change.path} + "` is " + change.wanted + " here and " + change.kept + " there";
  return differing.empty() ? Result<void>{} : fail(ErrorName::StateMismatch, differing + " (" + checkpoint.string() + ")");
}

/// Its cause is told by now; only one that names a log needs it.
bool needs_log(const Error& error) { return error.name == ErrorName::ProcessFailed; }

/// Of a run that never began: it would be listed as one that failed. Unless some peers have trained while others could not be started.
void remove_run(const fs::path& directory) {
  if (!newest_checkpoint(directory)) static_cast<void>(store::remove_directory_atomically(directory));
}

/// Of a standby that never stood by; peers of the run may be here.
void remove_coordinator(const fs::path& run_directory) {
  static_cast<void>(store::remove_directory_atomically(run_directory / "coordinator"));
  if (telemetry::peer_journals(run_directory).empty()) remove_run(run_directory);
}

/// Of a peer that the run never let in; directories that hold nothing else go with it.
void remove_peer(const fs::path& run_directory) {
  std::error_code ignored;
  for (const auto& path : {agent_log(run_directory, 0), run_directory / "peers", run_directory}) fs::remove(path, ignored);
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

Result<void> check_start(const manifest::Manifest& manifest, std::uint32_t peers, std::uint32_t quorum) {
  const auto maximum = manifest.shared.membership.peers.maximum;
  for (const auto& [option, value] : {std::pair{"--local ", peers}, std::pair{"--quorum ", quorum}})
    if (value > maximum)
      return fail(ErrorName::Usage, option + std::to_string(value) + " is more than `membership.peers` admits, " + std::to_string(maximum));
  PRIME_CHECK(check_trainer(manifest.local));
  if (!manifest.local.trainer_command.empty()) return {};  // what a trainer of one's own reads is its own affair
  const auto& shared = manifest.shared;
  PRIME_CHECK(
      trainer::Corpus::open(shared.data, manifest.local.data_path.value_or(shared.data.path), shared.model.context, shared.train.batch));
  return {};
}

Result<std::pair<fs::path, store::CheckpointState>> find_checkpoint(const fs::path& state_root, const std::string& name,
                                                                    const manifest::Manifest& manifest) {
  auto path = fs::absolute(name);
  std::error_code ignored;
  if (!fs::is_directory(path / "prime", ignored)) {
    // A run's own directory, else its name: what happens to lie here under that name is neither.
    auto run = fs::is_directory(path / "peers", ignored) ? Result<fs::path>{path} : telemetry::find_run(state_root, name);
    if (!run && fs::exists(path, ignored))
      return fail(ErrorName::Usage,
                  path.string() + " is no checkpoint; name a run, its directory, or one of its `peers/*/checkpoints/step-*`");
    PRIME_TRY(const auto directory, std::move(run));
    PRIME_TRY(path, newest_checkpoint(directory));
  }
  PRIME_TRY(const auto state, store::verify_checkpoint(path));
  PRIME_CHECK(check_model(path, manifest.shared));
  if (state.outer_step.value >= manifest.shared.train.outer_steps)
    return fail(ErrorName::Usage, path.string() + " is of outer step " + std::to_string(state.outer_step.value) +
                                      ", and `train.outer_steps` is " + std::to_string(manifest.shared.train.outer_steps) +
                                      ": nothing is left to train");
  return std::pair{path, state};
}

Result<StartedRun> start_run(const RunRequest& request) {
  const auto run = make_run_id(request.manifest.shared.run);
  const auto directory = request.state_root / run;
  const auto launch = [&]() -> Result<LaunchedProcess> {
    PRIME_CHECK(make_run_directory(directory, request.manifest));
    return launch_coordinator(request, run, directory);
  };
  auto coordinator = launch();
  if (!coordinator) {
    remove_run(directory);
    return fail(std::move(coordinator).error());
  }
  StartedRun started{run, {}, directory, {}, 0, *std::move(coordinator), {}};
  const auto bring_up = [&]() -> Result<void> {
    PRIME_TRY(const auto said, started.coordinator.readiness(COORDINATOR_START_LIMIT, request.interrupt));
    started.address = said.value("address", std::string{});
    started.coordinator_pid = said.value("pid", pid_t{0});
    PRIME_TRY(started.invite, read_invite(directory));
    return start_agents(request, started);
  };
  if (auto up = bring_up(); !up) {
    stop_run(started);
    if (!needs_log(up.error())) remove_run(directory);
    return fail(std::move(up).error());
  }
  return started;
}

Result<StartedPeer> start_peer(const PeerRequest& request) {
  std::error_code error;
  fs::create_directories(request.run_directory / "peers", error);
  if (error) return fail(store::storage_error("create", request.run_directory, error.value()));
  PRIME_TRY(auto process,
            launch_agent(request.program, request.run_directory, AgentPlan{request.invite, request.name, request.local, {}}, 0));
  auto peer = welcome(std::move(process), request.interrupt);
  if (!peer && !needs_log(peer.error())) remove_peer(request.run_directory);
  return peer;
}

Result<StartedStandby> start_standby(const StandbyRequest& request) {
  PRIME_TRY(const auto invite, net::parse_invite(request.invite));
  if (fs::exists(telemetry::coordinator_journal(request.run_directory)))
    return fail(ErrorName::Usage, "a coordinator of " + invite.run + " has its files in " + request.run_directory.string() +
                                      " already; `--state-dir` names another place");
  etcd::RunStore store{request.etcd, invite.run, STORE_LIMIT};
  PRIME_TRY(const auto text, store.plan());
  if (!text)
    return fail(ErrorName::RunUnknown,
                "etcd has nothing of " + invite.run + "; `membership.standby.etcd` of its manifest names the one that has");
  PRIME_TRY(auto plan, parse_coordinator_plan(*text));
  plan.invite = request.invite;
  if (request.listen) {
    plan.listen = *request.listen;
  } else {
    PRIME_TRY(const auto own_address, net::address_towards(invite.address, STORE_LIMIT));
    plan.listen = net::listen_towards(own_address);
  }
  PRIME_CHECK(make_run_directory(request.run_directory, plan.manifest));
  PRIME_TRY(auto guard, LaunchedProcess::start({command_of(request.program, "coordinator", request.run_directory), format_plan(plan),
                                                request.run_directory / "coordinator" / "coordinator.log"}));
  auto said = guard.readiness(COORDINATOR_START_LIMIT, request.interrupt);
  if (!said) {
    stop_processes(std::vector{guard.identity()}, StopLimits{STOP_PATIENCE});
    if (!needs_log(said.error())) remove_coordinator(request.run_directory);
    return fail(std::move(said).error());
  }
  return StartedStandby{said->value("address", std::string{}), std::move(guard)};
}

}  // namespace prime::launch
