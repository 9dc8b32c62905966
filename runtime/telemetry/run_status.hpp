// Owns RunStatus: what is known of a run at one moment, as plain data. Filled from journals, shown by `primectl status`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "messages/phases.hpp"
#include "messages/units.hpp"
#include "runtime/telemetry/process_identity.hpp"

namespace prime::telemetry {

/// `Standby`: another machine's coordinator serves the run, and the one here waits to take over. `Stopped` is the end that its owner wished
/// for; `Failed` is any other before the last outer step. `Left`: only peers were here, and all of them left; the run may go on elsewhere.
enum class RunState { Waiting, Training, Paused, Standby, Done, Stopped, Left, Failed };
std::string_view to_string(RunState state);
/// Nothing happens any more, here.
inline bool is_over(RunState state) {
  return state == RunState::Done || state == RunState::Stopped || state == RunState::Left || state == RunState::Failed;
}

/// `Saving`: its part is over, and it writes what it holds before it ends.
enum class PeerState { Joining, Fetching, Training, Reducing, Saving, Left, Lost };
std::string_view to_string(PeerState state);
inline bool is_gone(PeerState state) { return state == PeerState::Left || state == PeerState::Lost; }

/// How far a long reduce or state fetch of a peer was when the coordinator last told of it.
struct TransferStatus {
  TransferKind kind{};
  std::uint64_t moved_bytes = 0;
  std::uint64_t needed_bytes = 0;
  std::uint64_t bytes_per_s = 0;

  bool operator==(const TransferStatus&) const = default;
};

/// How fast bytes reach the next member in the ring, as it was measured last.
struct LinkStatus {
  std::string to;  ///< by name
  std::uint64_t bytes_per_s = 0;

  bool operator==(const LinkStatus&) const = default;
};

struct PeerStatus {
  std::string id;
  std::string name;
  std::optional<std::uint64_t> pid;  ///< of the agent, on its own machine; none where its files are here and it is not
  std::optional<std::uint64_t> trainer_pid;
  PeerState state = PeerState::Joining;
  std::optional<std::uint64_t> outer_step;  ///< last committed
  std::optional<std::string> digest;        ///< of the state that it holds
  std::optional<double> tokens_per_s;
  std::optional<double> data_wait;  ///< share of its time that its trainer waited for samples, in its last outer step
  std::string device;               ///< where its trainer computes, and why there; known of peers here whose manifest leaves a choice
  std::string reason;               ///< why it left, was lost, or is not training
  std::uint64_t restarts = 0;       ///< of its trainer, as far as it is known here
  std::string restart_reason;       ///< of the last one; empty where only its pid has changed
  std::string replica;              ///< of a sharded run: which model it holds a part of; else empty
  std::uint64_t shard = 0;
  std::optional<TransferStatus> transfer;
  std::optional<std::uint64_t> transfer_bytes_per_s;  ///< of the last long reduce or fetch, sent and received; also when it is over
  std::optional<LinkStatus> link;
  friend bool operator==(const PeerStatus&, const PeerStatus&) = default;
};

/// What becomes of the next version of one fragment of the model.
enum class FragmentState : std::uint8_t {
  Committed,   ///< nothing is done about it now
  Collecting,  ///< contributions are on their way, or those of fragments before it are reduced
  Reducing,
};
std::string_view to_string(FragmentState state);

struct FragmentStatus {
  std::uint64_t version = 0;  ///< the last outer step that is in it
  FragmentState state = FragmentState::Committed;
  std::vector<std::string> waiting_for;  ///< members that have yet to contribute, by name
  friend bool operator==(const FragmentStatus&, const FragmentStatus&) = default;
};

/// As many as a picture shows.
inline constexpr std::size_t REMEMBERED_LOSSES = 64;

/// What the run waits for and whom; empty when it is at work. The times are UTC, as journals have them.
struct WaitStatus {
  std::string what;
  std::optional<std::string> since;
  std::optional<std::string> until;

  bool operator==(const WaitStatus&) const = default;
};

/// So much later than a time that a journal tells; empty where it tells none.
std::optional<std::string> moment(std::string_view time, Duration after = {});

/// A lane between two peers that cannot reach each other. All by name.
struct RelayedLane {
  std::string from;  ///< who opened it
  std::string to;
  std::string through;

  bool operator==(const RelayedLane&) const = default;
};

/// Processes of the run that live where only their files are seen from here.
struct ElsewhereStatus {
  std::string place;  ///< "on `node7`"
  std::vector<std::string> processes;
  bool certain = true;  ///< else it cannot be told from here whether they live

  bool operator==(const ElsewhereStatus&) const = default;
};

struct RunStatus {
  std::string id;
  std::string name;
  RunState state = RunState::Waiting;
  std::optional<std::string> begun;  ///< UTC, as journals have it: when the first of its processes here began
  std::uint64_t outer_step = 0;      ///< last committed
  std::uint64_t began_at = 0;        ///< the outer step of the checkpoint that it went on from
  std::uint64_t epoch = 0;
  std::uint64_t revision = 0;
  std::uint64_t shards = 1;               ///< peers that hold one replica of the model together, as far as it is known here
  std::vector<FragmentStatus> fragments;  ///< as far as commits have told of them
  std::optional<std::string> digest;      ///< of a sharded run: of all shards together, and so no peer's own
  std::optional<double> loss;
  std::optional<double> held_out_loss;
  std::uint64_t held_out_tokens = 0;  ///< that it is the mean over
  std::string evaluation_problem;     ///< why the last evaluation is missing, or a part of it
  std::optional<double> tokens_per_s;
  std::uint64_t tokens = 0;
  WaitStatus wait;
  std::optional<std::string> paused_since;  ///< UTC: by `primectl pause`; while it is Training, what is under way ends first
  std::string reason;                       ///< why it ended before it was done
  std::optional<std::string> checkpoint;
  std::string checkpoint_problem;  ///< why the newest state of the run, or of a peer here, is not saved
  std::string sample;
  std::vector<double> losses;                    ///< of the last committed outer steps, oldest first; at most REMEMBERED_LOSSES
  bool coordinator_here = false;                 ///< its journal is on this machine
  std::optional<std::uint64_t> coordinator_pid;  ///< none where its files are here and it is not
  std::optional<std::string> coordinator_address;
  std::optional<std::string> stands_by_for;  ///< where the coordinator is that serves the run instead of the one here
  bool took_over = false;                    ///< the one here stood by before: invites of the run's start lead elsewhere
  std::vector<PeerStatus> peers;             ///< in the order of their arrival
  std::vector<std::string> problems;         ///< what hinders the run and does not end it, each with what to do
  std::vector<RelayedLane> relayed;
  std::vector<ElsewhereStatus> elsewhere;
  friend bool operator==(const RunStatus&, const RunStatus&) = default;
};

/// In a few words, for a table: "waits for peers: 2 of 3 are ready". Empty where it waits for nobody.
std::string short_wait(const RunStatus& status);

/// Whether a run, or what is known of it here, has peers that hold parts of a model.
bool is_sharded(const RunStatus& status);

/// "quickstart" of "quickstart-k7qd2a".
std::string run_name(std::string_view run_id);

}  // namespace prime::telemetry
