// Owns the start of a run on this machine: coordinator first, then peers, all ready or all stopped again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "messages/membership.hpp"
#include "messages/result.hpp"
#include "runtime/launch/launched_process.hpp"
#include "runtime/manifest/manifest.hpp"
#include "runtime/store/checkpoint.hpp"
#include "runtime/trainer/data/compile.hpp"

namespace prime::launch {

struct RunRequest {
  std::string program;  ///< primectl, with its hidden commands
  std::filesystem::path state_root;
  manifest::Manifest manifest;
  std::uint32_t peers =
      1;  ///< to start here, 0: a coordinator alone; of a sharded run: replicas, each of so many peers as the manifest has shards
  std::uint32_t quorum = 0;  ///< that begin the first outer step together; 0: `peers`. Never fewer than the manifest's minimum
  Endpoint listen;           ///< of the coordinator
  /// Of the peers: that of `local.network.listen` and those that follow, from this place on; without the key any free ones of the same
  /// host.
  std::uint32_t first_peer_port = 0;
  /// The state to go on from, by shard; empty: a new one.
  std::vector<std::filesystem::path> checkpoints;
  std::optional<store::CheckpointState> origin;  ///< what it is of
  /// What trainers had for themselves then, by rank, each by shard; an empty path: nothing, or it is not here.
  std::vector<std::vector<std::filesystem::path>> private_states = {};
  std::string fresh = {};  ///< why some or all do not go on from that
  int interrupt = -1;      ///< readable: give up
};

struct StartedPeer {
  std::string id;
  std::string name;
  std::filesystem::path directory;
  LaunchedProcess process;
  std::string replica = {};  ///< of a sharded run; else empty
  std::uint32_t shard = 0;
};

struct StartedRun {
  std::string run;
  std::string invite;
  std::filesystem::path directory;
  Addresses addresses;     ///< of the coordinator, as others are told them
  std::uint16_t port = 0;  ///< at which it listens
  pid_t coordinator_pid = 0;
  LaunchedProcess coordinator;  ///< its guard, which lives as long as the run does
  std::vector<StartedPeer> peers;
};

/// Whether the program that `local.trainer_command` names is there and may be run.
Result<void> check_trainer(const manifest::Local& local);
/// What can be known before anything starts: more peers, or a larger quorum (0: `peers`), than the run admits, or than this shell
/// allows descriptors for; no such trainer; data that the built-in one cannot read: it is compiled here, once for all peers.
Result<void> check_start(const manifest::Manifest& manifest, std::uint32_t peers, std::uint32_t quorum,
                         const data::OnProgress& on_progress = {});

Result<StartedRun> start_run(const RunRequest& request);

struct PeerRequest {
  std::string program;
  std::filesystem::path run_directory;  ///< made when it is not there
  std::string invite;
  std::string name;  ///< empty: drawn, or REPLICA.SHARD
  manifest::Local local;
  std::string replica = {};                 ///< of a sharded run; else empty
  std::vector<std::uint32_t> shards = {0};  ///< of it: one peer for each
  std::uint32_t whole = 0;                  ///< so many shards the run must have: all of its replica are started here; 0: any number
  int interrupt = -1;
};

/// More peers of a run, detached: all or none. Returns when the run has welcomed them.
Result<std::vector<StartedPeer>> start_peers(const PeerRequest& request);
/// A name for a replica that is started as a whole. It is more than words for people: no other replica of the run may draw the same.
std::string draw_replica_name();

struct StandbyRequest {
  std::string program;
  std::filesystem::path run_directory;  ///< made; no coordinator may have served the run from there
  std::string invite;
  std::vector<std::string> etcd;   ///< where the run keeps who leads it
  manifest::Local local;           ///< of this machine: its way into etcd, and what it tells of itself
  std::optional<Endpoint> listen;  ///< absent: what the run needs, any free port
  int interrupt = -1;
};

struct StartedStandby {
  std::string addresses;  ///< divided by commas
  LaunchedProcess guard;
};

/// A coordinator that serves the run when the one that leads it is gone. Returns when it stands by, or leads. Errors: RunUnknown when etcd
/// knows no such run; StandbyStoreFailed, AddressTaken.
Result<StartedStandby> start_standby(const StandbyRequest& request);

}  // namespace prime::launch
