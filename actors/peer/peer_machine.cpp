#include "actors/peer/peer_machine.hpp"

#include <algorithm>
#include <utility>

#include "actors/peer/coordinator_ties.hpp"
#include "messages/assert.hpp"
#include "messages/data_listing.hpp"

namespace prime::peer {
namespace {

using Effects = std::vector<Effect>;

/// A line of a journal is for people.
constexpr std::size_t MISSING_SHOWN = 256;
constexpr const char* LAST_STEP = "the last outer step is committed";

/// The coordinator, which hears nothing either, gives up a peer at the heartbeat limit: by then this one is back over another connection,
/// if that was all that broke. Two beats fit into the limit, so one that is on its way is no silence.
Duration silence_limit(const Options& options) { return options.heartbeat_limit * 3 / 4; }

/// Handles one event; appends effects, returns the reason.
class Handler {
 public:
  Handler(State& state, Instant now, Effects& effects) : s_(state), now_(now), effects_(effects), ties_(state, now, effects) {}

  std::string operator()(const FromCoordinator& message) {
    s_.heard = now_;
    if (s_.phase == Phase::Leaving) {
      if (const auto* answer = std::get_if<Dismissed>(&message))
        return ties_.end(std::nullopt, answer->cause.name == ErrorName::RunStopped, prime::to_string(answer->cause));
      // It has voted: what it saves is what the others hold.
      const bool decides = std::holds_alternative<Commit>(message) || std::holds_alternative<Abort>(message);
      if (!decides) return "it leaves";
    }
    return std::visit([this](const auto& m) { return hear(m); }, message);
  }

  std::string operator()(const CoordinatorLost& event) { return ties_.lost(event.reason); }
  std::string operator()(const CoordinatorBack&) { return ties_.back(); }
  std::string operator()(const RedialFailed& event) { return ties_.redial_failed(event.cause); }

  std::string operator()(const Configured& event) {
    s_.options.fragments = event.fragments;
    s_.options.decoupled = event.decoupled;
    s_.options.heartbeat_every = event.heartbeat_every;
    s_.options.heartbeat_limit = event.heartbeat_limit;
    s_.options.checkpoint_every = event.checkpoint_every;
    s_.options.coordinator_grace = event.coordinator_grace;
    s_.options.all_write_checkpoints = event.all_write_checkpoints;
    s_.options.save_retry = event.save_retry;
    return "configured";
  }

  std::string operator()(const TrainerBound& event) {
    s_.trainer_bound = true;
    s_.trainer_pid = event.pid;
    events::TrainerBound bound{.trainer_pid = event.pid, .elements = event.elements};
    if (event.data.told()) bound.data = event.data.summary;
    if (!event.device.empty()) bound.device = event.device;
    record(std::move(bound));
    if (s_.phase == Phase::Seating) {
      s_.layout = event.layout;
      s_.data = event.data;
      s_.elements = event.elements;
      s_.digest = event.state;
      s_.parts = event.parts;
      s_.revision = event.revision;
      return take_seat();
    }
    if (event.layout != s_.layout) return ties_.give_up(Error{ErrorName::LayoutMismatch, "the restarted trainer binds other tensors"});
    if (event.data.digest != s_.data.digest) {
      const auto files = listings_differ(event.data.listing, s_.data.listing, "before");
      return ties_.give_up(Error{ErrorName::DataMismatch, (files.empty() ? "" : files + "; ") + "the restarted trainer finds " +
                                                              event.data.summary + "; before it found " + s_.data.summary});
    }
    if (trains()) emit(BeginTraining{*s_.begin});
    if (s_.phase == Phase::Finishing && !s_.saving) evaluate();
    return "the trainer is back";
  }

  std::string operator()(const TrainerContributed& event) {
    if (s_.options.decoupled) return published(event);
    if (!trains() || event.step != s_.begin->step) return "a contribution to another step";
    if (s_.starts_over) return "a contribution to another attempt";
    if (!s_.operations.empty()) emit(Probe::ContributedLate);
    tell_ready({event.step, event.base, event.weight, event.samples, event.loss, event.held_out, event.tokens_per_s, s_.trainer_pid, 0,
                event.fragments, event.lengths, event.tokens, 0, event.data_wait});
    if (!has_told_all()) return "contributed to some fragments";
    s_.phase = Phase::Ready;
    return "contributed";
  }

