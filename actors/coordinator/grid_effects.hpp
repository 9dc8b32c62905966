// Owns the way down: what the run decides about replicas, as each of their peers is told, and as the journal has it.
#pragma once

#include "actors/coordinator/grid_machine.hpp"

namespace prime::coordinator {

/// Lasts for one event.
class Unfolding {
 public:
  Unfolding(Grid& grid, Instant now, std::vector<Effect>& effects) : grid_(grid), now_(now), effects_(effects) {}

  /// Before what it decided is told: of which digests of the shards that of its state is made.
  void note_state();
  /// One effect of the run's machine.
  void carry(const Effect& effect);
  /// To a peer that is back before the others of its replica: of each fragment the last commit, since it hears of the next ones.
  void catch_up(const Replica& replica, std::uint32_t shard);
  /// Sends one peer away, unless it was told so by now.
  void send_away(const Hello& peer, const Error& cause);
  /// Who says goodbye hears the answer; the others of its replica, if that goes with it, hear this.
  void speak_of(PeerId speaker, const Error& to_others);
  /// What the run has decided, with the peers of each replica.
  [[nodiscard]] Snapshot of_peers(Snapshot decision);

 private:
  [[nodiscard]] Replica* whole(PeerId lead) const;
  void tell(PeerId lead, const ToPeer& message);
  void dismiss(const ShardPeer& peer, const Error& cause);
  void record(const JournalEvent& event);
  /// Of what an event tells of a replica, what differs for one of its peers.
  template <class Event>
  void make_own(Event& event, const Replica& replica, std::uint32_t shard) const;
  [[nodiscard]] std::string with_whom(const Replica& replica, std::uint32_t shard) const;
  [[nodiscard]] ToPeer unfolded(const ToPeer& message, const Replica& replica, std::uint32_t shard);
  [[nodiscard]] const Digest& part(const Digest& whole, std::uint32_t shard) const;
  [[nodiscard]] const ShardPeer& peer_of(PeerId lead, std::uint32_t shard) const;
  [[nodiscard]] View column(const View& view, std::uint32_t shard);
  [[nodiscard]] std::vector<Member> column(const std::vector<Member>& leads, std::uint32_t shard) const;
  [[nodiscard]] SharedList<Contribution> column(const StartReduce& reduce, std::uint32_t shard);

  Grid& grid_;
  Instant now_;
  std::vector<Effect>& effects_;
  std::set<PeerId> dismissed_;
  std::optional<std::pair<PeerId, Error>> speaker_;
};

}  // namespace prime::coordinator
