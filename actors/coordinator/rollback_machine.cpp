#include "actors/coordinator/rollback_machine.hpp"

#include "actors/coordinator/departures.hpp"
#include "actors/coordinator/outer_step_machine.hpp"
#include "actors/coordinator/waits.hpp"

namespace prime::coordinator::rollback {

Record rolled_back_record(Epoch epoch, Revision from, const Origin& to) {
  auto record = Record{"rolled_back"}
                    .with("epoch", epoch.value)
                    .with("from", from.value)
                    .with("outer_step", to.revision.value)
                    .with("revision", to.revision.value)
                    .with("digest", to_string(to.state))
                    .with("tokens", to.tokens)
                    .with("next_sample", to.next_sample);
  record.durable = true;
  return record;
}

Error cause(Revision to) {
  return Error{ErrorName::RolledBack, "to outer step " + std::to_string(to.value) + ", since several were lost at once"};
}

void roll_back(State& state, Instant now, Effects& effects) {
  const auto to = *state.checkpoint;
  outer_step::abort(state, "the run is rolled back", now, effects);
  effects.emplace_back(rolled_back_record(state.view.epoch, state.revision, to));
  // A peer that takes part anew is told from one that still works on what is void by its id: nothing of that can reach the new steps.
  std::vector<PeerId> all;
  for (const auto& [id, peer] : state.peers) all.push_back(id);
  Departures departures{state, now, effects};
  for (const auto id : all) departures.dismiss(id, cause(to.revision));
  departures.settle();
  state.revision = to.revision;
  state.digest = to.state;
  state.step = OuterStep{to.revision.value + 1};
  state.cursor = to.next_sample;
  state.tokens = to.tokens;
  state.step_span = 0;
  state.losses = {};
  state.deserted.reset();
  state.restoring = now;
  set_phase(state, Phase::Waiting, now);
}

}  // namespace prime::coordinator::rollback