  std::string operator()(const TrainerUsedLease&) {
    if (!s_.options.decoupled || !trains()) return "a lease that nobody waits for";
    s_.phase = Phase::Ready;
    tell(LeaseUsed{s_.begin->step});
    return "has used its samples up";
  }

  std::string operator()(const TrainerRestarting& event) {
    s_.trainer_bound = false;
    s_.evaluating = false;
    record(events::TrainerRestarting{event.cause});
    const bool by_itself = !std::exchange(s_.starts_over, false);
    if (by_itself && trains() && !s_.options.hello.replica.empty()) {
      s_.restarted = true;
      tell_restarted();
    }
    return "the trainer is started again";
  }

  std::string operator()(const TrainerWaits& event) {
    record(events::TrainerWaits{event.cause});
    return "the trainer waits";
  }

  std::string operator()(const TrainerGaveUp& event) {
    // The state is here, and may be the only copy: what is missing is an evaluation.
    if (s_.phase == Phase::Finishing) return report({{}, {}, prime::to_string(event.cause)});
    return ties_.give_up(event.cause);
  }

  std::string operator()(const TrainerLeft&) {
    if (s_.phase == Phase::Finishing) return report({{}, {}, "the trainer left before it had answered"});
    return ties_.leave();
  }

  std::string operator()(const TrainerFinal& event) {
    if (s_.phase != Phase::Finishing) return "a final answer that nobody waits for";
    return report({event.held_out, event.sample.substr(0, 4096), {}});
  }

  std::string operator()(const SaveEnded& event) {
    if (event.periodic) return "a checkpoint on the way";
    if (s_.ending) return ties_.saved(event.path);
    if (!std::exchange(s_.saving, false)) return "a checkpoint that nobody waits for";
    s_.saved = StateSaved{event.path.value_or(""), event.path ? "" : prime::to_string(event.path.error())};
    tell(*s_.saved);
    if (s_.phase == Phase::Finishing) evaluate();
    return event.path ? "saved the final state" : "could not save the final state";
  }

  std::string operator()(const ReduceEnded& event) {
    const auto ended = find(event.op);
    if (ended == s_.operations.end() || ended->prepared) {
      // The operation was aborted while it ended: what it prepared is void.
      if (event.prepared) emit(Discard{event.op});
      return "an operation that is over";
    }
    if (!event.prepared) {
      s_.operations.erase(ended);
      tell(ReduceFailed{event.op, event.suspect, event.prepared.error()});
      return "the reduce failed: " + prime::to_string(event.prepared.error());
    }
    ended->prepared = *event.prepared;
    ended->asked = now_;
    tell(Vote{event.op, *event.prepared, event.wire_bytes, event.reduce_ns});
    return "voted";
  }

  std::string operator()(const FetchEnded& event) {
    if (!s_.fetching || event.revision != s_.fetching->revision) return "a fetch that nobody waits for";
    const auto ended = *std::exchange(s_.fetching, std::nullopt);
    if (event.state) {
      s_.revision = event.revision;
      s_.digest = *event.state;
      s_.parts = event.parts;
      record(events::StateFetched{s_.revision, ended.step, s_.digest});
    }
    if (s_.phase == Phase::Waiting) return take_seat();
    if (s_.phase != Phase::Fetching) return "a fetch that nobody waits for";
    const auto wanted = *s_.fetch;
    const bool asked_anew = wanted.donor != ended.donor || wanted.revision != ended.revision || wanted.state != ended.state;
    if (asked_anew && !holds(wanted)) return start_fetch(wanted);
    s_.fetch.reset();
    s_.phase = Phase::Waiting;
    if (!event.state) {
      tell(FetchFailed{ended.donor, ended.revision, event.state.error()});
      return "the fetch failed";
    }
    tell(Fetched{s_.revision, s_.digest, s_.parts});
    return "fetched";
  }

  std::string operator()(const Progress& event) {
    s_.inner_steps = event.inner_steps;
    return {};
  }

