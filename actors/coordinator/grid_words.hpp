// Owns what the peers of a replica say: it waits until all of them have said the same, and is one word of their replica then.
#pragma once

#include "actors/coordinator/grid_rows.hpp"

namespace prime::coordinator {

/// Lasts for one event.
class Words {
 public:
  Words(Grid& grid, Rows& rows, Instant now, std::vector<Effect>& effects) : g_(grid), rows_(rows), now_(now), effects_(effects) {}

  /// From one whose connection stands.
  std::string heard(std::uint64_t key, std::uint32_t shard, const FromPeer& message);
  std::string beat(Replica& replica, PeerId from, const Heartbeat& beat);
  /// What its peers had said of their seats before it was whole.
  void once_whole(std::uint64_t key);

 private:
  std::string hear(std::uint64_t key, std::uint32_t shard, const Seated& m);
  std::string hear(std::uint64_t key, std::uint32_t shard, const Fetched& m);
  std::string hear(std::uint64_t key, std::uint32_t shard, const Ready& m);
  std::string hear(std::uint64_t key, std::uint32_t shard, const Vote& m);
  std::string hear(std::uint64_t key, std::uint32_t shard, const StateSaved& m);
  std::string hear(std::uint64_t key, std::uint32_t shard, const FinalReport& m);
  std::string hear(std::uint64_t key, std::uint32_t shard, const FetchFailed& m);
  std::string hear(std::uint64_t key, std::uint32_t, ReduceFailed m);
  std::string hear(std::uint64_t key, std::uint32_t, const InDoubt& m);
  std::string hear(std::uint64_t key, std::uint32_t shard, const LinkMeasured& m);
  /// Each shard has lanes of its own; the topology is that of the first shards.
  std::string hear(std::uint64_t key, std::uint32_t shard, const LaneRelayed& m);
  /// One that died has to be met again by the others, also by those that need nothing more of it. What all have contributed stays.
  std::string hear(std::uint64_t key, std::uint32_t, const TrainerRestarted& m);
  std::string hear(std::uint64_t, std::uint32_t, const LeaseUsed&);
  std::string hear(std::uint64_t, std::uint32_t, const Hello&);
  std::string hear(std::uint64_t, std::uint32_t, const Heartbeat&);
  std::string hear(std::uint64_t, std::uint32_t, const Deathrattle&);
  [[nodiscard]] PeerId lead_of(PeerId peer) const;
  std::string passed_on(std::uint64_t key, FromPeer message);
  template <class Message>
  std::string note(std::uint64_t key, std::uint32_t shard, std::optional<Message> ShardPeer::*slot, const Message& message);
  template <class Message>
  std::string once_all_said(std::uint64_t key, std::optional<Message> ShardPeer::*slot);
  /// Only when all fetches have ended is it known what the replica holds.
  std::string once_all_fetched(std::uint64_t key);

  Grid& g_;
  Rows& rows_;
  Instant now_;
  std::vector<Effect>& effects_;
};

}  // namespace prime::coordinator
