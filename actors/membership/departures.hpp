// Owns how peers go: lost, sent away, or by their own will.
#pragma once

#include <set>

#include "actors/membership/effects.hpp"
#include "actors/membership/roster.hpp"

namespace prime::membership {

/// Those who go in one event: each out of its seat at once, all together out of the view. A view is copied when it changes, and each
/// epoch is kept: one by one, a hundred of ten thousand would cost a million members.
class Departures {
 public:
  Departures(Roster& roster, Instant now, Effects& effects) : roster_(roster), now_(now), effects_(effects) {}
  ~Departures() { settle(); }
  Departures(const Departures&) = delete;
  Departures& operator=(const Departures&) = delete;

  /// Takes a peer out of its seat; whether it had one. `left` tells a farewell from a loss. The others of its replica go with it: they are
  /// told why, and take part anew, unless it left.
  bool remove(PeerId peer, const Error& cause, bool left);
  /// The same for a peer that is still connected: it is told why and fenced, as are the others of its replica.
  bool dismiss(PeerId peer, const Error& cause);
  /// Takes them out of the view, in a new epoch if one of them was a member; which were. Before it the view names who has no seat.
  std::set<PeerId> settle();
  /// Members among those who have gone since the last `settle`.
  [[nodiscard]] const std::set<PeerId>& members() const { return members_; }

 private:
  bool take_out(PeerId peer, const Error& cause, bool left, const Error& to_others);
  void note_gone(const Peer& peer, const Error& cause);
  [[nodiscard]] bool is_state_lost() const;
  void forget_state();

  Roster& roster_;
  Instant now_;
  Effects& effects_;
  std::set<PeerId> members_;
  bool anybody_ = false;
};

/// Whether a departure for this cause is no loss: its turn never came, or it comes back with the checkpoint.
[[nodiscard]] bool is_farewell(const Error& cause);
/// How the journal has it.
[[nodiscard]] JournalEvent gone(Who who, const Error& cause, bool left);
/// What a peer that goes for this cause is told. Who takes part anew while the run waits for its checkpoint is to bring that along,
/// whatever became of its seat.
[[nodiscard]] Error told(const Roster& roster, const Error& cause);

}  // namespace prime::membership