  std::string operator()(const MeasureEnded& event) {
    const bool interrupted = !event.bytes_per_s && event.bytes_per_s.error().name == ErrorName::Interrupted;
    tell(LinkMeasured{event.to, !interrupted, event.bytes_per_s.value_or(0)});
    return "measured a link";
  }

  std::string operator()(const WayChanged& event) {
    tell(LaneRelayed{event.to, event.through});
    return event.through == PeerId{} ? "a lane leads there directly" : "a lane is relayed";
  }

  std::string operator()(const LeaveRequested&) { return ties_.leave(); }

  std::string operator()(const Tick&) {
    // Who was frozen itself cannot judge the silence of others: what they said meanwhile is still on its way.
    if (now_ - std::exchange(s_.ticked, now_) > s_.options.heartbeat_limit / 2) s_.heard = now_;
    if (s_.phase == Phase::Saving) return ties_.save_again();
    if (s_.phase == Phase::Leaving && now_ - s_.asked > LEAVE_LIMIT) return ties_.stays_away();
    if (s_.phase == Phase::Leaving && !s_.absence) return {};
    if (s_.absence) return ties_.look();
    if (now_ - s_.heard > silence_limit(s_.options)) return ties_.lost("silent for " + format_duration(now_ - s_.heard));
    if (s_.phase != Phase::Greeting && now_ - s_.beat >= s_.options.heartbeat_every) beat();
    bool doubts = false;
    for (auto& operation : s_.operations) {
      if (!operation.prepared || now_ - operation.asked < s_.options.doubt_after) continue;
      operation.asked = now_;
      doubts = true;
      tell(InDoubt{operation.reduce.op});
    }
    return doubts ? "in doubt: asked for the decision" : "";
  }

 private:
  std::string hear(const Welcome& m) {
    // A coordinator that came back does not know of those who were not members yet.
    if (s_.phase == Phase::Waiting || s_.phase == Phase::Fetching) {
      s_.phase = Phase::Waiting;
      return s_.fetching ? "takes its seat when the fetch in flight has ended" : take_seat();
    }
    if (s_.phase != Phase::Greeting) return "welcome twice";
    s_.phase = Phase::Seating;
    record(events::Welcomed{m.ordinal});
    emit(StartTrainer{m});
    return "welcome";
  }

  std::string hear(const Dismissed& m) {
    if (s_.phase == Phase::Finishing && m.cause.name == ErrorName::RunDone) return ties_.end(std::nullopt, false, {});
    // Sent away with the run's state in hand: it is kept for whoever continues the run, unless it is void.
    const bool fault_of_this_peer = info(m.cause.name).klass == ErrorClass::User && m.cause.name != ErrorName::StorageFailed;
    const bool worth_keeping = !fault_of_this_peer && m.cause.name != ErrorName::RolledBack;
    return ties_.end(m.cause, worth_keeping, prime::to_string(m.cause));
  }

  std::string hear(const FetchState& m) {
    if (s_.phase != Phase::Waiting && s_.phase != Phase::Fetching) return "a fetch at a wrong time";
    if (s_.phase == Phase::Waiting && holds(m)) {
      // Its first donor went after it had served.
      tell(Fetched{s_.revision, s_.digest, s_.parts});
      return "holds it already";
    }
    s_.phase = Phase::Fetching;
    s_.fetch = m;
    if (!s_.fetching) return start_fetch(m);
    emit(Probe::FetchQueued);
    return "fetches that when the fetch in flight has ended";
  }

