#include "actors/peer/trainer_machine.hpp"

#include <algorithm>
#include <utility>

#include "messages/assert.hpp"

namespace prime::trainer_life {
namespace {

/// What an agent lacks is looked for again so soon, then after twice as long each time.
constexpr Duration FIRST_PAUSE = 500ms;
constexpr Duration LONGEST_PAUSE = 30s;

class Handler {
 public:
  Handler(State& state, Instant now, std::vector<Effect>& effects) : s_(state), now_(now), effects_(effects) {}

  std::string operator()(const Start&) {
    if (s_.over) return "its end is near: no trainer is started";
    s_.phase = Phase::Starting;
    s_.stop_cause.reset();
    s_.contributed.reset();
    s_.brought.reset();
    s_.at_work = false;
    s_.resumed = false;
    s_.owed = 0;
    s_.data = {};
    s_.wait.reset();
    s_.waits_for.clear();
    s_.fresh = !std::exchange(s_.started_before, true);
    return launch();
  }

  std::string operator()(const TensorsBound& event) {
    if (s_.phase != Phase::Starting) return "of a trainer that is gone";
    s_.phase = Phase::Bound;
    s_.device = event.device;
    emit(OpenState{});
    return "has bound its tensors";
  }

  std::string operator()(const StateOpened& event) {
    if (s_.phase != Phase::Bound) return "of a trainer that is gone";
    if (!event.opened) return lacks(event.opened.error(), OpenState{});
    s_.wait.reset();
    s_.progress = now_;
    emit(MapTensors{});
    return "maps its tensors";
  }

  std::string operator()(const Described& event) {
    s_.data = event.data;
    return "told its data";
  }

  std::string operator()(const Initial&) {
    if (s_.phase != Phase::Bound) return "of a trainer that is gone";
    emit(FoundState{});
    return "brings its values";
  }

  std::string operator()(const StateFound& event) {
    if (event.held) s_.held = event.held->revision;
    if (event.held && event.held->record) s_.record = event.held->record;
    if (s_.phase != Phase::Bound) return "of a trainer that is gone";
    if (!event.held) return lacks(event.held.error(), FoundState{});
    s_.wait.reset();
    s_.phase = Phase::Ready;
    s_.progress.reset();
    const auto& held = *event.held;
    emit(Report{peer::TrainerBound{held.layout, held.elements, held.state, held.revision, held.pid, s_.data, held.parts, s_.device}});
    return "ready";
  }

  std::string operator()(const Worked& event) {
    if (s_.progress) s_.progress = now_;
    if (event.inner_steps) emit(Report{peer::Progress{*event.inner_steps}});
    if (event.waits_for == s_.waits_for) return {};
    s_.waits_for = event.waits_for;
    emit(Report{peer::TrainerWaits{Cause{event.waits_for}}});
    return event.waits_for.empty() ? "waits no more" : "waits for " + event.waits_for;
  }

  std::string operator()(const Recorded& event) {
    if (s_.phase != Phase::Ready) return "of a trainer that is gone";
    replace_record(event.record);
    s_.record->base = s_.base;
    return "recorded";
  }

  std::string operator()(const Contributed& event) {
    s_.progress.reset();
    s_.brought = event.record;
    s_.contributed = event.work;
    s_.contributed->base = s_.base;
    s_.diverged_at = event.diverged_at;
    if (s_.uncommitted > 0) return "contributes, once what was contributed before it is committed";
    emit(TakeContribution{});
    return "contributes";
  }

  /// What a diverged trainer made is not sent: it is started again from the outer state, and the supervisor bounds how often. From a record
  /// it would go the same way again.
  std::string operator()(const ContributionTaken& event) {
    const auto work = std::exchange(s_.contributed, std::nullopt);
    auto brought = std::exchange(s_.brought, std::nullopt);
    if (!work || s_.phase != Phase::Ready) return "of a trainer that is gone";
    if (!event.taken) {
      forget_records();
      return refuse(diverged(event.taken.error(), work->step));
    }
    if (work->weight == 0) {
      emit(Report{peer::TrainerGaveUp{Error{ErrorName::TrainerProtocol, "the trainer contributed without having trained on a token"}}});
      return "contributed without having trained";
    }
    if (brought) {
      replace_record(*std::move(brought));
      s_.lacking = s_.options.fragments;
    }
    s_.owed = s_.uncommitted = s_.options.fragments;
    s_.at_work = false;
    emit(Report{*work});
    return "contributed";
  }

  std::string operator()(const Answered& event) {
    s_.over = true;
    s_.progress.reset();
    emit(Report{event.answer});
    return "answered";
  }

