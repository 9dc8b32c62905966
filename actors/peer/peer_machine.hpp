// Owns what a peer does: greet, be seated, fetch, train, contribute, vote, and apply only what was committed. Pure.
//
// The agent's shell turns messages, trainer events and completions into events of this machine and carries out its effects in
// order. Tensors never pass through here: the state of a peer is named by its revision and digest.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "actors/probes.hpp"
#include "messages/events.hpp"
#include "messages/membership.hpp"
#include "messages/outer_step.hpp"
#include "messages/result.hpp"
#include "messages/units.hpp"

namespace prime::peer {

struct Options {
  Hello hello;
  Duration heartbeat_every = 2s;
  Duration heartbeat_limit =
      10s;                    ///< so long the coordinator waits for a sign of life; it is looked for when it is silent for most of that
  Duration doubt_after = 5s;  ///< a voter that heard nothing asks
  Duration coordinator_grace = 20s;    ///< for a lost coordinator to come back; until the welcome brings the manifest's
  std::uint32_t fragments = 1;         ///< parts of the state, of which each reduce makes one
  bool streams = false;                ///< a trainer begins a step with what it has made of fragments after it published them
  bool decoupled = false;              ///< as the coordinator's Plan has it
  std::uint64_t checkpoint_every = 0;  ///< outer steps; 0: no checkpoints on the way
  bool all_write_checkpoints = false;  ///< the run may be rolled back to them; otherwise the member of rank 0 does
  Duration save_retry = 10min;         ///< `checkpoint.retry`: a peer that ends tries so long to save what it holds
};

using Phase = PeerPhase;

/// How long who leaves waits for that answer, and before it for a coordinator that is away: one that is started again is there by then.
inline constexpr Duration LEAVE_LIMIT = 5s;
/// Between two attempts to reach a lost coordinator: doubled from the first to the last.
inline constexpr Duration REDIAL_AFTER = 250ms;
inline constexpr Duration REDIAL_AFTER_AT_MOST = 2s;

/// Between two attempts to save what a peer holds that ends.
inline constexpr Duration SAVE_AGAIN_AFTER = 5s;

/// Why a peer ends, while it saves what it holds.
struct Ending {
  std::optional<Error> cause;
  std::string why;  ///< it is saved
  Instant since{};
  std::optional<Instant> again_at;  ///< after an attempt that failed
};

/// What a peer does without a coordinator: its trainer and its reduce go on, and it looks for the coordinator.
struct CoordinatorAbsence {
  std::string how;
  Instant since{};
  Instant redial_at{};
  Duration pause = REDIAL_AFTER;
  bool dialing = false;
};

/// An operation that this peer reduces, or has voted on.
struct InHand {
  StartReduce reduce;
  std::optional<Digest> prepared = {};  ///< what was voted for
  Instant asked{};                      ///< when voted, or last in doubt
};

/// What this peer has made of a step, while its trainer is at the next one.
struct Published {
  BeginStep begin;
  std::vector<prime::Ready> told;
  std::set<std::uint32_t> owed;  ///< fragments whose committed versions lack it
};

struct State {
  Options options;
  Phase phase = Phase::Greeting;  ///< beside the operations in hand: never Reducing or Voted
  Instant heard{};                ///< the coordinator, last
  Instant ticked{};               ///< last tick
  Instant beat{};                 ///< own last heartbeat
  Instant asked{};                ///< when said goodbye
  bool said_goodbye = false;
  bool trainer_bound = false;
  bool restarted = false;    ///< its trainer, in this attempt at the step, by itself
  bool renewed = false;      ///< it was started again since it has contributed
  bool starts_over = false;  ///< its trainer was told to end: what that has contributed is void
  std::uint32_t trainer_pid = 0;
  std::uint64_t elements = 0;
  Digest layout;
  DataIdentity data;
  Revision revision;
  Digest digest;
  std::vector<Digest> parts;           ///< of each fragment, until something is committed; empty: there is one
  std::optional<BeginStep> begin;      ///< the step being worked on
  std::set<std::uint32_t> owed;        ///< fragments whose committed versions lack its work, done or not
  std::optional<Published> published;  ///< until it is in all fragments
  std::vector<InHand> operations;      ///< in flight, in the order in which they began
  std::optional<FetchState> fetch;     ///< the one that is wanted
  std::optional<FetchState> fetching;  ///< the one in flight: one at a time, the wanted one comes after it
  std::optional<RunDone> done;
  std::optional<RunDone> done_after_commit;  ///< heard before the last commit was
  /// Of `begin`, for a coordinator that comes back: as its fragments are published. With Options::decoupled: what is not committed.
  std::vector<prime::Ready> told;
  std::optional<StateSaved> saved;            ///< likewise; of the final state
  std::optional<FinalReport> report;          ///< likewise
  bool saving = false;                        ///< the current state is on its way to the disk
  bool evaluating = false;                    ///< the final state: this life of the trainer was asked
  std::optional<Ending> ending;               ///< while it saves what it holds
  std::optional<CoordinatorAbsence> absence;  ///< while the coordinator is lost
  std::vector<Addresses> coordinators;        ///< where the run may be served, as the coordinator said; empty: where it is
  Epoch epoch;                                ///< newest seen; what is older is refused (law 1)
  std::uint64_t inner_steps = 0;
  std::uint64_t moved_bytes = 0;
};

// Events --------------------------------------------------------------------------------------------------------------------

using FromCoordinator = std::variant<Welcome, Dismissed, FetchState, BeginStep, StartReduce, Abort, Commit, RunDone, HeartbeatSeen,
                                     MeasureLink, Coordinators, ReplicaLacks, PublishNow>;
struct CoordinatorLost {
  std::string reason;
};
/// Each Redial ends in one of these two.
struct CoordinatorBack {};
struct RedialFailed {
  Error cause;
};
/// The manifest of the welcome was read: from now on these rule.
struct Configured {
  std::uint32_t fragments = 1;
  Duration heartbeat_every{};
  Duration heartbeat_limit{};
  std::uint64_t checkpoint_every = 0;
  Duration coordinator_grace{};
  bool all_write_checkpoints = false;
  Duration save_retry{};
  bool decoupled = false;
  bool streams = false;
};
/// The trainer has bound its tensors. The first time its values may found the state; later it is given the state.
struct TrainerBound {
  Digest layout;
  std::uint64_t elements = 0;
  Digest state;       ///< of the agent's outer state after binding
  Revision revision;  ///< of that state: above 0 when it was read from a checkpoint
  std::uint32_t pid = 0;
  DataIdentity data = {};
  std::vector<Digest> parts = {};  ///< of that state; empty: it has one fragment
  std::string device = {};         ///< where it computes, if it told
};
/// The trainer's parameters of these fragments were taken as this step's contribution, and are finite.
struct TrainerContributed {
  OuterStep step;
  Revision base;             ///< from which it trained; when it is late, not the current one
  std::uint64_t weight = 0;  ///< tokens, since these fragments were published last
  std::uint64_t samples = 0;
  Real loss;
  HeldOutLoss held_out;  ///< of `base`: this peer's part
  Real tokens_per_s;
  Fragments fragments = {};
  std::vector<Lengths> lengths = {};  ///< as Ready has them
  std::uint64_t tokens = 0;           ///< likewise
  Real data_wait = Real{NOT_MEASURED};
};
/// It has made all inner steps that it was given samples for; with Options::decoupled.
struct TrainerUsedLease {};
/// The trainer died and is started again from the outer state.
struct TrainerRestarting {
  Error cause;
};
/// It cannot be started for want of what its agent has not, and is tried again; or it says itself what it waits for, and, without a word,
/// that this is over.
struct TrainerWaits {
  Cause cause;
};
/// It died too often, or said what cannot be helped.
struct TrainerGaveUp {
  Error cause;
};
/// An external trainer says goodbye.
struct TrainerLeft {};
struct TrainerFinal {
  HeldOutLoss held_out;  ///< of the final state: this peer's part
  std::string sample;
};
/// Each SaveState ends in one, with the checkpoint's path, if there is one.
struct SaveEnded {
  bool periodic = false;  ///< as SaveState had it
  Result<std::string> path;
};
/// The reduce ended and the next state is prepared beside the current one; or it failed.
struct ReduceEnded {
  OperationId op;
  Result<Digest> prepared;
  PeerId suspect;
  std::uint64_t wire_bytes = 0;
  std::uint64_t reduce_ns = 0;
};
/// Each StartFetch ends in one; what was fetched is held from then on.
struct FetchEnded {
  Revision revision;
  Result<Digest> state;
  std::vector<Digest> parts = {};  ///< of that state; empty: it has one fragment
};
/// For heartbeats: what has been done so far.
struct Progress {
  std::uint64_t inner_steps = 0;
};
/// Each StartMeasure ends in one.
struct MeasureEnded {
  PeerId to;
  Result<std::uint64_t> bytes_per_s;
};
/// A lane to a member was opened in another way than the last one.
struct WayChanged {
  PeerId to;
  PeerId through;  ///< 0: directly
};
struct LeaveRequested {};
/// Time has passed.
struct Tick {};
using Event = std::variant<FromCoordinator, CoordinatorLost, CoordinatorBack, RedialFailed, Configured, TrainerBound, TrainerContributed,
                           TrainerUsedLease, TrainerRestarting, TrainerWaits, TrainerGaveUp, TrainerLeft, TrainerFinal, SaveEnded,
                           ReduceEnded, FetchEnded, Progress, MeasureEnded, WayChanged, LeaveRequested, Tick>;

// Effects -------------------------------------------------------------------------------------------------------------------

using ToCoordinator = std::variant<Hello, Seated, Fetched, FetchFailed, prime::Ready, Vote, ReduceFailed, InDoubt, Heartbeat, Deathrattle,
                                   StateSaved, FinalReport, LinkMeasured, LaneRelayed, TrainerRestarted, LeaseUsed>;
struct Tell {
  ToCoordinator message;
};
/// Dial the coordinator again, where it was found last and then at these; what is told from then on goes to whom is found.
struct Redial {
  std::vector<Addresses> others;
};
/// Parse the manifest and start (or adopt) the trainer.
struct StartTrainer {
  Welcome welcome;
};
struct BeginTraining {
  BeginStep begin;
};
/// The trainer is to publish a fragment towards this version at its next boundary, whether that is due or not.
struct AskPublication {
  PublishNow asked;
};
/// Its trainer ends and is started again, as if it had died; ends in TrainerRestarting.
struct StartTrainerOver {};
struct StartFetch {
  FetchState fetch;
};
/// Its donor is gone, as far as the coordinator knows, and another one is wanted: it may be mute for long. Ends in FetchEnded.
struct StopFetch {
  FetchState fetch;
};
/// Reduce, then prepare the next state; ends in one ReduceEnded.
struct RunReduce {
  StartReduce reduce;
  bool brings = false;  ///< the own contribution is in it
};
struct AbortReduce {
  OperationId op;
  std::string reason;
};
/// The prepared state becomes the state; the trainer hears of it.
struct ApplyCommit {
  Commit commit;
};
/// What was prepared is forgotten; the contribution stays.
struct Discard {
  OperationId op;
};
/// How fast bytes reach a member; ends in MeasureEnded.
struct StartMeasure {
  Member to;
};
/// The trainer evaluates its part of the held-out data, the finalist's also writes a text; ends in TrainerFinal.
struct FinishTraining {
  RunDone done;
};
/// What its trainer had for itself at this revision goes to disk, then the committed state: the current one, or one that is being applied.
/// Ends in SaveEnded, unless the process ends before.
struct SaveState {
  std::string reason;
  Revision of;
  bool periodic = false;  ///< nobody waits for it
  bool shared = true;     ///< the committed state, too; else another member saves it
  bool late = false;      ///< the trainer is at work that this revision lacks
};
/// What this peer was at is over: its trainer is told to end, and why; a fetch ends.
struct StopWork {
  std::optional<Error> cause;
};
/// The agent ends; empty when all is well.
struct End {
  std::optional<Error> cause;
};
using Effect =
    std::variant<JournalEvent, Tell, Redial, StartTrainer, BeginTraining, AskPublication, StartTrainerOver, StartFetch, StopFetch,
                 RunReduce, AbortReduce, ApplyCommit, Discard, StartMeasure, FinishTraining, SaveState, StopWork, End, Probe>;

struct Transition {
  State state;
  std::vector<Effect> effects;
  std::string reason;
};

/// Whether its trainer is at work, or has ended work, that the state lacks though that is at a later revision than the work began from.
[[nodiscard]] bool is_late(const State& state);
/// Where a peer stands, as its journal and people have it: at its operations, if there are any.
[[nodiscard]] Phase phase_of(const State& state);
/// Whether a new peer in the place of one that ended so may do better: it was frozen, cut off or too slow, or its links broke.
[[nodiscard]] bool joins_anew(const Error& cause);

/// The first transition: says hello.
[[nodiscard]] Transition start(Options options, Instant now);
[[nodiscard]] Transition step(State state, const Event& event, Instant now);

}  // namespace prime::peer
