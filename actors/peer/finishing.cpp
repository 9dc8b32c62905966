#include "actors/peer/finishing.hpp"

#include <utility>

namespace prime::peer {
namespace {

constexpr const char* LAST_STEP = "the last outer step is committed";

}  // namespace

std::string Finishing::done(const RunDone& m) {
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

std::string Finishing::save_final() {
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

void Finishing::evaluate() {
  if (s_.report || s_.evaluating) return;
  if (s_.done->evaluate.of == 0 && !s_.done->finalist) {
    report({});
  } else if (s_.trainer_bound) {
    s_.evaluating = true;
    emit(FinishTraining{*s_.done});
  }
}

std::string Finishing::report(FinalReport report) {
  if (s_.report) return "it has reported";
  s_.report = std::move(report);
  tell(*s_.report);
  return "reported";
}

}  // namespace prime::peer
