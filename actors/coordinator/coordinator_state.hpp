// Owns the coordinator's state, its events and its effects: the data that the pure machines of this folder work on.
//
// The machines decide, the actor shell acts: `step(state, event, now)` returns the new state, the effects in the order in which
// they must happen, and a reason. A durable event is on disk before the effects behind it are carried out (law 8).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "actors/membership/effects.hpp"
#include "actors/membership/roster.hpp"
#include "messages/data_types.hpp"

namespace prime::coordinator {

using membership::Effect;
using membership::Effects;
using membership::Fence;
using membership::Finish;
using membership::LookFor;
using membership::Peer;
using membership::Seat;
using membership::Send;
using membership::ToPeer;
using prime::LossPolicy;

/// A state that was saved: what a run begins with when another one ended, or what it is rolled back to.
struct Origin {
  Revision revision;
  OuterStep step;  ///< the last one that is in it
  Digest state;
  std::uint64_t next_sample = 0;  ///< the data cursor
  std::uint64_t tokens = 0;
  std::vector<OuterStep> versions = {};     ///< of each fragment, where they are not all of `step`
  std::set<std::uint64_t> given_back = {};  ///< ranges before the cursor that are in no fragment, as State has them
  std::vector<Digest> shards = {};          ///< what each shard holds then; empty where that is not known
};

/// What the manifest says of the rounds and of the run's end, already validated.
struct Plan {
  std::uint32_t min_peers = 2;  ///< fewer contributors than this never make an outer step (law 5)
  std::uint64_t outer_steps = 1;
  std::uint64_t samples_per_peer = 1;  ///< inner steps × batch: how far one peer moves the data cursor in a step
  bool stop_when_alone = false;        ///< `sync.alone: stop`
  std::uint32_t quorum = 0;            ///< `sync.quorum`: so many contributions close an outer step; 0: those of all members
  Duration grace{};                    ///< `sync.grace`: the others get so long after the quorum is there
  Duration wait_limit = 10min;         ///< how long the run waits for peers before it fails, and how long it pauses
  LossPolicy on_correlated_loss = LossPolicy::Continue;
  Schedule schedule = Schedule::Automatic;  ///< `sync.wire.schedule`
  Codec codec = Codec::None;                ///< `sync.wire.codec`
  Codec result_codec = Codec::None;         ///< `sync.wire.result_codec`
  std::uint32_t in_flight = 1;              ///< `sync.in_flight`: so many fragments are reduced at once, at most
  bool overlap = false;                     ///< the next step is trained while fragments of the last one are reduced
  bool streams = false;                     ///< then: who has published a fragment waits for its commit before the step ends
  /// `sync.algorithm: decoupled`: each round is opened by the first member that is due, and each member has samples for itself. `quorum`
  /// may be less than `min_peers`, which so many members are then, and not contributors: all of them vote on what the others have made.
  bool decoupled = false;
  bool measure_links = false;          ///< `topology.ring: measured`
  Duration measure_every = 5min;       ///< `topology.measure_every`: a link is measured again
  std::uint64_t checkpoint_every = 0;  ///< outer steps between two states that the run can be rolled back to; 0: there are none
  std::uint64_t evaluate_every = 0;    ///< `train.evaluate.every`: outer steps; 0: only at the end
  Duration evaluate_limit = 10min;     ///< `train.evaluate.time_limit`: of the last evaluation, once the final state is saved
  std::optional<Origin> origin;        ///< absent: the first who is seated founds the state
};

struct Options : membership::Options, Plan {};

/// Between two rounds of asking all members to save the final state, when none of them could.
inline constexpr Duration RETRY_SAVE_AFTER = 10s;
/// A pair of living peers that fails so often in one outer step loses its younger one (law 10).
inline constexpr std::uint32_t MAX_LINK_FAILURES = 5;
/// After so many tries of one step that ended alike the run says what it would change.
inline constexpr std::uint32_t ALIKE_UNTIL_ADVICE = 3;
/// Losses within one heartbeat limit are correlated when they are at least two, and this share (1/n) of the members before them.
inline constexpr std::uint32_t CORRELATED_SHARE = 3;
/// Above it links are not measured: there are as many as peers squared.
inline constexpr std::size_t MAX_MEASURED_PEERS = 64;

/// A member's part in a round.
struct Work {
  bool contributes = false;      ///< was told to train for step `begun`, and that work is in no committed version yet
  OuterStep begun = {};          ///< before the current step: it is late, and brings its work when it is done
  Revision base = {};            ///< from which it was told to train
  bool idle_answer_due = false;  ///< was told to adopt the result; its readiness of weight 0 is on the way
  std::uint64_t first_sample = 0;
  bool taken = false;  ///< a fragment has it: its samples are used
  std::optional<Ready> ready = {};

