#include "actors/peer/peer_machine.hpp"

#include <algorithm>
#include <utility>

#include "actors/peer/coordinator_ties.hpp"
#include "actors/peer/finishing.hpp"
#include "actors/peer/reduces.hpp"
#include "actors/peer/work.hpp"
#include "messages/data_listing.hpp"

namespace prime::peer {
namespace {

using Effects = std::vector<Effect>;

/// A line of a journal is for people.
constexpr std::size_t MISSING_SHOWN = 256;

/// The coordinator, which hears nothing either, gives up a peer at the heartbeat limit: by then this one is back over another connection,
/// if that was all that broke. Two beats fit into the limit, so one that is on its way is no silence.
Duration silence_limit(const Options& options) { return options.heartbeat_limit * 3 / 4; }

/// Handles one event; appends effects, returns the reason.
class Handler : Part {
 public:
  Handler(State& state, Instant now, Effects& effects)
      : Part(state, now, effects),
        ties_(state, now, effects),
        work_(state, now, effects),
        reduces_(state, now, effects),
        finishing_(state, now, effects) {}

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
  std::string operator()(const LeaveRequested&) { return ties_.leave(); }
  std::string operator()(const TrainerContributed& event) { return work_.contributed(event); }
  std::string operator()(const TrainerUsedLease&) { return work_.used_lease(); }
  std::string operator()(const TrainerRestarting& event) { return work_.trainer_restarting(event); }
  std::string operator()(const ReduceEnded& event) { return reduces_.ended(event); }

  std::string operator()(const Configured& event) {
    s_.options.fragments = event.fragments;
    s_.options.decoupled = event.decoupled;
    s_.options.streams = event.streams;
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
    if (work_.trains()) emit(BeginTraining{*s_.begin});
    if (s_.phase == Phase::Finishing && !s_.saving) finishing_.evaluate();
    return "the trainer is back";
  }

  std::string operator()(const TrainerWaits& event) {
    record(events::TrainerWaits{event.cause});
    return "the trainer waits";
  }

  std::string operator()(const TrainerGaveUp& event) {
    // The state is here, and may be the only copy: what is missing is an evaluation.
    if (s_.phase == Phase::Finishing) return finishing_.report({{}, {}, prime::to_string(event.cause)});
    return ties_.give_up(event.cause);
  }

  std::string operator()(const TrainerLeft&) {
    if (s_.phase == Phase::Finishing) return finishing_.report({{}, {}, "the trainer left before it had answered"});
    return ties_.leave();
  }

  std::string operator()(const TrainerFinal& event) {
    if (s_.phase != Phase::Finishing) return "a final answer that nobody waits for";
    return finishing_.report({event.held_out, event.sample.substr(0, 4096), {}});
  }

  std::string operator()(const SaveEnded& event) {
    if (event.periodic) return "a checkpoint on the way";
    if (s_.ending) return ties_.saved(event.path);
    if (!std::exchange(s_.saving, false)) return "a checkpoint that nobody waits for";
    s_.saved = StateSaved{event.path.value_or(""), event.path ? "" : prime::to_string(event.path.error())};
    tell(*s_.saved);
    if (s_.phase == Phase::Finishing) finishing_.evaluate();
    return event.path ? "saved the final state" : "could not save the final state";
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

  std::string operator()(const Tick&) {
    // Who was frozen itself cannot judge the silence of others: what they said meanwhile is still on its way.
    if (now_ - std::exchange(s_.ticked, now_) > s_.options.heartbeat_limit / 2) s_.heard = now_;
    if (s_.phase == Phase::Saving) return ties_.save_again();
    if (s_.phase == Phase::Leaving && now_ - s_.asked > LEAVE_LIMIT) return ties_.stays_away();
    if (s_.phase == Phase::Leaving && !s_.absence) return {};
    if (s_.absence) return ties_.look();
    if (now_ - s_.heard > silence_limit(s_.options)) return ties_.lost("silent for " + format_duration(now_ - s_.heard));
    if (s_.phase != Phase::Greeting && now_ - s_.beat >= s_.options.heartbeat_every) beat();
    return reduces_.doubt();
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
    if (m.donor != s_.fetching->donor) emit(StopFetch{*s_.fetching});
    return "fetches that when the fetch in flight has ended";
  }

  std::string hear(const BeginStep& m) { return work_.begin(m); }
  std::string hear(const PublishNow& m) { return work_.asked(m); }
  std::string hear(const StartReduce& m) { return reduces_.start(m); }
  std::string hear(const Abort& m) { return reduces_.abort(m); }
  std::string hear(const Commit& m) { return reduces_.commit(m); }
  std::string hear(const RunDone& m) { return finishing_.done(m); }
  std::string hear(const HeartbeatSeen&) { return {}; }

  std::string hear(const Coordinators& m) {
    s_.coordinators.assign(m.addresses.begin(),
                           m.addresses.begin() + static_cast<std::ptrdiff_t>(std::min(m.addresses.size(), MAX_COORDINATORS)));
    record(events::CoordinatorsKnown{texts_of(s_.coordinators)});
    return "knows where the run may be served";
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

  std::string take_seat() {
    s_.fetch.reset();
    s_.phase = Phase::Waiting;
    tell(Seated{s_.revision, s_.digest, s_.layout, s_.elements, s_.trainer_pid, s_.data, s_.parts});
    return "seated";
  }

  [[nodiscard]] bool holds(const FetchState& m) const { return s_.revision == m.revision && s_.digest == m.state; }

  std::string start_fetch(const FetchState& m) {
    s_.fetching = m;
    record(events::StateFetching{m.donor, m.revision});
    beat();
    emit(StartFetch{m});
    return "fetching";
  }

  CoordinatorTies ties_;
  Work work_;
  Reduces reduces_;
  Finishing finishing_;
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