  std::string hear(const BeginStep& m) {
    if (m.view.epoch < s_.epoch) return "a step of an older epoch";
    if (m.base != s_.revision)
      return ties_.give_up(Error{ErrorName::ParityBroken, "told to train from revision " + std::to_string(m.base.value) + ", holds " +
                                                              std::to_string(s_.revision.value)});
    s_.epoch = m.view.epoch;
    const bool is_done =
        s_.published && m.contribute && s_.published->begin.step == m.step && s_.published->begin.first_sample == m.first_sample;
    if (is_done) {
      for (const auto& ready : s_.published->told) tell(ready);  // to a coordinator that came back, or this peer did
      emit(Probe::PublishedToldAgain);
      return "has done that step, and says so again";
    }
    const bool known =
        s_.begin && s_.begin->step == m.step && s_.begin->contribute == m.contribute && s_.begin->first_sample == m.first_sample;
    // A coordinator that was restarted has forgotten which attempt it is.
    const auto attempt = known ? std::max(s_.begin->attempt, m.attempt) : m.attempt;
    const bool anew = known && attempt > s_.begin->attempt;
    if (!known && m.overlaps && !s_.owed.empty() && has_told_all()) s_.published = Published{*s_.begin, s_.told, s_.owed};
    auto fragments = known && !anew ? std::exchange(s_.begin->fragments, {}) : m.fragments;
    s_.begin = m;
    s_.begin->attempt = attempt;
    s_.begin->fragments = std::move(fragments);
    if (anew && (s_.phase == Phase::Training || s_.phase == Phase::Ready)) return begin_anew();
    if (known && (s_.phase == Phase::Training || s_.phase == Phase::Ready)) {
      if (!s_.options.decoupled)
        for (const auto& ready : s_.told) tell(ready);
      else if (s_.phase == Phase::Ready) tell(LeaseUsed{m.step});
      if (s_.phase == Phase::Training && s_.restarted) tell_restarted();  // a coordinator that was away may have missed it
      emit(Probe::AtThatStep);
      return "it is at that step";
    }
    s_.inner_steps = 0;
    if (!s_.options.decoupled) s_.told.clear();
    s_.owed.clear();
    for (std::uint32_t fragment = 0; m.contribute && fragment < s_.options.fragments; ++fragment)
      if (covers(m.fragments, fragment)) s_.owed.insert(fragment);
    s_.restarted = false;
    record(events::StepEntered{m.step, m.view.epoch, m.contribute, m.first_sample});
    if (!m.contribute) {
      s_.phase = Phase::Ready;
      tell_ready({m.step, m.base, 0, 0, Real{0.0}, {}, Real{0.0}, s_.trainer_pid});
      return "adopts the result of this step";
    }
    if (s_.phase == Phase::Ready) emit(Probe::Promoted);
    s_.phase = Phase::Training;
    if (s_.trainer_bound) emit(BeginTraining{m});
    return "trains";
  }

  std::string hear(const StartReduce& m) {
    if (m.op.epoch < s_.epoch) return "a reduce of an older epoch";
    // The others do not wait for who is late: it takes part without weight while its trainer goes on.
    const bool waits = s_.phase == Phase::Waiting && s_.begin;
    const bool told = std::ranges::any_of(s_.told, [&](const prime::Ready& ready) { return ready.covers(m.fragment); });
    const bool able =
        s_.phase == Phase::Ready || told || s_.published.has_value() || ((s_.phase == Phase::Training || waits) && own_weight(m) == 0);
    if (!able || m.base != s_.revision || m.elements != s_.elements) {
      const auto why = !able ? "not ready: " + std::string{to_string(s_.phase)}
                             : "holds revision " + std::to_string(s_.revision.value) + " with " + std::to_string(s_.elements) + " elements";
      tell(ReduceFailed{m.op, PeerId{}, Error{ErrorName::ReduceMismatch, why}});
      return "refused the reduce";
    }
    if (s_.phase == Phase::Training) emit(Probe::ReducesWhileTraining);
    s_.epoch = m.op.epoch;
    record(events::ReduceEntered{m.step, m.op, m.contributions.size()});
    if (s_.operations.empty()) beat();  // what was moved until now is of no part of it
    else emit(Probe::ReducesSeveral);
    s_.operations.push_back({.reduce = m});
    emit(RunReduce{m, own_weight(m) > 0});
    return "reduces";
  }

  std::string hear(const Abort& m) {
    const auto aborted = find(m.op);
    if (aborted == s_.operations.end()) return "nothing to abort";
    record(events::ReduceAborted{aborted->reduce.step, m.op, m.op.epoch, m.reason});
    if (aborted->prepared) emit(Discard{m.op});
    else emit(AbortReduce{m.op, m.reason});
    emit(Probe::ReduceVoid);
    s_.operations.erase(aborted);
    return "aborted: " + m.reason;
  }