  /// Whether its readiness is on the way. Who has no part in this round, since its work is still in others, is not waited for.
  [[nodiscard]] bool awaited() const { return (contributes || idle_answer_due) && !ready; }
  /// Whether it weighs something in this round, as far as is known.
  [[nodiscard]] bool counts() const { return contributes && (!ready || ready->weight > 0); }
};

/// With `Plan::decoupled`: the samples that a member was given to train on, and the inner steps that go with them.
struct Lease {
  OuterStep step;  ///< on the clock of inner steps
  std::uint64_t first_sample = 0;
  bool taken = false;  ///< a fragment has work on them
  bool used = false;   ///< all its inner steps are made; not kept, since a member says it after what it has published
};

/// A member's part in the end of the run.
struct Duty {
  std::optional<Instant> asked_to_save;  ///< the final state; since when. Of a replica its first peer has this and the next
  bool save_failed = false;              ///< it said so; it is asked again when nobody else is left
  std::optional<std::string> saved;      ///< its shard, under this path
  bool reported = false;                 ///< its part of the final evaluation
  bool evaluated = false;                ///< and there was something to evaluate
};

using Phase = RunPhase;

/// One try to reduce a fragment.
struct Operation {
  OperationId id;
  Instant since{};
  SharedList<Contribution> contributions;  ///< one for each of its members, in its own rank order; each weighs what its replica does
  std::uint64_t next_sample = 0;
  std::map<PeerId, Vote> votes;
  bool ring = false;
};

/// Of a replica at what it trains for; see attempts.hpp.
struct Attempt {
  std::uint32_t number = 0;  ///< how often it has begun anew
  Fragments fragments;       ///< that it makes anew: not all of its peers had brought them
};

/// Tries of one step that ended alike.
struct Alike {
  std::uint32_t count = 0;
  AbortCause cause{};
  ErrorName error{};
  std::string reason;  ///< of the last
};

/// Members that were lost shortly after one another.
struct Losses {
  Instant since{};
  std::uint32_t members = 0;  ///< before the first of them
  std::uint32_t lost = 0;

