// Owns who of which replica comes and goes: replicas that form, wait, lose a peer, come back and leave, and what the run hears of it.
#pragma once

#include "actors/coordinator/grid_effects.hpp"
#include "actors/coordinator/grid_machine.hpp"

namespace prime::coordinator {

/// Lasts for one event.
class Rows {
 public:
  Rows(Grid& grid, Instant now, std::vector<Effect>& effects) : g_(grid), now_(now), effects_(effects), down_(grid, now, effects) {}

  /// To the run's machine; what that decides reaches the peers, and the replicas that it has lost are gone.
  std::string forward(const Event& event);
  /// What the run has decided in this event, if anything.
  [[nodiscard]] std::optional<Snapshot> decided();
  /// What was not decided by the run, told to a replica.
  void carry(const Effect& effect) { down_.carry(effect); }

  std::string greeted(PeerId from, const Hello& hello);
  std::string lost(const ConnectionLost& event);
  std::string vanished(const ProcessGone& event);
  std::string said_goodbye(Replica& replica, std::uint32_t shard, const Deathrattle& message);
  /// Who waits for the others of its replica, and was silent or has waited for too long.
  void send_away_overdue();
  /// The others are told by the run.
  void tell_unformed(const Coordinators& coordinators);
  /// A replica is as silent as the most silent of its peers.
  void note_silence(const Replica& replica);

 private:
  void settle(bool was_restoring);
  /// A seat that is kept is the replica's: the others come back, too, so that all hear what became of what was under way.
  bool is_mended(std::uint64_t key);
  /// The run has sent it away, or lost it; who is still here takes part anew, and waits for who is not.
  void dissolve(std::uint64_t key);
  void welcome(PeerId peer);
  [[nodiscard]] std::optional<std::uint64_t> unformed(const std::string& name) const;
  /// Who takes the place of a peer that was lost may be quicker than the news of that: it waits. A place whose peer was heard just now
  /// is taken.
  [[nodiscard]] std::optional<Error> misplaced(const Hello& hello) const;
  /// From here on the run knows it.
  std::string form(std::uint64_t key);
  std::string returned(const Grid::Place& at, const Hello& hello);
  /// Its replica did not keep its seat.
  std::string greet_anew(const Hello& hello);
  /// One of its connections is gone.
  std::string tear(std::uint64_t key, std::uint32_t shard, const std::string& reason);
  std::string leave_unformed(std::uint64_t key, std::uint32_t shard, const Error& cause, bool left);
  void dismiss_unformed(const Error& cause);
  void record_wait(const Replica& replica, const Hello& hello);
  /// To each peer that waits for the others of its replica, before it takes part or when all of them come back.
  void tell_missing(const Replica& replica);
  void tell_whole(const Replica& replica);
  /// A peer has gone before its replica was whole: the others wait for one more, if any are left.
  void tell_who_stays(std::uint64_t key);
  void name_unformed();
  /// Of the step that the run was rolled back to, what none of those who have come with their checkpoints holds.
  [[nodiscard]] std::string not_brought_back() const;

  Grid& g_;
  Instant now_;
  std::vector<Effect>& effects_;
  Unfolding down_;
  std::optional<Snapshot> decided_;
};

}  // namespace prime::coordinator
