#include "actors/coordinator/rollback_machine.hpp"

#include "actors/coordinator/departures.hpp"
#include "actors/coordinator/operations.hpp"
#include "actors/coordinator/waits.hpp"
#include "actors/membership/replicas.hpp"

namespace prime::coordinator::rollback {

events::RolledBack rolled_back(Epoch epoch, Revision from, const Origin& to) {
  return {epoch, from, to.step, to.revision, to.state, to.tokens, to.next_sample};
}

Error cause(OuterStep to) {
  return Error{ErrorName::RolledBack, "to outer step " + std::to_string(to.value) + ", since several were lost at once"};
}

void await_checkpoint(State& state, Instant now) {
  state.restoring = now;
  state.to_who_left = cause(state.checkpoint->step);
}

void roll_back(State& state, Instant now, Effects& effects) {
  const auto to = *state.checkpoint;
  operations::abort(state, AbortCause::RolledBack, {}, now, effects);
  effects.emplace_back(rolled_back(state.view.epoch, state.revision, to));
  // A peer that takes part anew is told from one that still works on what is void by its id: nothing of that can reach the new steps.
  std::vector<PeerId> all;
  for (const auto& [id, peer] : state.peers) all.push_back(id);
  Departures departures{state, now, effects};
  for (const auto id : all) departures.dismiss(id, cause(to.step));
  departures.settle();
  state.revision = to.revision;
  membership::note_saved_state(state, to.state, to.shards);
  for (auto& round : state.rounds) {
    round.step = to.step.next();
    if (round.last) round.last->lines.clear();  // of a revision that is void now
  }
  state.made = to.step;
  state.cursor = to.next_sample;
  state.given_back = to.given_back;
  state.unused.assign(to.given_back.begin(), to.given_back.end());
  state.tokens = to.tokens;
  state.collection = {};
  state.cost = {};
  state.closed_span = 0;
  state.losses = {};
  state.deserted.reset();
  await_checkpoint(state, now);
  set_phase(state, Phase::Waiting, now);
}

}  // namespace prime::coordinator::rollback