  std::string hear(const Commit& m) {
    const auto found = find(m.op);
    if (found == s_.operations.end() || !found->prepared) return "a commit that was heard before";
    if (*found->prepared != m.part)
      return ties_.give_up(
          Error{ErrorName::ParityBroken, "prepared " + to_string(*found->prepared) + ", committed was " + to_string(m.part)});
    if (found != s_.operations.begin()) emit(Probe::CommittedBeforeOlder);
    const auto reduce = std::move(found->reduce);
    s_.operations.erase(found);
    PRIME_ASSERT(m.revision == s_.revision.next(), "law 2: a commit leads to the next revision");
    s_.revision = m.revision;
    s_.digest = m.state;
    s_.parts.clear();
    if (s_.options.decoupled) std::erase_if(s_.told, [&](const prime::Ready& ready) { return ready.covers(m.fragment); });
    else if (own_weight(reduce) > 0) work_is_in(m.fragment);
    events::CommitApplied done{.outer_step = m.step, .epoch = m.op.epoch, .revision = m.revision, .digest = m.state};
    for (const auto& contribution : reduce.contributions) {
      done.weight += contribution.weight;
      if (contribution.weight > 0) done.contributors.push_back(contribution.peer);
    }
    const auto every = s_.options.checkpoint_every;
    const bool writes = s_.options.all_write_checkpoints || reduce.view.members.front().id == s_.options.hello.peer;
    if (every > 0 && m.completes && m.step.value % every == 0)
      emit(SaveState{"every " + std::to_string(every) + " outer steps", m.revision, true, writes, is_late(s_)});
    emit(ApplyCommit{m});
    if (m.completes) record(std::move(done));
    // Who trains, or whose work is on the way, goes on with that; all others are told of the next step once this one is complete.
    const bool is_in = !s_.options.decoupled && (s_.begin->contribute ? !is_late(s_) : m.completes);
    if (is_in && s_.phase != Phase::Leaving) s_.phase = Phase::Waiting;
    if (s_.done_after_commit) return hear(*std::exchange(s_.done_after_commit, std::nullopt));
    if (s_.options.decoupled) return "committed";
    return is_in ? "committed" : "committed without its own work, which comes later";
  }

  std::string hear(const RunDone& m) {
    // The news of the last commit was lost with a connection: what it holds is not the final state.
    if (s_.digest != m.state) {
      s_.done_after_commit = m;
      return "has yet to hear of the last commit";
    }
    if (s_.phase == Phase::Finishing) {
      if (s_.report) tell(*s_.report);
      if (m.finalist) {
        emit(Probe::FinalistReplaced);
        return save_final();
      }
      return "it knows that the run is done";
    }
    record(events::RunDoneHeard{m.step, m.state, m.finalist});
    s_.phase = Phase::Finishing;
    s_.done = m;
    if (m.finalist) return save_final();
    emit(SaveState{LAST_STEP, s_.revision, true, false, is_late(s_)});
    evaluate();
    return "evaluates its part of the final state";
  }

  /// The finalist's first duty: a trained state is nowhere but in memory until then.
  std::string save_final() {
    if (s_.saved && s_.saved->problem.empty()) {
      tell(*s_.saved);
      return "it has saved the final state";
    }
    s_.done->finalist = true;
    if (std::exchange(s_.saving, true)) return "it saves the final state already";
    s_.saved.reset();
    emit(SaveState{LAST_STEP, s_.revision, false, true, is_late(s_)});
    return "saves the final state";
  }

  void evaluate() {
    if (s_.report || s_.evaluating) return;
    if (s_.done->evaluate.of == 0 && !s_.done->finalist) {
      report({});
    } else if (s_.trainer_bound) {
      s_.evaluating = true;
      emit(FinishTraining{*s_.done});
    }
  }

  /// The coordinator's dismissal is the proof that it has arrived.
  std::string report(FinalReport report) {
    if (s_.report) return "it has reported";
    s_.report = std::move(report);
    tell(*s_.report);
    return "reported";
  }

  std::string hear(const HeartbeatSeen&) { return {}; }

  std::string hear(const Coordinators& m) {
    s_.coordinators.assign(m.addresses.begin(),
                           m.addresses.begin() + static_cast<std::ptrdiff_t>(std::min(m.addresses.size(), MAX_COORDINATORS)));
    record(events::CoordinatorsKnown{texts_of(s_.coordinators)});
    return "knows where the run may be served";
  }