  std::string operator()(const Misbehaved& event) { return refuse(event.error); }

  std::string operator()(const Unserved& event) {
    const bool launched_by_us = !s_.options.external && !s_.over && !s_.stop_cause;
    if (!launched_by_us) return (*this)(Gone{event.cause});
    s_.phase = Phase::Absent;
    s_.owed = 0;
    return lacks(event.cause, Launch{s_.fresh});
  }

  std::string operator()(const Gone& event) {
    const bool began = std::exchange(s_.phase, Phase::Absent) == Phase::Ready;
    s_.wait.reset();
    s_.owed = 0;
    s_.progress.reset();
    if (s_.over) return "has ended";
    const auto& cause = s_.stop_cause ? s_.stop_cause : event.cause;
    if (cause) emit(Died{*cause, began});
    else emit(Report{peer::TrainerLeft{}});
    return cause ? "died" : "left";
  }

  std::string operator()(const Applied& event) {
    s_.held = event.commit.revision;
    if (event.own_work && s_.lacking > 0 && --s_.lacking == 0) settle();
    save_what_is_due();
    // A late trainer hears nothing of what is committed without its work.
    const bool is_in = event.own_work && s_.owed > 0 && --s_.owed == 0;
    if (event.own_work && s_.uncommitted > 0 && --s_.uncommitted == 0 && s_.contributed) emit(TakeContribution{});
    if (is_in && s_.phase == Phase::Ready) emit(TellCommitted{event.commit, event.contributors, !s_.at_work});
    tell_what_is_due();
    return "applied";
  }

  std::string operator()(const Adopted& event) {
    s_.held = event.revision;
    tell_what_is_due();
    return "adopted";
  }

  std::string operator()(const Begin& event) {
    s_.begin = event.begin;
    if (!event.begin.overlaps) s_.uncommitted = 0;  // it is committed, or void
    tell_what_is_due();
    return s_.begin ? "waits for the trainer, or the revision" : "begins a step";
  }

  std::string operator()(const Finish& event) {
    s_.finish = event.done;
    tell_what_is_due();
    return s_.finish ? "waits for the trainer, or the last revision" : "finishes";
  }

  std::string operator()(const StartOver&) {
    if (s_.phase == Phase::Absent) return "there is none";
    if (s_.options.external) {
      emit(Report{peer::TrainerGaveUp{
          Error{ErrorName::TrainerFailed,
                "another trainer of its replica was started again, and this one, which joined by itself, cannot begin the "
                "step anew: join again, or let the agents start all trainers (`local.trainer_command`)"}}});
      return "cannot begin anew";
    }
    kill(Error{ErrorName::Interrupted, "another trainer of its replica was started again: they begin the step together"});
    return "killed, to begin anew";
  }

  std::string operator()(const Save& event) {
    s_.to_save.push_back(event.order);
    save_what_is_due();
    return "is to be saved";
  }

  std::string operator()(const Stop& event) {
    s_.over = true;
    s_.wait.reset();
    s_.progress.reset();
    emit(TellStop{event.cause});
    return "stopped";
  }

  std::string operator()(const AgentEnds&) {
    s_.over = true;
    s_.wait.reset();
    s_.progress.reset();
    return "the agent ends";
  }

  std::string operator()(const Tick&) {
    if (s_.wait && s_.wait->again && now_ >= *s_.wait->again) return try_again();
    if (s_.progress && s_.uncommitted > 0) s_.progress = now_;  // it may wait for what it has contributed before
    if (!s_.progress || now_ - *s_.progress <= s_.options.stall_limit) return {};
    kill(Error{ErrorName::TrainerFailed,
               "it stalled: no sign of life for " + format_duration(s_.options.stall_limit) + " (`local.trainer.stall_limit`)"});
    return "stalled";
  }

 private:
  std::string launch() {
    s_.phase = Phase::Starting;
    s_.progress = now_;
    emit(Launch{s_.fresh});
    return "started";
  }

