// Owns what follows when peers of a run go: the losses that are counted, the pause, the links, and their part in the round.
#pragma once

#include "actors/coordinator/coordinator_state.hpp"
#include "actors/membership/departures.hpp"

namespace prime::coordinator {

/// Those who go in one event, as membership::Departures has them.
class Departures {
 public:
  Departures(State& state, Instant now, Effects& effects) : state_(state), now_(now), effects_(effects), seats_(state, now, effects) {}
  ~Departures() { settle(); }
  Departures(const Departures&) = delete;
  Departures& operator=(const Departures&) = delete;

  void remove(PeerId peer, const Error& cause, bool left);
  void dismiss(PeerId peer, const Error& cause);
  /// Whether a member was among them.
  bool settle();

 private:
  void note(PeerId peer, bool left);
  void note_loss(Instant heard);

  State& state_;
  Instant now_;
  Effects& effects_;
  membership::Departures seats_;
};

/// What they take part in is void.
void dismiss(State& state, const std::vector<PeerId>& peers, const Error& cause, Instant now, Effects& effects);
void dismiss(State& state, PeerId peer, const Error& cause, Instant now, Effects& effects);

}  // namespace prime::coordinator
