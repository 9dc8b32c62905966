#include "actors/peer/coordinator_ties.hpp"

#include <algorithm>
#include <utility>

namespace prime::peer {

std::string CoordinatorTies::lost(const std::string& how) {
  if (s_.absence) return "it is looked for already";
  record(events::CoordinatorLost{how, s_.options.coordinator_grace});
  s_.absence = CoordinatorAbsence{how, now_, now_};
  return look();
}

std::string CoordinatorTies::look() {
  auto& absence = *s_.absence;
  if (now_ - absence.since > s_.options.coordinator_grace) return stays_away();
  if (absence.dialing || now_ < absence.redial_at) return {};
  absence.dialing = true;
  emit(Redial{s_.coordinators});
  return "looks for the coordinator";
}

std::string CoordinatorTies::redial_failed(const Error& cause) {
  if (!s_.absence) return "nobody was missed";
  s_.absence->dialing = false;
  s_.absence->redial_at = now_ + s_.absence->pause;
  s_.absence->pause = std::min(2 * s_.absence->pause, REDIAL_AFTER_AT_MOST);
  return "not yet: " + prime::to_string(cause);
}

std::string CoordinatorTies::back() {
  if (!s_.absence) return "nobody was missed";
  record(events::CoordinatorBack{now_ - s_.absence->since});
  emit(Probe::CoordinatorFound);
  s_.absence.reset();
  s_.heard = now_;
  auto hello = s_.options.hello;
  hello.returning = s_.epoch > Epoch{};
  tell(std::move(hello));
  // Before it hears anything else of this peer: its trainer does not wait for the coordinator to ask.
  if (s_.options.streams && s_.restarted) tell(TrainerRestarted{s_.begin->step, s_.begin->attempt});
  if (s_.options.decoupled)
    for (const auto& ready : s_.told) tell(ready);
  // What was decided about these may have been told to the connection that broke.
  for (const auto& operation : s_.operations) tell(InDoubt{operation.reduce.op});
  if (s_.phase == Phase::Leaving) say_goodbye();
  return "the coordinator is back";
}

std::string CoordinatorTies::stays_away() {
  if (s_.said_goodbye) return end(std::nullopt, true, "left without an answer");
  const auto how = s_.absence->how + "; it did not come back within " + format_duration(now_ - s_.absence->since);
  // Who was never welcome has lost nothing: a run that ended just now, or an address at which nobody serves one.
  if (s_.phase == Phase::Greeting) return end(Error{ErrorName::RunUnreachable, "no welcome: " + how}, false, {});
  const Error cause{ErrorName::CoordinatorLost, how};
  return end(cause, true, prime::to_string(cause));
}

std::string CoordinatorTies::leave() {
  if (s_.phase == Phase::Greeting) {
    tell(Deathrattle{true, Error{ErrorName::PeerLost, "left"}});
    return end(std::nullopt, false, {});
  }
  if (s_.absence && s_.phase == Phase::Finishing) return stays_away();
  abort_reduces("this peer leaves");
  s_.phase = Phase::Leaving;
  s_.asked = now_;
  if (!s_.absence) return say_goodbye();
  // Others may wait for it, and who only was not there any more is a loss to them.
  s_.absence->redial_at = now_;
  s_.absence->pause = REDIAL_AFTER;
  return look();
}

void CoordinatorTies::abort_reduces(const std::string& reason) {
  std::erase_if(s_.operations, [&](const InHand& operation) {
    if (!operation.prepared) emit(AbortReduce{operation.reduce.op, reason});
    return !operation.prepared;
  });
}

std::string CoordinatorTies::say_goodbye() {
  s_.said_goodbye = true;
  tell(Deathrattle{true, Error{ErrorName::PeerLost, "left"}});
  return "leaves";
}

std::string CoordinatorTies::give_up(Error cause) {
  tell(Deathrattle{false, cause});
  return end(cause, true, prime::to_string(cause));
}

std::string CoordinatorTies::end(std::optional<Error> cause, bool save, const std::string& why) {
  const bool on_disk = s_.saved && s_.saved->problem.empty();
  // Once all steps are committed, a coordinator that goes is the regular end of the run; whether somebody has saved it is not known then.
  if (s_.phase == Phase::Finishing && cause && cause->name == ErrorName::CoordinatorLost) cause.reset();
  abort_reduces("this peer ends");
  emit(StopWork{cause});
  // Who never trained or fetched holds nothing that is worth keeping; a trainer that is down just now has its state here.
  const bool holds_run = s_.begin || s_.revision > Revision{};
  if (!save || !holds_run || on_disk) return over(std::move(cause), why);
  record(events::StateSaving{s_.revision, why});
  s_.ending = Ending{std::move(cause), why, now_, std::nullopt};
  s_.phase = Phase::Saving;
  if (!std::exchange(s_.saving, true))
    emit(SaveState{why, s_.revision, false, true, is_late(s_)});  // one that is under way is of this state
  return (s_.ending->cause ? prime::to_string(*s_.ending->cause) : why) + "; saves what it holds";
}

std::string CoordinatorTies::saved(const Result<std::string>& path) {
  auto& ending = *s_.ending;
  s_.saving = false;
  if (path) return over(std::move(ending.cause), ending.why);
  // Who joins anew leaves the state with the others, and they have one place less the longer it stays.
  const bool others_hold_it = ending.cause && joins_anew(*ending.cause);
  if (!others_hold_it && now_ - ending.since <= s_.options.save_retry) {
    ending.again_at = now_ + SAVE_AGAIN_AFTER;
    emit(Probe::NotSavedYet);
    return "not saved, tries again: " + prime::to_string(path.error());
  }
  record(events::StateNotSaved{s_.revision, path.error(), now_ - ending.since});
  auto cause = ending.cause ? std::move(ending.cause) : path.error();
  return over(std::move(cause), "not saved: " + prime::to_string(path.error()));
}

std::string CoordinatorTies::save_again() {
  auto& ending = *s_.ending;
  if (!ending.again_at || now_ < *ending.again_at) return {};
  ending.again_at.reset();
  s_.saving = true;
  emit(Probe::SavesAgain);
  emit(SaveState{ending.why, s_.revision, false, true, is_late(s_)});
  return "tries to save again";
}

std::string CoordinatorTies::over(std::optional<Error> cause, const std::string& why) {
  events::PeerEnded note{.revision = s_.revision, .phase = phase_of(s_)};
  if (cause) note.reason = *cause;
  if (!s_.operations.empty()) note.in_doubt = s_.operations.front().reduce.op;  // it has voted on all that are left
  record(std::move(note));
  s_.phase = Phase::Over;
  const std::string reason = cause ? prime::to_string(*cause) : why.empty() ? "ended" : why;
  emit(End{std::move(cause)});
  return reason;
}

}  // namespace prime::peer
