#include "runtime/telemetry/run_journal.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "messages/division.hpp"
#include "messages/result.hpp"
#include "runtime/telemetry/error_text.hpp"

namespace prime::telemetry {
namespace {

/// The row of a peer; nullptr when the line names none.
PeerStatus* row_of(RunStatus& status, const Who& who) {
  if (who.peer == PeerId{}) return nullptr;
  const auto id = to_string(who.peer);
  auto found = std::ranges::find(status.peers, id, &PeerStatus::id);
  if (found == status.peers.end()) {
    found = status.peers.emplace(found);
    found->id = id;
  }
  if (!who.name.empty()) found->name = who.name;
  if (!who.replica.empty()) {
    found->replica = who.replica;
    found->shard = who.shard;
  }
  return &*found;
}

/// The members of the view, as far as a fold knows them: whoever trains or reduces.
template <class Change>
void for_members(RunStatus& status, Change change) {
  for (auto& peer : status.peers)
    if (peer.state == PeerState::Training || peer.state == PeerState::Reducing) change(peer);
}

void set_members(RunStatus& status, PeerState state) {
  for_members(status, [state](PeerStatus& peer) {
    peer.state = state;
    peer.transfer.reset();
  });
}

void end_run(RunStatus& status, RunState state, const std::string& reason) {
  status.state = state;
  status.wait = {};
  status.relayed.clear();
  for (auto& peer : status.peers) {
    peer.link.reset();
    if (is_gone(peer.state)) continue;
    peer.state = PeerState::Left;
    peer.tokens_per_s.reset();
    peer.data_wait.reset();
    peer.transfer.reset();
    peer.reason = reason;
  }
}

/// By its owner, or by all peers leaving it; not by what went wrong.
void end_early(RunStatus& status, const Cause& cause) {
  const auto state = is_stop(cause) ? RunState::Stopped : RunState::Failed;
  if (status.state == state) return;
  status.reason = cause.text;
  end_run(status, state, cause.text);
}

/// Of a lane the last that was told counts, whichever end opened it.
void note_lane(RunStatus& status, RelayedLane lane) {
  std::erase_if(status.relayed, [&](const RelayedLane& known) {
    return (known.from == lane.from && known.to == lane.to) || (known.from == lane.to && known.to == lane.from);
  });
  if (!lane.through.empty()) status.relayed.push_back(std::move(lane));
}

void forget_lanes(RunStatus& status, const std::string& name) {
  std::erase_if(status.relayed, [&](const RelayedLane& lane) { return lane.from == name || lane.to == name; });
  for (auto& peer : status.peers)
    if (peer.name == name || (peer.link && peer.link->to == name)) peer.link.reset();
}

/// Where a peer stands now; what the event tells of it besides is the caller's.
PeerStatus* stands(RunStatus& status, const Who& who, PeerState state) {
  auto* const peer = row_of(status, who);
  if (peer == nullptr) return nullptr;
  peer->state = state;
  peer->reason.clear();
  peer->transfer.reset();
  return peer;
}

/// Of a replica that is not whole, each peer waits for the same ones.
void name_missing(RunStatus& status, const std::string& replica) {
  const auto waits = [&](const PeerStatus& peer) { return peer.replica == replica && peer.state == PeerState::Joining; };
  std::string missing;
  std::size_t count = 0;
  for (std::uint64_t shard = 0; shard < status.shards; ++shard) {
    const auto holds = [&](const PeerStatus& peer) {
      const bool comes = peer.state == PeerState::Joining || peer.state == PeerState::Fetching;
      return peer.replica == replica && comes && peer.shard == shard;
    };
    if (std::any_of(status.peers.begin(), status.peers.end(), holds)) continue;
    missing += (count++ == 0 ? "" : ", ") + std::to_string(shard);
  }
  for (auto& peer : status.peers)
    if (waits(peer))
      peer.reason = count == 0 ? "" : (count == 1 ? "waits for shard " : "waits for shards ") + missing + " of replica " + replica;
}

void go(RunStatus& status, PeerState state, const Who& who, const Cause& cause) {
  auto* const peer = row_of(status, who);
  if (peer == nullptr) return;
  const bool waited = peer->state == PeerState::Joining && !peer->reason.empty();
  peer->state = state;
  peer->reason = cause.text;
  peer->tokens_per_s.reset();
  peer->data_wait.reset();
  peer->transfer.reset();
  forget_lanes(status, peer->name);
  if (waited && !peer->replica.empty()) name_missing(status, std::string{peer->replica});
}

void note_held_out(RunStatus& status, const std::optional<double>& loss, const std::optional<std::uint64_t>& tokens) {
  if (!loss || std::isnan(*loss)) return;
  status.held_out_loss = loss;
  status.held_out_tokens = tokens.value_or(0);
}

/// What each event changes in the status; those that change nothing are for `logs` only.
class RunFold {
 public:
  RunFold(RunJournal& journal, std::string_view time) : j_(journal), s_(journal.status), time_(time) {}

