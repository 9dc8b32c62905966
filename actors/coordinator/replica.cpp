#include "actors/coordinator/replica.hpp"

#include <algorithm>

namespace prime::coordinator {

bool is_complete(const Replica& replica) {
  return std::all_of(replica.shards.begin(), replica.shards.end(), [](const auto& peer) { return peer.has_value(); });
}

bool all_here(const Replica& replica) {
  return std::all_of(replica.shards.begin(), replica.shards.end(), [](const auto& peer) { return peer->here; });
}

Instant last_heard(const Replica& replica) {
  auto heard = Instant::max();
  for (const auto& peer : replica.shards) heard = std::min(heard, peer->heard);
  return heard;
}

ShardPeer greeting(const Hello& hello, Instant now) {
  ShardPeer peer;
  peer.hello = hello;
  peer.heard = now;
  return peer;
}

Who who(const Replica& replica, const Hello& hello) { return {hello.peer, hello.name, replica.name, hello.shard}; }

std::string name_of(const Replica& replica, std::uint32_t shard) {
  return "shard " + std::to_string(shard) + " of replica " + replica.name;
}

std::string shards_text(const Named& shards) { return (shards.count > 1 ? "shards " : "shard ") + to_string(shards); }

std::string missing_in(const Replica& replica) {
  Named missing;
  for (std::uint32_t shard = 0; shard < replica.shards.size(); ++shard)
    if (const auto& peer = replica.shards[shard]; !peer || !peer->here) missing.add(std::to_string(shard));
  return shards_text(missing);
}

}  // namespace prime::coordinator