  /// Nobody's fault, and nothing that a restart would cure: what is missing may be there later, and until then it is said. A wait that is
  /// as long as that of a trainer which says nothing is none any more.
  std::string lacks(const Error& cause, std::variant<Launch, OpenState, FoundState> for_what) {
    if (cause.name != ErrorName::MemoryUnavailable) return refuse(cause);
    s_.progress.reset();
    const bool told = s_.wait && s_.wait->cause == cause;
    if (!s_.wait) s_.wait = Wait{{}, {}, now_, FIRST_PAUSE / 2, {}};
    if (now_ - s_.wait->since > s_.options.stall_limit) {
      auto final_cause = cause;
      final_cause.detail += ", for " + format_duration(s_.options.stall_limit) + " (`local.trainer.stall_limit`)";
      s_.wait.reset();
      if (s_.phase != Phase::Absent) return refuse(final_cause);
      emit(Died{std::move(final_cause), false});
      return "waited in vain";
    }
    s_.wait->for_what = for_what;
    s_.wait->cause = cause;
    s_.wait->pause = std::min(s_.wait->pause * 2, LONGEST_PAUSE);
    s_.wait->again = now_ + s_.wait->pause;
    if (!told) emit(Report{peer::TrainerWaits{cause}});
    return "waits for what this agent has not: " + to_string(cause);
  }

  std::string try_again() {
    s_.wait->again.reset();
    if (std::holds_alternative<Launch>(s_.wait->for_what)) return launch();
    if (std::holds_alternative<OpenState>(s_.wait->for_what)) emit(OpenState{});
    else emit(FoundState{});
    return "tries again";
  }

  /// Its end arrives as an event, and the supervisor decides.
  void kill(Error cause) {
    s_.stop_cause = std::move(cause);
    s_.progress.reset();
    emit(Kill{});
  }

  /// Where it began, as far as the trainer has said: whoever looks for the cause looks there.
  [[nodiscard]] Error diverged(Error cause, OuterStep step) const {
    if (cause.name != ErrorName::NonFiniteValue) return cause;
    cause.detail += " to outer step " + std::to_string(step.value) +
                    (s_.diverged_at > 0 ? "; the loss of inner step " + std::to_string(s_.diverged_at) + " was the first that is not finite"
                                        : "; each inner step's loss was finite, so it happened in the last one");
    return cause;
  }

  /// It is told to end by its own fault, which is what its end is reported with.
  std::string refuse(const Error& cause) {
    s_.stop_cause = cause;
    emit(TellStop{cause});
    return "refused: " + to_string(cause);
  }

  void tell_what_is_due() {
    if (s_.phase != Phase::Ready || !s_.held) return;
    // A trainer that was started again while its peer was late begins with what was committed meanwhile.
    if (s_.begin && s_.begin->base <= *s_.held) {
      s_.base = *s_.held;
      s_.progress = now_;
      const auto begin = *std::exchange(s_.begin, std::nullopt);
      s_.at_work = true;
      emit(TellBegin{begin, s_.base, what_to_resume(begin.step), begin.overlaps && s_.owed > 0});
    }
    if (s_.finish && s_.finish->revision == *s_.held) {
      s_.progress = now_;
      emit(TellFinish{*std::exchange(s_.finish, std::nullopt)});
    }
  }

  /// With the first step of a life, what the last one left.
  std::optional<Record> what_to_resume(OuterStep step) {
    if (std::exchange(s_.resumed, true)) return std::nullopt;
    // All trainers of a replica begin a step anew: what was published of it is void, and what was recorded with that.
    const bool is_void = s_.record && !s_.record->within && s_.record->step >= step;
    if (is_void) {
      s_.record = s_.settled;
      settle();
    }
    auto resume = s_.record;
    // Local parameters are of use only where they came from.
    if (resume && (resume->step != step || resume->base != s_.base)) resume->within = false;
    return resume;
  }

  /// The one before is needed as long as what goes with this one is not committed: what is published may be void, what is saved is of a
  /// state that was committed.
  void replace_record(Record record) {
    if (!std::exchange(s_.unsettled, true)) s_.settled = std::move(s_.record);
    s_.record = std::move(record);
    s_.lacking = 0;
  }

  /// `record` is what the state has.
  void settle() {
    s_.settled.reset();
    s_.unsettled = false;
    s_.lacking = 0;
  }

  void forget_records() {
    s_.record.reset();
    settle();
  }

  void save_what_is_due() {
    if (!s_.held) return;
    for (const auto& order : std::exchange(s_.to_save, {})) {
      if (order.of > *s_.held) s_.to_save.push_back(order);
      else if (order.of < *s_.held) emit(Write{order, false});
      else emit(Write{order, true, s_.unsettled ? s_.settled : s_.record});
    }
  }

  void emit(Effect effect) { effects_.push_back(std::move(effect)); }

  State& s_;
  Instant now_;
  std::vector<Effect>& effects_;
};

}  // namespace

Transition step(State state, const Event& event, Instant now) {
  Transition result{std::move(state), {}, {}};
  result.reason = std::visit(Handler{result.state, now, result.effects}, event);
  return result;
}

}  // namespace prime::trainer_life