  /// A trainer that is being started again has made nothing yet.
  std::string hear(const PublishNow& m) {
    if (!s_.options.decoupled || !s_.trainer_bound || (s_.phase != Phase::Training && s_.phase != Phase::Ready))
      return "asked for what there is not";
    emit(AskPublication{m});
    return "asks its trainer for fragment " + std::to_string(m.fragment);
  }

  std::string hear(const ReplicaLacks& m) {
    const auto missing = m.missing.substr(0, MISSING_SHOWN);
    if (missing.empty()) record(events::ReplicaWhole{s_.options.hello.replica});
    else record(events::ReplicaWaits{s_.options.hello.replica, missing});
    return missing.empty() ? "its replica is whole" : "its replica lacks " + missing;
  }

  /// Beside the trainer's work, and not beside a reduce.
  std::string hear(const MeasureLink& m) {
    if (!s_.operations.empty() || (s_.phase != Phase::Training && s_.phase != Phase::Ready)) {
      tell(LinkMeasured{m.to.id, false, 0});
      return "measures no link now";
    }
    emit(StartMeasure{m.to});
    return "measures a link";
  }

  /// As one with the other trainers of its replica, of what not all of them have brought. One that is being started already begins with
  /// this attempt.
  std::string begin_anew() {
    s_.phase = Phase::Training;
    s_.inner_steps = 0;
    forget_told(s_.begin->fragments);
    s_.restarted = false;
    record(events::StepBegunAnew{s_.begin->step, s_.begin->attempt});
    if (std::exchange(s_.starts_over, s_.trainer_bound)) return "begins anew once more";
    if (s_.trainer_bound) emit(StartTrainerOver{});
    return "begins the step anew";
  }

  /// It stays there to be told again until the fragment is committed, with it or without.
  std::string published(const TrainerContributed& event) {
    if (!s_.begin || (s_.phase != Phase::Training && s_.phase != Phase::Ready)) return "a publication that nobody waits for";
    const prime::Ready ready{.step = event.step,
                             .base = event.base,
                             .weight = event.weight,
                             .samples = event.samples,
                             .loss = event.loss,
                             .held_out = event.held_out,
                             .tokens_per_s = event.tokens_per_s,
                             .trainer_pid = s_.trainer_pid,
                             .fragments = event.fragments,
                             .lengths = event.lengths,
                             .tokens = event.tokens,
                             .first_sample = s_.begin->first_sample,
                             .data_wait = event.data_wait};
    std::erase_if(s_.told, [&](const prime::Ready& old) { return old.fragments == ready.fragments; });  // committed without it meanwhile
    s_.told.push_back(ready);
    if (!s_.operations.empty()) emit(Probe::ContributedLate);
    tell(ready);
    return "published";
  }

  /// Of these fragments; what it has told of others is of this attempt, too.
  void forget_told(const Fragments& fragments) {
    for (auto& ready : s_.told) {
      Fragments others;
      for (std::uint32_t fragment = 0; fragment < s_.options.fragments; ++fragment)
        if (ready.covers(fragment) && !covers(fragments, fragment)) others.push_back(fragment);
      ready.fragments = std::move(others);
      ready.attempt = s_.begin->attempt;
    }
    std::erase_if(s_.told, [](const prime::Ready& ready) { return ready.fragments.empty(); });
  }

  void tell_restarted() { tell(TrainerRestarted{s_.begin->step, s_.begin->attempt}); }

  void tell_ready(prime::Ready ready) {
    ready.attempt = s_.begin->attempt;
    s_.told.push_back(ready);
    tell(std::move(ready));
  }

  [[nodiscard]] bool has_told_all() const {
    for (std::uint32_t fragment = 0; fragment < s_.options.fragments; ++fragment) {
      const auto of_it = [&](const prime::Ready& ready) { return ready.covers(fragment); };
      if (covers(s_.begin->fragments, fragment) && std::ranges::none_of(s_.told, of_it)) return false;
    }
    return true;
  }