  void operator()(const events::CoordinatorStarted& e) {
    j_.ended = false;
    if (!j_.begun && !time_.empty()) j_.begun = time_;
    j_.shortage.clear();
    if (auto before = std::exchange(j_.before_the_end, std::nullopt)) s_ = *std::move(before);
    j_.coordinator = identity_of(e);
    j_.kills_before = memory_kills_of(e, here().boot);
    j_.guard = ProcessIdentity{static_cast<pid_t>(e.guard_pid), e.guard_start_ticks, j_.coordinator.place};
    s_.coordinator_here = true;
    s_.coordinator_pid = e.pid;
    s_.shards = e.shards.value_or(1);
    if (!e.run.empty()) s_.id = e.run;
    s_.name = e.name.empty() ? run_name(s_.id) : e.name;
  }
  void operator()(const events::ProcessEnded& e) {
    j_.ended = true;
    // Who watched it may know better than the coordinator, which was only told to end.
    if (is_over(s_.state) && s_.state != RunState::Stopped) return;
    const auto cause = e.reason.value_or(Cause{"the coordinator was ended"});
    if (!is_over(s_.state)) {
      j_.before_the_end = s_;
      j_.obstacle = cause.text;
    }
    end_early(s_, cause);
  }
  void operator()(const events::CoordinatorListening& e) {
    j_.obstacle.reset();
    s_.coordinator_address = e.address;
  }
  void operator()(const events::StandingBy& e) {
    j_.obstacle.reset();
    s_.state = RunState::Standby;
    s_.wait = {};
    s_.coordinator_address = e.address;
    s_.stands_by_for = e.leader;
  }
  void operator()(const events::Leading&) {
    if (!s_.stands_by_for) return;  // it leads again, or from the start
    s_.took_over = true;
    s_.stands_by_for.reset();
    s_.state = RunState::Waiting;
  }
  void operator()(const events::StateFounded& e) {
    if (e.who.replica.empty()) s_.digest = known(e.digest);  // else it is of a shard
  }
  void operator()(const events::RunContinues& e) {
    s_.outer_step = e.outer_step.value;
    s_.began_at = e.outer_step.value;
    for (auto& fragment : s_.fragments) fragment.version = e.outer_step.value;
    s_.revision = e.revision.value;
    s_.digest = known(e.digest);
    s_.tokens = e.tokens;
  }
  void operator()(const events::ShardWaits& e) {
    if (auto* peer = stands(s_, e.who, PeerState::Joining)) peer->pid = e.pid;
    name_missing(s_, e.who.replica);
  }
  void operator()(const events::PeerJoining& e) {
    if (auto* peer = stands(s_, e.who, PeerState::Joining)) peer->pid = e.pid;
  }
  void operator()(const events::PeerSeated& e) {
    auto* const peer = stands(s_, e.who, PeerState::Joining);
    if (peer == nullptr) return;
    peer->trainer_pid = e.trainer_pid;
    peer->digest = known(e.digest);
    if (!e.who.replica.empty()) name_missing(s_, e.who.replica);  // it may wait for them still
  }
  void operator()(const events::PeerFetching& e) { stands(s_, e.who, PeerState::Fetching); }
  void operator()(const events::PeerFetched& e) {
    auto* const peer = stands(s_, e.who, PeerState::Joining);
    if (peer == nullptr) return;
    peer->outer_step = s_.outer_step;
    peer->digest = known(e.digest);
  }
  void operator()(const events::PeerAdmitted& e) {
    s_.epoch = e.epoch.value;
    auto* const peer = stands(s_, e.who, PeerState::Training);
    if (peer == nullptr) return;
    if (e.pid) peer->pid = e.pid;
    if (e.trainer_pid) peer->trainer_pid = e.trainer_pid;
    peer->outer_step = s_.outer_step;
  }
  void operator()(const events::PeerLeft& e) { go(s_, PeerState::Left, e.who, e.reason); }
  /// Who was never let in, since it is none of the run's, is no row of it.
  void operator()(const events::PeerLost& e) {
    const auto* const peer = row_of(s_, e.who);
    const bool refused = peer != nullptr && peer->state == PeerState::Joining && is_refusal(e.reason);
    go(s_, PeerState::Lost, e.who, e.reason);
    if (refused) std::erase_if(s_.peers, [&](const PeerStatus& row) { return row.id == to_string(e.who.peer); });
  }
  void operator()(const events::CorrelatedLoss& e) {
    if (e.policy == LossPolicy::Pause) s_.state = RunState::Paused;
  }
  void operator()(const events::PauseEnded&) { s_.state = RunState::Waiting; }
  // A coordinator that was started again says it anew.
  void operator()(const events::RunPaused&) {
    if (!s_.paused_since) s_.paused_since = std::string{time_};
  }
  void operator()(const events::RunResumed&) {
    s_.paused_since.reset();
    if (s_.state == RunState::Paused) s_.state = RunState::Waiting;
  }
  void operator()(const events::RoundCommitted& e) {
    if (s_.fragments.size() <= e.fragment && e.fragment < MAX_FRAGMENTS) s_.fragments.resize(e.fragment + 1);
    if (e.fragment < MAX_FRAGMENTS) s_.fragments[e.fragment].version = e.version.value;
    end_reduce(e.fragment);
  }
  void operator()(const events::PeerReady& e) {
    j_.ready.insert(e.who.peer);
    auto* const peer = row_of(s_, e.who);
    if (peer == nullptr) return;
    if (!std::isnan(e.tokens_per_s)) peer->tokens_per_s = e.tokens_per_s;
    if (e.data_wait) peer->data_wait = e.data_wait;
    if (e.trainer_pid == 0) return;
    // What a peer elsewhere does with its trainer is seen by this alone.
    if (peer->trainer_pid && *peer->trainer_pid != e.trainer_pid) ++peer->restarts;
    peer->trainer_pid = e.trainer_pid;
  }
  void operator()(const events::DataFounded& e) { j_.data_differs = e.differs.value_or(""); }
  void operator()(const events::DescriptorsUsedUp& e) { j_.shortage = e.reason; }
  void operator()(const events::DescriptorsFree&) { j_.shortage.clear(); }
  void operator()(const events::OuterStepBegun& e) {
    s_.epoch = e.epoch.value;
    s_.state = RunState::Training;
    s_.paused_since.reset();
    j_.reducing.clear();
    set_members(s_, PeerState::Training);
  }
  void operator()(const events::ReduceStarted& e) {
    s_.epoch = e.epoch.value;
    j_.reducing.insert(e.operation.tag.value);
    set_members(s_, PeerState::Reducing);
  }
  void operator()(const events::TransferProgress& e) {
    auto* const peer = row_of(s_, e.who);
    if (peer == nullptr) return;
    peer->transfer = {e.kind, e.moved_bytes, e.needed_bytes, e.bytes_per_s};
    peer->transfer_bytes_per_s = e.bytes_per_s;
  }
  void operator()(const events::OuterStepAborted& e) { end_reduce(e.operation.tag.value); }
  void operator()(const events::OuterStepCommitted& e) {
    s_.epoch = e.epoch.value;
    s_.outer_step = e.outer_step.value;
    s_.revision = e.revision.value;
    s_.digest = known(e.digest);
    s_.loss = known(e.loss);
    note_held_out(s_, e.held_out_loss, e.held_out_tokens);
    s_.tokens_per_s = known(e.tokens_per_s);
    s_.tokens = e.tokens;
    if (s_.loss) s_.losses.push_back(*s_.loss);
    if (s_.losses.size() > REMEMBERED_LOSSES) s_.losses.erase(s_.losses.begin());
    for_members(s_, [&](PeerStatus& peer) {
      peer.state = PeerState::Training;
      peer.transfer.reset();
      peer.outer_step = s_.outer_step;
      // That of a shard is told by its own peers alone.
      if (peer.replica.empty()) peer.digest = s_.digest;
      else peer.digest.reset();
    });
  }
  void operator()(const events::RingAdopted&) {
    for (auto& peer : s_.peers) peer.link.reset();  // what is known of the new ring follows
  }
  void operator()(const events::LinkRate& e) {
    if (auto* const peer = row_of(s_, e.who)) peer->link = {e.to, e.bytes_per_s};
  }
  void operator()(const events::LaneRelayed& e) { note_lane(s_, {e.who.name, e.to, e.through}); }
  void operator()(const events::LaneDirect& e) { note_lane(s_, {e.who.name, e.to, {}}); }
  void operator()(const events::RolledBack& e) {
    s_.epoch = e.epoch.value;
    s_.state = RunState::Waiting;
    s_.outer_step = e.outer_step.value;
    for (auto& fragment : s_.fragments) fragment.version = e.outer_step.value;
    s_.revision = e.revision.value;
    s_.digest = known(e.digest);
    s_.tokens = e.tokens;
  }
  void operator()(const events::Waiting& e) {
    const auto at = [&](const std::optional<Duration>& after) { return after ? moment(time_, *after) : std::nullopt; };
    s_.wait = {e.what, at(e.waited_s ? std::optional{-*e.waited_s} : std::nullopt), at(e.left_s)};
    // Waiting for peers stops the run; every other wait is a part of an outer step.
    const bool stands_still = s_.state == RunState::Waiting || s_.state == RunState::Paused;
    if (e.phase != RunPhase::Waiting) {
      if (stands_still && s_.epoch > 0) s_.state = RunState::Training;
    } else if (s_.paused_since) {
      s_.state = RunState::Paused;
    } else if (!stands_still) {
      s_.state = RunState::Waiting;
    }
  }
  void operator()(const events::FinalStateSaved& e) {
    if (!e.checkpoint.empty()) s_.checkpoint = e.checkpoint;
    s_.checkpoint_problem.clear();
  }
  void operator()(const events::FinalSaveFailed& e) {
    s_.checkpoint_problem = (e.who.name.empty() ? "a peer" : e.who.name) + ": " + e.reason.text;
  }
  void operator()(const events::FinalReport& e) {
    note_held_out(s_, e.held_out_loss, e.held_out_tokens);
    if (!e.checkpoint.empty()) s_.checkpoint = e.checkpoint;
    s_.evaluation_problem = e.evaluation_problem.value_or("");
    s_.sample = e.sample;
  }
  void operator()(const events::RunDone&) { end_run(s_, RunState::Done, "the run is done"); }
  void operator()(const OneOf<events::RunStopped, events::RunFailed> auto& e) { end_early(s_, e.reason); }

