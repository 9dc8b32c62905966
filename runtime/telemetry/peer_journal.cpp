#include "runtime/telemetry/peer_journal.hpp"

#include <algorithm>
#include <charconv>

#include "runtime/telemetry/error_text.hpp"

namespace prime::telemetry {
namespace {

/// Without a reason it left, and with its run when that is stopped; with another one it was lost.
PeerState state_after(const std::optional<Cause>& reason) { return reason && !is_stop(*reason) ? PeerState::Lost : PeerState::Left; }

/// What each event changes; those that change nothing are for `logs` only.
class PeerFold {
 public:
  PeerFold(PeerJournal& journal, std::string_view time) : j_(journal), s_(journal.status), time_(time) {}

  void operator()(const events::AgentStarted& e) {
    j_.agent = identity_of(e);
    j_.kills_before = memory_kills_of(e, here().boot);
    j_.run = e.run;
    if (!j_.begun && !time_.empty()) j_.begun = time_;
    j_.instead_of = e.instead_of ? to_string(*e.instead_of) : "";
    j_.ended = false;
    s_.pid = e.pid;
    s_.id = e.who.peer == PeerId{} ? "" : to_string(e.who.peer);
    s_.name = e.who.name;
    s_.replica = e.who.replica;
    s_.shard = e.who.shard;
  }
  void operator()(const events::ProcessEnded& e) {
    j_.ended = true;
    j_.exit_code = e.exit_code;
    if (is_gone(s_.state)) return;
    s_.state = state_after(e.reason);
    s_.reason = e.reason ? e.reason->text : "left";
    j_.refused = !j_.entered && e.reason && is_refusal(*e.reason);
  }
  void operator()(const events::TrainerBound& e) {
    s_.trainer_pid = e.trainer_pid;
    s_.device = e.device.value_or("");
    s_.reason.clear();
  }
  void operator()(const events::TrainerRestarting& e) {
    s_.trainer_pid.reset();
    ++s_.restarts;
    s_.restart_reason = e.reason.text;
    s_.reason = "the trainer is started again: " + e.reason.text;
  }
  void operator()(const events::TrainerWaits& e) {
    const bool unserved = e.reason.name.has_value();  // what a trainer says itself is no error of the agent's
    s_.reason = e.reason.text.empty() ? "" : (unserved ? "the trainer cannot be started yet: " : "the trainer waits for ") + e.reason.text;
  }
  void operator()(const events::StateFetching&) {
    j_.entered = true;
    s_.state = PeerState::Fetching;
  }
  void operator()(const events::DonorUnreached& e) {
    // A try that ends after the peer says nothing of why that one did.
    if (!is_gone(s_.state)) s_.reason = "reaches the coordinator, but no peer that has the state: " + e.reason;
  }
  void operator()(const events::StateFetched& e) {
    s_.state = PeerState::Joining;
    s_.reason.clear();
    s_.outer_step = e.outer_step.value;
    j_.revision = e.revision.value;
    s_.digest = to_string(e.digest);
  }
  void operator()(const OneOf<events::StepEntered, events::ReduceAborted> auto&) {
    j_.entered = true;
    s_.state = PeerState::Training;
  }
  void operator()(const events::ReduceEntered&) { s_.state = PeerState::Reducing; }
  void operator()(const events::CommitApplied& e) {
    s_.state = PeerState::Training;
    s_.outer_step = e.outer_step.value;
    j_.revision = e.revision.value;
    s_.digest = to_string(e.digest);
  }
  void operator()(const events::RunDoneHeard&) { j_.run_done = true; }
  void operator()(const events::CheckpointWritten& e) {
    j_.checkpoint = e.path;
    j_.problem.reset();
  }
  void operator()(const events::PrivateStateFresh& e) { j_.fresh = e.reason.text; }
  void operator()(const events::CheckpointFailed& e) { j_.problem = e.reason.text; }
  void operator()(const events::ContributionNotKept& e) { j_.problem = e.reason.text; }
  void operator()(const events::CoordinatorLost& e) {
    j_.absence = {"the coordinator: " + e.reason, moment(time_), moment(time_, e.gives_up_after_s)};
  }
  void operator()(const events::CoordinatorBack&) { j_.absence.reset(); }
  void operator()(const events::DescriptorsUsedUp& e) { j_.shortage = e.reason; }
  void operator()(const events::DescriptorsFree&) { j_.shortage.clear(); }
  void operator()(const events::ReplicaWaits& e) { j_.lacks = e.missing; }
  void operator()(const events::ReplicaWhole&) { j_.lacks.clear(); }
  void operator()(const events::StateSaving& e) {
    j_.saving = true;
    s_.state = PeerState::Saving;
    s_.reason = "saves what it holds: " + e.reason;
  }
  void operator()(const events::PeerEnded& e) {
    j_.saving = false;
    s_.state = state_after(e.reason);
    s_.reason = e.reason ? e.reason->text : j_.run_done ? "the run is done" : "left";
    j_.refused = !j_.entered && e.reason && is_refusal(*e.reason);
  }

  void operator()(
      const OneOf<events::Welcomed, events::StepBegunAnew, events::CoordinatorsKnown, events::StateNotSaved, events::PrivateStateWritten,
                  events::PrivateStateFailed, events::PrivateStateTaken, events::JournalLinesDropped> auto&) {}
  // The coordinator's, in its own journal.
  void operator()(
      const OneOf<events::CoordinatorStarted, events::RunContinues, events::CoordinatorRestarted, events::StandingBy, events::Leading,
                  events::CoordinatorListening, events::CoordinatorStoodStill, events::Waiting, events::LastWordUnanswered,
                  events::PeerJoining, events::ShardWaits, events::PeerSeated, events::StateFounded, events::PeerFetching,
                  events::PeerFetched, events::FetchFailed, events::PeerAdmitted, events::PeerRefused, events::PeerAbsent,
                  events::PeerReturned, events::PeerLost, events::PeerLeft, events::CorrelatedLoss, events::PauseEnded, events::RunPaused,
                  events::RunResumed, events::RolledBack, events::RingKept, events::RingAdopted, events::LinkRate, events::LaneRelayed,
                  events::LaneDirect, events::OuterStepBegun, events::PeerReady, events::PeerLate, events::ReduceStarted,
                  events::TransferProgress, events::OuterStepAborted, events::RoundCommitted, events::OuterStepCommitted,
                  events::FinalReport, events::FinalStateSaved, events::FinalSaveFailed, events::DataFounded, events::RunDone,
                  events::RunStopped, events::RunFailed> auto&) {}

 private:
  PeerJournal& j_;
  PeerStatus& s_;
  std::string_view time_;
};

}  // namespace

std::uint64_t step_of_checkpoint(const std::filesystem::path& checkpoint) {
  const auto name = checkpoint.filename().string();
  const auto digits = name.find_first_of("0123456789");
  std::uint64_t step = 0;
  if (digits != std::string::npos) std::from_chars(name.data() + digits, name.data() + name.size(), step);
  return step;
}

bool holds_only_copy(const PeerJournal& peer, std::span<const PeerJournal> all) {
  const auto held = peer.status.outer_step.value_or(0);
  if (peer.ended || peer.run_done || held == 0) return false;
  return std::ranges::none_of(all, [&](const PeerJournal& other) {
    return other.status.shard == peer.status.shard && other.checkpoint && step_of_checkpoint(*other.checkpoint) >= held;
  });
}

void PeerJournal::apply(const JournalEvent& event, std::string_view time) { std::visit(PeerFold{*this, time}, event); }

}  // namespace prime::telemetry
