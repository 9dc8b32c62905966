// Owns how peers go: lost, sent away, or by their own will.
#pragma once

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator {

/// Those who go in one event: each out of its seat at once, all together out of the view. A view is copied when it changes, and each
/// epoch is kept: one by one, a hundred of ten thousand would cost a million members.
class Departures {
 public:
  Departures(State& state, Instant now, std::vector<Effect>& effects) : state_(state), now_(now), effects_(effects) {}
  ~Departures() { settle(); }
  Departures(const Departures&) = delete;
  Departures& operator=(const Departures&) = delete;

  /// Takes a peer out of its seat. `left` tells a farewell from a loss.
  void remove(PeerId peer, const Error& cause, bool left);
  /// The same for a peer that is still connected: it is told why and fenced.
  void dismiss(PeerId peer, const Error& cause);
  /// Takes them out of the view, in a new epoch if one of them was a member; whether one was. Before it the view names who has no seat.
  bool settle();

 private:
  void note_loss(Instant heard);
  void leave_view();

  State& state_;
  Instant now_;
  std::vector<Effect>& effects_;
  std::set<PeerId> members_;
  bool anybody_ = false;
};

/// How the journal has it.
[[nodiscard]] JournalEvent gone(Who who, const Error& cause, bool left);
/// Its id never comes back.
void note_gone(State& state, PeerId peer, const Error& cause);
/// What a peer that goes for this cause is told. Who takes part anew while the run waits for its checkpoint is to bring that along,
/// whatever became of its seat.
Error told(const State& state, const Error& cause);

}  // namespace prime::coordinator