  void operator()(const OneOf<events::CoordinatorRestarted, events::CoordinatorsKnown, events::LastWordUnanswered, events::FetchFailed,
                              events::PeerRefused, events::PeerAbsent, events::PeerReturned, events::RingKept, events::PeerLate,
                              events::CoordinatorStoodStill> auto&) {}
  // An agent's, in its own journal.
  void operator()(const OneOf<events::AgentStarted, events::Welcomed, events::TrainerBound, events::TrainerRestarting, events::TrainerWaits,
                              events::ReplicaWaits, events::ReplicaWhole, events::StateFetching, events::DonorUnreached,
                              events::StateFetched, events::StepEntered, events::StepBegunAnew, events::ReduceEntered,
                              events::ReduceAborted, events::CommitApplied, events::RunDoneHeard, events::CheckpointWritten,
                              events::CheckpointFailed, events::ContributionNotKept, events::StateSaving, events::StateNotSaved,
                              events::PrivateStateWritten, events::PrivateStateFailed, events::PrivateStateTaken, events::PrivateStateFresh,
                              events::JournalLinesDropped, events::CoordinatorLost, events::CoordinatorBack, events::PeerEnded> auto&) {}

 private:
  void end_reduce(std::uint64_t fragment) {
    j_.reducing.erase(fragment);
    if (j_.reducing.empty()) set_members(s_, PeerState::Training);
  }
  static std::optional<double> known(double figure) { return std::isnan(figure) ? std::nullopt : std::optional{figure}; }
  static std::optional<std::string> known(const Digest& digest) {
    return digest == Digest{} ? std::nullopt : std::optional{to_string(digest)};
  }

  RunJournal& j_;
  RunStatus& s_;
  std::string_view time_;
};

}  // namespace

void RunJournal::apply(const JournalEvent& event, std::string_view time) { std::visit(RunFold{*this, time}, event); }

}  // namespace prime::telemetry