  [[nodiscard]] bool correlated() const { return lost >= 2 && lost * CORRELATED_SHARE >= members; }
};

/// After a correlated loss, where the manifest says so: until so many are members again, or the wait limit has passed.
struct Pause {
  std::uint32_t members = 0;
  Instant since{};
};

struct Link {
  std::uint64_t bytes_per_s = 0;  ///< 0: it cannot be reached
  Instant measured{};
};

/// What is known of the links between members; of a sharded run, between those of the first shard, which stand for the others: the peers of
/// a replica are near each other. It is no decision: a coordinator that was restarted measures anew.
struct Topology {
  std::map<std::pair<PeerId, PeerId>, Link> links;  ///< from, to
  /// Pairs that measure now, the smaller id first: since when, and whether on the way back.
  std::map<std::pair<PeerId, PeerId>, std::pair<Instant, bool>> measuring;
  std::map<std::pair<PeerId, PeerId>, PeerId> relayed;  ///< pairs whose lane a third one passes on, the smaller id first
  std::vector<std::uint64_t> ring;                      ///< of ordinals: the order that operations begin with; who is new goes behind
  Instant due{};                                        ///< what was measured before is measured again
  bool changed = false;                                 ///< since the ring was last looked for
  bool ring_is_faster = false;                          ///< than sending directly
  Duration reduce_time{};                               ///< of the last operation in this order of members
};

/// The commit of a fragment's version, for members that missed it, and the journal's lines of it, for a journal that lacks them.
struct Decided {
  /// What the peers of one shard hold of it.
  struct Held {
    Digest state;
    Digest part;
  };
  Commit commit;
  std::vector<JournalEvent> lines;
  std::vector<Held> shards = {};  ///< where there are several; the commit has those of all together
};

/// What was decided and may not be forgotten: it is on disk before anybody hears of it (law 8). Who is not a member yet is not in it.
struct Snapshot {
  /// Work that a member was told to do, and that is not in all fragments yet.
  struct Owed {
    std::vector<std::uint32_t> fragments = {};  ///< that lack it
    OuterStep begun = {};
    Revision base = {};
    std::uint64_t first_sample = 0;
    bool taken = false;
  };
  struct Kept {
    Member member;
    std::uint32_t pid = 0;
    std::uint32_t trainer_pid = 0;
    Owed owed = {};    ///< of the step that is trained
    Owed closed = {};  ///< of the one that is reduced meanwhile
    std::vector<Lease> leases = {};
    std::uint32_t shard = 0;
    std::string replica = {};
  };
  Epoch epoch;
  std::vector<Kept> members;  ///< in rank order
  std::uint64_t next_ordinal = 0;
  Phase phase = Phase::Waiting;
  std::optional<std::uint32_t> paused_for;  ///< so many members
  bool paused_by_owner = false;
  std::optional<Origin> checkpoint;
  bool restoring = false;
  std::optional<Error> end_cause;
  std::optional<PeerId> finalist;
  DataIdentity data = {};
  std::optional<Digest> digest;
  std::vector<membership::Shard> shards;
  Revision revision;
  std::vector<OuterStep> versions;  ///< of each fragment
  std::uint64_t cursor = 0;
  std::set<std::uint64_t> given_back = {};
  std::vector<std::uint64_t> unused = {};
  bool step_begun = false;
  std::uint64_t step_span = 0;
  std::uint64_t closed_span = 0;
  std::uint64_t tokens = 0;
  Sequence sequence;
  OperationId operation;         ///< the last one that was started
  std::vector<Decided> commits;  ///< the last one of each fragment, in order of their revisions
};

/// What a run waits for, and whom, as people read it; empty when it is at work.
struct Wait {
  std::string what;
  Instant since{};
  std::optional<Instant> until;  ///< when something is done about it; absent where somebody else's limit ends it

  bool operator==(const Wait&) const = default;
};

/// The work on the next version of one fragment: who brings what.
struct Round {
  OuterStep step{1};                    ///< the version that it makes
  std::map<PeerId, Work> work;          ///< of each member
  std::map<PeerId, Work> closed;        ///< with `Plan::overlap`: what is reduced while `work` is of the next step
  std::optional<Instant> first_ready;   ///< of those who began with the step that is trained
  std::optional<Instant> quorum_since;  ///< since when `Plan::quorum` contributions are there: the grace of this fragment runs
  std::optional<Operation> operation;   ///< while it is in flight
  bool ring_overdue = false;            ///< the last try was a ring and missed its deadline, so that it cannot be told because of whom
  std::optional<Decided> last;          ///< the commit of the version before

