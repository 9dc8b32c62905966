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
    s_.publications.clear();
    s_.taking = false;
    s_.taken_in_vain = false;
    s_.at_work = false;
    s_.resumed = false;
    s_.used_lease = false;
    s_.owed.clear();
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
    if (s_.options.decoupled) return published(event);
    if (s_.phase != Phase::Ready || event.work.step != std::get<OuterStep>(s_.step)) return "contributes to a step that is over";
    bool again = false;
    for_each(event.work.fragments, [&](std::uint32_t fragment) { again = again || s_.published.contains(fragment); });
    if (again) return "contributes again";
    s_.publications.push_back(event);
    s_.publications.back().work.base = s_.base;
    if (has_brought_all()) s_.progress.reset();
    return take_next() ? "contributes" : "contributes, once what was contributed before it is committed";
  }

  /// What a diverged trainer made is not sent: it is started again from the outer state, and the supervisor bounds how often. From a record
  /// it would go the same way again.
  std::string operator()(const ContributionTaken& event) {
    if (!std::exchange(s_.taking, false) || s_.phase != Phase::Ready) return "of a trainer that is gone";
    if (std::exchange(s_.taken_in_vain, false)) {
      s_.publications.pop_front();
      go_on();
      return "its version is committed without it";
    }
    auto [work, diverged_at, record] = std::move(s_.publications.front());
    s_.publications.pop_front();
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
    for_each(work.fragments, [&](std::uint32_t fragment) {
      if (!s_.options.decoupled) s_.published.insert(fragment);
      s_.owed.insert(fragment);
      s_.uncommitted.insert(fragment);
    });
    if (record) s_.records.replace(*std::move(record), static_cast<std::uint32_t>(s_.uncommitted.size()));
    if (s_.published.size() == s_.options.fragments) s_.at_work = false;
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
    s_.phase = Phase::Absent;
    s_.owed.clear();
    return lacks(event.cause, Launch{s_.fresh});
  }

  /// A program that had joined by itself takes its peer with it.
  std::string operator()(const Lost& event) { return (*this)(s_.options.external ? Gone{} : Gone{event.cause}); }

  std::string operator()(const Gone& event) {
    const bool began = std::exchange(s_.phase, Phase::Absent) == Phase::Ready;
    s_.wait.reset();
    s_.owed.clear();
    s_.progress.reset();
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
    s_.used_lease = true;
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
    if (s_.progress && !s_.uncommitted.empty() && !s_.options.decoupled)
      s_.progress = now_;  // it may wait for what it has contributed before
    if (!s_.progress || now_ - *s_.progress <= s_.options.stall_limit) return {};
    kill(Error{ErrorName::TrainerFailed,
               "it stalled: no sign of life for " + format_duration(s_.options.stall_limit) + " (`local.trainer.stall_limit`)"});
    return "stalled";
  }

 private:
  static Place place_of(const BeginStep& begin) { return {begin.step, begin.first_sample, begin.attempt}; }

  /// Is committed, or void: but for a step that is reduced beside this one, and for what the replica does not make anew.
  void forget_uncommitted(const BeginStep& begin) {
    const bool anew = std::tie(std::get<0>(s_.step), std::get<1>(s_.step)) == std::tie(begin.step, begin.first_sample);
    if (anew)
      for_each(begin.fragments, [&](std::uint32_t fragment) {
        if (s_.published.contains(fragment)) s_.uncommitted.erase(fragment);
      });
    else if (!begin.overlaps) s_.uncommitted.clear();
  }

  /// Fragments that have made the step.
  [[nodiscard]] std::set<std::uint32_t> unwanted(const BeginStep& begin) const {
    std::set<std::uint32_t> fragments;
    for (std::uint32_t fragment = 0; fragment < s_.options.fragments; ++fragment)
      if (!covers(begin.fragments, fragment)) fragments.insert(fragment);
    return fragments;
  }

  template <class Action>
  void for_each(const Fragments& fragments, Action action) const {
    for (std::uint32_t fragment = 0; fragment < s_.options.fragments; ++fragment)
      if (covers(fragments, fragment)) action(fragment);
  }

  /// Whether nothing of the step is left to be published.
  [[nodiscard]] bool has_brought_all() const {
    std::size_t left = s_.options.fragments - s_.published.size();
    for (const auto& each : s_.publications) for_each(each.work.fragments, [&](std::uint32_t) { --left; });
    return left == 0;
  }

  /// With what was published before it is reported that the samples are used up, and not sooner: that work is on them.
  void go_on() {
    take_next();
    if (s_.used_lease && s_.publications.empty()) {
      s_.used_lease = false;
      emit(Report{peer::TrainerUsedLease{}});
    }
  }

  /// Of one fragment, towards a version.
  std::string published(const Contributed& event) {
    if (s_.phase != Phase::Ready) return "of a trainer that is gone";
    const auto fragment = event.work.fragments.empty() ? 0 : event.work.fragments.front();
    if (const auto version = s_.versions.find(fragment); version != s_.versions.end() && event.work.step <= version->second)
      return "publishes for a version that is committed";
    if (s_.uncommitted.contains(fragment)) return "publishes what an earlier life has published";
    s_.publications.push_back(event);
    take_next();
    return "publishes";
  }

  /// Whoever contributed: its trainer takes the fragment over, and what it may have made for that version is void.
  void is_committed(const Applied& event) {
    const auto fragment = event.commit.fragment;
    s_.versions[fragment] = event.commit.step;
    s_.owed.erase(fragment);
    s_.uncommitted.erase(fragment);
    const auto is_void = [&](const Publication& each) { return covers(each.work.fragments, fragment); };
    if (s_.taking && is_void(s_.publications.front())) s_.taken_in_vain = true;
    const auto untaken = s_.publications.begin() + (s_.taking ? 1 : 0);
    s_.publications.erase(std::remove_if(untaken, s_.publications.end(), is_void), s_.publications.end());
    go_on();
    if (s_.phase == Phase::Ready && s_.resumed) emit(TellCommitted{event.commit, event.contributors, TellCommitted::Rebase::Fragment});
  }

  /// The first of what waits, unless it would take the place of something that is not committed.
  bool take_next() {
    if (s_.taking || s_.publications.empty()) return false;
    const auto& fragments = s_.publications.front().work.fragments;
    bool free = true;
    for_each(fragments, [&](std::uint32_t fragment) { free = free && !s_.uncommitted.contains(fragment); });
    if (!free) return false;
    s_.taking = true;
    emit(TakeContribution{fragments});
    return true;
  }

  /// A late trainer hears nothing of what is committed without its work.
  void work_is_in(const Applied& event) {
    const auto fragment = event.commit.fragment;
    const bool own = s_.owed.erase(fragment) > 0;
    s_.uncommitted.erase(fragment);
    take_next();
    if (!own || s_.phase != Phase::Ready || !(s_.options.streams || s_.owed.empty())) return;
    using Rebase = TellCommitted::Rebase;
    const auto at_work = s_.options.streams ? Rebase::Fragment : Rebase::None;
    emit(TellCommitted{event.commit, event.contributors, s_.at_work || s_.options.streams ? at_work : Rebase::All});
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
      if (before != place_of(begin)) leave_step(begin);
      s_.at_work = true;
      TellBegin told{begin, s_.base, what_to_resume(begin.step)};
      told.is_void = begin.attempt > 0 || begin.step < std::get<OuterStep>(before);
      if (begin.overlaps) told.in_flight = {s_.owed.begin(), s_.owed.end()};
      told.published = {s_.published.begin(), s_.published.end()};
      emit(std::move(told));
    }
    if (s_.finish && s_.finish->revision == *s_.held) {
      s_.progress = now_;
      emit(TellFinish{*std::exchange(s_.finish, std::nullopt)});
    }
  }

  /// What was published of the one before, and waits to be taken, is of no step any more.
  void leave_step(const BeginStep& begin) {
    if (!s_.options.decoupled) {
      forget_uncommitted(begin);
      s_.publications.resize(s_.taking ? 1 : 0);
    }
    s_.published = unwanted(begin);
    s_.step = place_of(begin);
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
};

}  // namespace

Transition step(State state, const Event& event, Instant now) {
  Transition result{std::move(state), {}, {}};
  result.reason = std::visit(Handler{result.state, now, result.effects}, event);
  return result;
}

}  // namespace prime::trainer_life