  std::string take_seat() {
    s_.fetch.reset();
    s_.phase = Phase::Waiting;
    tell(Seated{s_.revision, s_.digest, s_.layout, s_.elements, s_.trainer_pid, s_.data, s_.parts});
    return "seated";
  }

  [[nodiscard]] bool holds(const FetchState& m) const { return s_.revision == m.revision && s_.digest == m.state; }

  void beat() {
    s_.beat = now_;
    tell(Heartbeat{s_.inner_steps, s_.moved_bytes});
  }

  std::string start_fetch(const FetchState& m) {
    s_.fetching = m;
    record(events::StateFetching{m.donor, m.revision});
    beat();
    emit(StartFetch{m});
    return "fetching";
  }

  /// Its inner steps are under way, whatever the others do meanwhile.
  [[nodiscard]] bool trains() const { return s_.phase == Phase::Training && s_.begin->contribute; }

  /// Of two steps it is the earlier one's: the other is kept back until then.
  void work_is_in(std::uint32_t fragment) {
    auto& published = s_.published;
    if (!published || published->owed.erase(fragment) == 0) s_.owed.erase(fragment);
    else if (published->owed.empty()) published.reset();
  }

  [[nodiscard]] std::vector<InHand>::iterator find(const OperationId& op) {
    return std::ranges::find(s_.operations, op, [](const InHand& each) { return each.reduce.op; });
  }

  [[nodiscard]] std::uint64_t own_weight(const StartReduce& m) const {
    for (const auto& contribution : m.contributions)
      if (contribution.peer == s_.options.hello.peer) return contribution.weight;
    return 0;
  }

  void tell(ToCoordinator message) { effects_.emplace_back(Tell{std::move(message)}); }
  void emit(Effect effect) { effects_.push_back(std::move(effect)); }
  void record(JournalEvent event) { effects_.emplace_back(std::move(event)); }

  State& s_;
  Instant now_;
  Effects& effects_;
  CoordinatorTies ties_;
};

}  // namespace

bool is_late(const State& state) {
  const auto& begin = state.begin;
  return begin && begin->contribute && begin->base < state.revision && !state.owed.empty();
}

Phase phase_of(const State& state) {
  const bool at_work = state.phase == Phase::Waiting || state.phase == Phase::Training || state.phase == Phase::Ready;
  if (!at_work || state.operations.empty()) return state.phase;
  return std::ranges::all_of(state.operations, [](const InHand& each) { return each.prepared.has_value(); }) ? Phase::Voted
                                                                                                             : Phase::Reducing;
}

bool joins_anew(const Error& cause) {
  return cause.name == ErrorName::Evicted || cause.name == ErrorName::LaneBroken || cause.name == ErrorName::DeadlineExceeded ||
         cause.name == ErrorName::FetchFailed || cause.name == ErrorName::RolledBack;
}

Transition start(Options options, Instant now) {
  Transition result;
  result.state.heard = now;
  result.state.ticked = now;
  result.state.beat = now;
  result.effects.emplace_back(Tell{options.hello});
  result.state.options = std::move(options);
  result.reason = "hello";
  return result;
}

Transition step(State state, const Event& event, Instant now) {
  Transition result{std::move(state), {}, {}};
  if (result.state.phase == Phase::Over) return result;
  // Who saves what it holds is deaf to the run, which it is no part of any more.
  const bool about_saving =
      std::holds_alternative<SaveEnded>(event) || std::holds_alternative<FetchEnded>(event) || std::holds_alternative<Tick>(event);
  if (result.state.phase == Phase::Saving && !about_saving) return result;
  // Who leaves is deaf to all but the answer, and the lack of one.
  const bool about_leaving = std::holds_alternative<FromCoordinator>(event) || std::holds_alternative<CoordinatorLost>(event) ||
                             std::holds_alternative<CoordinatorBack>(event) || std::holds_alternative<RedialFailed>(event) ||
                             std::holds_alternative<SaveEnded>(event) || std::holds_alternative<ReduceEnded>(event) ||
                             std::holds_alternative<FetchEnded>(event) || std::holds_alternative<Tick>(event);
  if (result.state.phase == Phase::Leaving && !about_leaving) return result;
  result.reason = std::visit(Handler{result.state, now, result.effects}, event);
  return result;
}

}  // namespace prime::peer
