#include "actors/peer/work.hpp"

#include <algorithm>
#include <utility>

#include "actors/peer/coordinator_ties.hpp"

namespace prime::peer {

std::string Work::contributed(const TrainerContributed& event) {
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

std::string Work::used_lease() {
  if (!s_.options.decoupled || !trains()) return "a lease that nobody waits for";
  s_.phase = Phase::Ready;
  tell(LeaseUsed{s_.begin->step});
  return "has used its samples up";
}

std::string Work::trainer_restarting(const TrainerRestarting& event) {
  s_.trainer_bound = false;
  s_.evaluating = false;
  record(events::TrainerRestarting{event.cause});
  const bool by_itself = !std::exchange(s_.starts_over, false);
  if (!by_itself || !s_.begin || s_.options.hello.replica.empty()) return "the trainer is started again";
  if (trains()) note_restarted();
  else s_.renewed = true;
  return "the trainer is started again";
}

std::string Work::begin(const BeginStep& m) {
  if (m.view.epoch < s_.epoch) return "a step of an older epoch";
  if (s_.phase == Phase::Finishing) return "the run is done";
  if (m.base != s_.revision)
    return CoordinatorTies{s_, now_, effects_}.give_up(
        Error{ErrorName::ParityBroken,
              "told to train from revision " + std::to_string(m.base.value) + ", holds " + std::to_string(s_.revision.value)});
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
    if (s_.restarted) tell_restarted();  // a coordinator that was away may have missed it
    emit(Probe::AtThatStep);
    return "it is at that step";
  }
  s_.inner_steps = 0;
  s_.renewed = s_.renewed || s_.restarted;  // the others have not begun anew with it
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
  const bool renewed = std::exchange(s_.renewed, false);
  if (s_.options.streams && attempt > 0) return start_over();  // the others of its replica have begun with what all share
  if (s_.trainer_bound) emit(BeginTraining{m});
  if (s_.options.streams && renewed) note_restarted();
  return "trains";
}

std::string Work::asked(const PublishNow& m) {
  if (!s_.options.decoupled || !s_.trainer_bound || (s_.phase != Phase::Training && s_.phase != Phase::Ready))
    return "asked for what there is not";
  emit(AskPublication{m});
  return "asks its trainer for fragment " + std::to_string(m.fragment);
}

std::string Work::begin_anew() {
  s_.phase = Phase::Training;
  s_.inner_steps = 0;
  forget_told(s_.begin->fragments);
  s_.restarted = false;
  s_.renewed = false;
  record(events::StepBegunAnew{s_.begin->step, s_.begin->attempt});
  for (const auto& ready : s_.told) tell(ready);  // what it told before may be lost with a connection
  return start_over();
}

std::string Work::start_over() {
  if (std::exchange(s_.starts_over, s_.trainer_bound)) return "begins anew once more";
  if (s_.trainer_bound) emit(StartTrainerOver{});
  return "begins the step anew";
}

std::string Work::published(const TrainerContributed& event) {
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

void Work::forget_told(const Fragments& fragments) {
  for (auto& ready : s_.told) {
    Fragments others;
    for (std::uint32_t fragment = 0; fragment < s_.options.fragments; ++fragment)
      if (ready.covers(fragment) && !covers(fragments, fragment)) others.push_back(fragment);
    ready.fragments = std::move(others);
    ready.attempt = s_.begin->attempt;
  }
  std::erase_if(s_.told, [](const prime::Ready& ready) { return ready.fragments.empty(); });
}

void Work::note_restarted() {
  s_.restarted = true;
  tell_restarted();
}

void Work::tell_restarted() { tell(TrainerRestarted{s_.begin->step, s_.begin->attempt}); }

void Work::tell_ready(prime::Ready ready) {
  ready.attempt = s_.begin->attempt;
  s_.told.push_back(ready);
  tell(std::move(ready));
}

bool Work::has_told_all() const {
  for (std::uint32_t fragment = 0; fragment < s_.options.fragments; ++fragment) {
    const auto of_it = [&](const prime::Ready& ready) { return ready.covers(fragment); };
    if (covers(s_.begin->fragments, fragment) && std::ranges::none_of(s_.told, of_it)) return false;
  }
  return true;
}

bool Work::trains() const { return s_.phase == Phase::Training && s_.begin->contribute; }

}  // namespace prime::peer
