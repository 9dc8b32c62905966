// Owns the way down: what the run decides about replicas, as each of their peers is told, and as the journal has it.
#pragma once

#include "actors/coordinator/grid_machine.hpp"

namespace prime::coordinator {

/// A line of the journal about one peer of a replica.
[[nodiscard]] Record shard_record(const char* event, const Replica& replica, const Hello& hello);

/// Lasts for one event.
class Unfolding {
 public:
  Unfolding(Grid& grid, Instant now, std::vector<Effect>& effects) : grid_(grid), now_(now), effects_(effects) {}

  /// One effect of the run's machine; a Keep waits for `keep`.
  void carry(const Effect& effect);
  /// Sends one peer away, unless it was told so by now.
  void send_away(const Hello& peer, const Error& cause);
  /// Who says goodbye hears the answer; the others of its replica, if that goes with it, hear this.
  void speak_of(PeerId speaker, const Error& to_others);
  /// What was decided goes before all else, in one piece.
  void keep();

 private:
  [[nodiscard]] Replica* whole(PeerId lead) const;
  void tell(PeerId lead, const ToPeer& message);
  void dismiss(const ShardPeer& peer, const Error& cause);
  void record(const Record& record);
  [[nodiscard]] Record own_record(const Record& of_replica, const Replica& replica, std::uint32_t shard) const;
  [[nodiscard]] std::string reason_for(const Replica& replica, std::uint32_t shard, const std::string& reason) const;
  [[nodiscard]] ToPeer unfolded(const ToPeer& message, const Replica& replica, std::uint32_t shard);
  [[nodiscard]] const Digest& part(const Digest& whole, std::uint32_t shard) const;
  [[nodiscard]] const ShardPeer& peer_of(PeerId lead, std::uint32_t shard) const;
  [[nodiscard]] View column(const View& view, std::uint32_t shard);
  [[nodiscard]] SharedList<Contribution> column(const StartReduce& reduce, std::uint32_t shard);

  Grid& grid_;
  Instant now_;
  std::vector<Effect>& effects_;
  std::optional<Snapshot> decided_;
  std::set<PeerId> dismissed_;
  std::optional<std::pair<PeerId, Error>> speaker_;
};

}  // namespace prime::coordinator
