// Owns the two long-lived processes of a run, as functions that return when their part is over: the coordinator and the agent.
//
// Run directory (one for each run on this machine, below the state root; everything in it is append-only or written whole):
//   manifest.yaml                      shared half, canonical
//   coordinator/lock, and of each peer who writes that directory, and whether it lives (telemetry/run_lock): the guard, the agent
//   invite                             mode 0600: address, run id and run key
//   coordinator/journal.jsonl          decisions; coordinator.log holds what the process printed
//   coordinator/decisions.json         the last ones, for the coordinator that comes after this one
//   peers/NAME-ID/journal.jsonl        what one peer did; agent.log and trainer.log beside it (ID: first 8 digits of the peer id)
//   peers/NAME-ID/checkpoints/step-N/  the committed state, loadable by transformers
//   peers/NAME-ID/checkpoints/private-N/  what the peer's trainer kept for itself then
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "messages/membership.hpp"
#include "messages/result.hpp"
#include "runtime/manifest/manifest.hpp"
#include "runtime/net/run_key.hpp"
#include "runtime/store/checkpoint.hpp"

namespace prime {

struct CoordinatorOptions {
  std::string run;  ///< run id: the manifest's name and a random suffix
  net::RunKey key;
  manifest::Manifest manifest;
  Endpoint listen;                  ///< port 0: any free one
  std::filesystem::path directory;  ///< the run directory
  /// What the run goes on from; its agents hold the checkpoint.
  std::optional<store::CheckpointState> origin;
  std::string fresh;                  ///< why trainers do not go on from what they had for themselves then; empty: they do, or had nothing
  std::uint32_t start_quorum = 0;     ///< peers that begin the first outer step together; 0: the manifest's minimum
  std::vector<std::string> founders;  ///< names of the peers that start with the run, by rank; shards: of the replicas
  bool again = false;                 ///< another one has served this run from here before: this one goes on with what it decided
  std::string killed;                 ///< how that one was, "killed by SIGKILL"; empty: it ended by itself
  bool founded = false;               ///< somebody has begun to serve this run before, here or elsewhere
  std::string plan;                   ///< for standbys, who are told the same; kept in the manifest's `membership.standby.etcd`
  std::uint32_t guard = 0;            ///< the process that starts it again
};

/// Where a coordinator is served.
struct ServedAt {
  Addresses addresses;     ///< that peers dial (net::told_addresses)
  std::uint16_t port = 0;  ///< at which it listens itself: what it advertises may have others
};

/// Serves the run until it is over, or told to end (SIGTERM, SIGINT): then every peer saves what it holds, and the error is RunStopped.
/// `listening` is called once. Where the manifest names an etcd, it
/// serves the run only while it leads it there; it may stand by first, and be told to listen meanwhile. Errors: AddressTaken,
/// StorageFailed, StandbyStoreFailed before it listens; LeadershipLost, TooFewPeers and the like later.
Result<void> run_coordinator(const CoordinatorOptions& options, const std::function<void(const ServedAt&)>& listening);

/// Writes the last line of a coordinator that could not write it itself, or knew less; best effort, and only when it is gone.
void note_end(const std::filesystem::path& run_directory, const Error& cause);

struct AgentIdentity {
  PeerId peer;
  std::string name;
  std::filesystem::path directory;  ///< of this peer
};

struct AgentOptions {
  net::Invite invite;
  std::filesystem::path directory;  ///< the run directory; the peer's own is made below it
  std::string name;                 ///< empty: drawn from the peer id, or REPLICA.SHARD
  manifest::Local local;
  std::string trainer_program;            ///< used when the manifest's local half names no trainer
  std::filesystem::path checkpoint;       ///< the state to begin with; empty: the trainer's, or a donor's
  std::filesystem::path private_state;    ///< what the trainer begins with beside that; empty: what it is born with
  std::optional<int> trainer_descriptor;  ///< socket of a trainer that started this agent (prime::Session::join)
  std::uint32_t shard = 0;                ///< that it holds, where the run is sharded
  std::string replica = {};               ///< then: which model's; shared by all peers that hold a shard of it
  std::uint32_t shards = 0;               ///< that the run must have: its replica was started as a whole; 0: any number
  bool attended = false;                  ///< somebody reads why it ends: nothing is left of one that the run did not take
};

struct AgentPorts {
  std::function<void(const AgentIdentity&)> welcome;  ///< the run has welcomed this peer; again after each `rejoining`
  std::function<void(const Error&)> rejoining;        ///< it was sent away, and takes part anew
};

/// Takes part in the run until it is over, this peer leaves (SIGTERM, SIGINT), or something ends it. Who is sent away
/// because it was frozen, cut off or too slow takes part anew by itself, as a new peer that fetches the current state, or brings
/// the checkpoint that the run was rolled back to: five times within ten minutes.
/// Errors before the welcome: RunUnreachable, KeyRefused, WrongRun, VersionMismatch, RunFull, RunDone, AddressTaken;
/// later: CoordinatorLost, Evicted, TrainerFailed and others of errors.def, each with the state saved if there was one.
Result<void> run_agent(AgentOptions options, const AgentPorts& ports);

}  // namespace prime