  /// What the next operation reduces.
  [[nodiscard]] const std::map<PeerId, Work>& due() const { return closed.empty() ? work : closed; }
  /// What a member brings to that; null: nothing.
  [[nodiscard]] const Ready* brings(PeerId member) const {
    const auto found = due().find(member);
    return found == due().end() || !found->second.ready ? nullptr : &*found->second.ready;
  }
};

/// The outer step that is trained: of each fragment its work comes when that is due.
struct Collection {
  bool begun = false;
  OuterStep step;           ///< that is trained
  std::uint64_t span = 0;   ///< samples handed out for it; 0 where all members have yet to bring earlier work
  std::size_t unready = 0;  ///< members without `ready` in the current round, as last looked at and counted down since
};

/// What went wrong with the operations of the current outer step. A link that is broken is one failure, however many fragments meet it.
struct Tries {
  Instant retry_at{};  ///< a failed link gets time to be told as a lost peer before the next try
  std::map<std::pair<PeerId, PeerId>, std::uint32_t> link_failures;
  Alike alike;
  std::optional<Instant> held_since;  ///< since when it waits for a joiner
};

/// What operations have cost since the last outer step was committed, as far as this coordinator has seen them.
struct Cost {
  std::uint64_t wire_bytes = 0;
  Duration reduce{};     ///< of the slowest member of each
  Duration operation{};  ///< from their starts to their last votes; where they overlap, once
  Instant counted{};     ///< until when
};

struct State : membership::Roster {
  Plan plan;
  Phase phase = Phase::Waiting;
  Instant phase_since{};
  Sequence sequence;
  std::vector<Round> rounds{1};  ///< by fragment; at most two steps apart, but with `Plan::decoupled`
  OperationId operation;         ///< the last one that was started
  std::uint32_t moving = 0;      ///< operations that were started since none was in flight: whose bytes are counted together
  Collection collection;
  /// With `Plan::decoupled`, of each member: the last is what it trains on; others, while what was published of them may be reduced.
  std::map<PeerId, std::vector<Lease>> leases;
  std::uint64_t leased = 0;       ///< how many this coordinator has given
  std::uint64_t closed_span = 0;  ///< samples handed out for the step that is reduced while the next one is trained
  /// First samples of ranges whose peers went before any fragment had their work: who begins next takes them, lowest first (law 12).
  std::set<std::uint64_t> given_back;
  Tries tries;
  Cost cost;
  std::optional<OuterStep> unlinked_in;  ///< the step in which a member was sent away because of its link
  Losses losses;
  std::optional<Pause> pause;
  std::optional<Instant> paused_by_owner;  ///< since when: what is under way ends, and no outer step begins
  std::optional<Origin> checkpoint;        ///< the newest that members have saved; only where the run may be rolled back
  bool roll_back_due = false;              ///< decided in this event, done after it
  /// Since when the run was rolled back and no step has begun: those with the checkpoint are on their way.
  std::optional<Instant> restoring;
  std::optional<Error> end_cause;  ///< of a run that is over and failed
  Topology topology;
  std::map<std::uint32_t, View> columns;      ///< the view of each shard, as its peers were last told of it
  std::map<std::uint64_t, Attempt> attempts;  ///< of replicas whose trainers began their step anew, by ordinal
  Coordinators coordinators;                  ///< no decision: whoever serves the run next learns it by itself
  std::map<PeerId, Duty> duties;              ///< of members, in the end
  std::optional<PeerId> finalist;             ///< who was asked last to save the final state
  std::optional<std::string> save_problem;    ///< why that failed last
  std::optional<Instant> retry_save_at;       ///< when all who were asked could not
  std::optional<std::string> saved;           ///< path of the final checkpoint
  Instant saved_at{};
  std::vector<FinalReport> final_reports;  ///< a problem begins with the name of whose it is
  Wait waiting;                            ///< what was last recorded

