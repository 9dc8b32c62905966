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
  Handler(State& state, Instant now, std::vector<Effect>& effects)
      : s_(state), now_(now), effects_(effects), publications_(state.options.fragments, state.options.decoupled, state.published) {}

  std::string operator()(const Start&) {
    if (s_.over) return "its end is near: no trainer is started";
    s_.phase = Phase::Starting;
    s_.stop_cause.reset();
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
    if (event.held && event.held->record) s_.records.restore(*event.held->record);
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
    auto record = event.record;
    record.base = s_.base;
    s_.records.replace(std::move(record));
    return "recorded";
  }

  std::string operator()(const Contributed& event) {
    if (s_.phase != Phase::Ready) return "of a trainer that is gone";
    if (!s_.options.decoupled && event.work.step != std::get<OuterStep>(s_.step)) return "contributes to a step that is over";
    auto publication = event;
    publication.work.base = s_.base;
    if (auto why = publications_.add(std::move(publication))) return *std::move(why);
    if (!s_.options.decoupled && publications_.has_all()) s_.progress.reset();
    return take_next() ? "contributes" : "contributes, once what was contributed before it is committed";
  }

  /// What a diverged trainer made is not sent: it is started again from the outer state, and the supervisor bounds how often. From a record
  /// it would go the same way again.
  std::string operator()(const ContributionTaken& event) {
    auto taken = publications_.taken();
    if (taken.fate == Publications::Taken::Fate::Gone) return "of a trainer that is gone";
    if (taken.fate == Publications::Taken::Fate::InVain) {
      go_on();
      return "its version is committed without it";
    }
    auto& [work, diverged_at, record] = taken.publication;
    if (!s_.options.decoupled && work.step != std::get<OuterStep>(s_.step)) {
      go_on();
      return "contributed to a step that is over";
    }
    if (!event.taken) {
      s_.records.forget();
      return refuse(diverged(event.taken.error(), work.step, diverged_at));
    }
    if (work.weight == 0) {
      emit(Report{peer::TrainerGaveUp{Error{ErrorName::TrainerProtocol, "the trainer contributed without having trained on a token"}}});
      return "contributed without having trained";
    }
    if (s_.options.decoupled) work.base = *s_.held;
    publications_.contributed(work.fragments);
    if (record) s_.records.replace(*std::move(record), static_cast<std::uint32_t>(s_.published.uncommitted.size()));
    if (publications_.has_taken_all()) s_.at_work = false;
    work.lengths = *event.taken;
    emit(Report{work});
    go_on();
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
    end_life();
    return lacks(event.cause, Launch{s_.fresh});
  }

  /// A program that had joined by itself takes its peer with it.
  std::string operator()(const Lost& event) { return (*this)(s_.options.external ? Gone{} : Gone{event.cause}); }

  std::string operator()(const Gone& event) {
    const bool began = s_.phase == Phase::Ready;
    end_life();
    s_.wait.reset();
    if (s_.over) return "has ended";
    const auto& cause = s_.stop_cause ? s_.stop_cause : event.cause;
    // Nobody but itself could start again what has started this agent.
    if (!cause) emit(Report{peer::TrainerLeft{}});
    else if (s_.options.external) emit(Report{peer::TrainerGaveUp{*cause}});
    else emit(Died{*cause, began});
    return cause ? "died" : "left";
  }

  std::string operator()(const Applied& event) {
    s_.held = event.commit.revision;
    if (event.own_work) s_.records.note_committed();
    save_what_is_due();
    if (s_.options.decoupled) is_committed(event);
    else if (event.own_work) work_is_in(event);
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
    tell_what_is_due();
    return s_.begin ? "waits for the trainer, or the revision" : "begins a step";
  }

  std::string operator()(const UsedLease&) {
    if (!s_.options.decoupled || s_.phase != Phase::Ready || !s_.at_work) return "a lease that it has not";
    publications_.use_lease();
    s_.at_work = false;
    s_.progress.reset();
    go_on();
    return "has used its samples up";
  }

  std::string operator()(const Ask& event) {
    if (s_.phase != Phase::Ready) return "there is no trainer to ask";
    emit(TellAsked{event.asked});
    return "is asked for a fragment";
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
    if (s_.progress && !s_.published.uncommitted.empty() && !s_.options.decoupled)
      s_.progress = now_;  // it may wait for what it has contributed before
    if (!s_.progress || now_ - *s_.progress <= s_.options.stall_limit) return {};
    kill(Error{ErrorName::TrainerFailed,
               "it stalled: no sign of life for " + format_duration(s_.options.stall_limit) + " (`local.trainer.stall_limit`)"});
    return "stalled";
  }

 private:
  static Place place_of(const BeginStep& begin) { return {begin.step, begin.first_sample, begin.attempt}; }

  void go_on() {
    take_next();
    if (publications_.take_lease_used()) emit(Report{peer::TrainerUsedLease{}});
  }

  void is_committed(const Applied& event) {
    publications_.version_committed(event.commit.fragment, event.commit.step);
    go_on();
    if (s_.phase == Phase::Ready && s_.resumed) emit(TellCommitted{event.commit, event.contributors, TellCommitted::Rebase::Fragment});
  }

  bool take_next() {
    const auto fragments = publications_.take_next();
    if (fragments) emit(TakeContribution{*fragments});
    return fragments.has_value();
  }

  /// A late trainer hears nothing of what is committed without its work.
  void work_is_in(const Applied& event) {
    const bool own = publications_.own_work_committed(event.commit.fragment);
    take_next();
    if (!own || s_.phase != Phase::Ready || !(s_.options.streams || s_.published.owed.empty())) return;
    using Rebase = TellCommitted::Rebase;
    const auto at_work = s_.options.streams ? Rebase::Fragment : Rebase::None;
    emit(TellCommitted{event.commit, event.contributors, s_.at_work || s_.options.streams ? at_work : Rebase::All});
  }

  /// The next one knows nothing of what this one was told.
  void end_life() {
    s_.phase = Phase::Absent;
    s_.progress.reset();
    s_.data = {};
    s_.device.clear();
    s_.waits_for.clear();
    s_.at_work = false;
    s_.resumed = false;
    publications_.end_life();
  }

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
  [[nodiscard]] static Error diverged(Error cause, OuterStep step, std::uint32_t diverged_at) {
    if (cause.name != ErrorName::NonFiniteValue) return cause;
    cause.detail += " to outer step " + std::to_string(step.value) +
                    (diverged_at > 0 ? "; the loss of inner step " + std::to_string(diverged_at) + " was the first that is not finite"
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
      const auto before = s_.step;
      if (before != place_of(begin)) {
        publications_.begin_step(begin, std::tie(std::get<0>(before), std::get<1>(before)) == std::tie(begin.step, begin.first_sample));
        s_.step = place_of(begin);
      }
      s_.at_work = true;
      TellBegin told{begin, s_.base, what_to_resume(begin.step)};
      told.is_void = begin.attempt > 0 || begin.step < std::get<OuterStep>(before);
      const auto& published = s_.published;
      if (begin.overlaps) told.in_flight = {published.owed.begin(), published.owed.end()};
      told.published = {published.of_step.begin(), published.of_step.end()};
      emit(std::move(told));
    }
    if (s_.finish && s_.finish->revision == *s_.held) {
      s_.progress = now_;
      emit(TellFinish{*std::exchange(s_.finish, std::nullopt)});
    }
  }

  /// With the first step of a life, what the last one left. Of fragments that each have a step and a time of their own no record tells all.
  std::optional<Record> what_to_resume(OuterStep step) {
    if (std::exchange(s_.resumed, true)) return std::nullopt;
    auto resume = s_.records.resume(step, s_.base);
    if (resume && s_.options.decoupled) resume->within = false;
    return resume;
  }

  void save_what_is_due() {
    if (!s_.held) return;
    for (const auto& order : std::exchange(s_.to_save, {})) {
      if (order.of > *s_.held) s_.to_save.push_back(order);
      else if (order.of < *s_.held) emit(Write{order, false});
      else emit(Write{order, true, s_.records.committed()});
    }
  }

  void emit(Effect effect) { effects_.push_back(std::move(effect)); }

  State& s_;
  Instant now_;
  std::vector<Effect>& effects_;
  Publications publications_;
};

}  // namespace

Transition step(State state, const Event& event, Instant now) {
  Transition result{std::move(state), {}, {}};
  result.reason = std::visit(Handler{result.state, now, result.effects}, event);
  return result;
}

}  // namespace prime::trainer_life