  /// Too many of those who worked on a closed step are gone: others have to train for it.
  [[nodiscard]] bool is_short(const Round& round) const {
    const auto counts = [](const auto& entry) { return entry.second.counts(); };
    return !round.closed.empty() && std::ranges::count_if(round.closed, counts) < std::int64_t{plan.min_peers} * options.shards;
  }
  /// Of the rounds that are furthest behind the first without an operation, which is the next one to reduce; else the first. One that is
  /// short keeps up no other: who is to fill it up may wait for those first.
  [[nodiscard]] std::uint32_t current() const {
    const auto order = [this](const Round& each) { return std::tuple{is_short(each), each.step, each.operation.has_value()}; };
    return static_cast<std::uint32_t>(std::ranges::min_element(rounds, {}, order) - rounds.begin());
  }
  [[nodiscard]] const Round& round() const { return rounds[current()]; }
  [[nodiscard]] Round& round() { return rounds[current()]; }
  /// The outer step that not all fragments have made.
  [[nodiscard]] OuterStep step() const { return std::ranges::min_element(rounds, {}, &Round::step)->step; }
  /// No step is under way, and none begins until its owner says so.
  [[nodiscard]] bool is_held() const { return paused_by_owner && phase == Phase::Waiting && !is_under_way(); }
  [[nodiscard]] std::size_t in_flight() const {
    return static_cast<std::size_t>(std::ranges::count_if(rounds, [](const Round& each) { return each.operation.has_value(); }));
  }
  /// Whose operation it is; null when it is not in flight.
  [[nodiscard]] Round* round_of(const OperationId& operation_id) {
    const auto found =
        std::ranges::find_if(rounds, [&](const Round& each) { return each.operation && each.operation->id == operation_id; });
    return found == rounds.end() ? nullptr : &*found;
  }
  /// Whether the work on a step waits for its reduce, or is in it, while the next step is trained.
  [[nodiscard]] bool has_closed() const {
    return std::ranges::any_of(rounds, [](const Round& each) { return !each.closed.empty(); });
  }
  [[nodiscard]] bool is_under_way() const { return collection.begun || has_closed(); }
  /// Whether some fragments have made the current step, and others have not.
  [[nodiscard]] bool is_between_fragments() const {
    return std::ranges::any_of(rounds, [&](const Round& each) { return each.step != rounds.front().step; });
  }
};

[[nodiscard]] inline std::uint32_t fragment_of(const State& state, const Round& round) {
  return static_cast<std::uint32_t>(&round - state.rounds.data());
}

/// Of who has none yet: none.
[[nodiscard]] inline Duty duty_of(const State& state, PeerId peer) {
  const auto found = state.duties.find(peer);
  return found == state.duties.end() ? Duty{} : found->second;
}

// Events --------------------------------------------------------------------------------------------------------------------

using FromPeer = std::variant<Hello, Seated, Fetched, FetchFailed, Ready, Vote, ReduceFailed, InDoubt, Heartbeat, Deathrattle, StateSaved,
                              FinalReport, LinkMeasured, LaneRelayed, TrainerRestarted, LeaseUsed>;

struct Received {
  PeerId from;
  FromPeer message;
};
struct ConnectionLost {
  PeerId peer;
  std::string reason;
};
/// Nothing is left of a peer where it was: its machine refuses, or another process answers there.
struct ProcessGone {
  PeerId peer;
  std::string reason;
};
/// Somebody who may says that the run shall end here.
struct StopRequested {};
/// Likewise: that it shall stand still between two outer steps, or go on.
struct PauseRequested {};
struct ResumeRequested {};
/// Time has passed; sent often enough that no deadline is overrun by more than a quarter of a second.
struct Tick {
  Duration untold{};  ///< for so long nobody has heard what this coordinator decides, since it is not written down
};
/// `Coordinators`: who leads or stands by has changed.
using Event = std::variant<Received, ConnectionLost, ProcessGone, StopRequested, PauseRequested, ResumeRequested, Coordinators, Tick>;

struct Transition {
  State state;
  std::optional<Snapshot> decided = {};  ///< on disk before the effects are carried out
  Effects effects = {};                  ///< in order
  std::string reason = {};               ///< what the log and the tests show
};

/// The state before the first peer.
State initial(Options options, Instant now);
/// The state of a coordinator that was killed: same epoch, same revision. Its members are waited for; what they reduced is void.
State restore(Options options, const Snapshot& snapshot, Instant now);
/// The whole coordinator: membership first, then the outer step.
[[nodiscard]] Transition step(State state, const Event& event, Instant now);

}  // namespace prime::coordinator
