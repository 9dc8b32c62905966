// Owns what the JSON of `up` and `join` says of a peer that was started.
#pragma once

#include <nlohmann/json.hpp>

#include "runtime/launch/start_run.hpp"

namespace prime::cli {

inline nlohmann::ordered_json peer_json(const launch::StartedPeer& peer) {
  nlohmann::ordered_json object{{"id", peer.id}, {"name", peer.name}, {"pid", peer.process.pid()}};
  if (!peer.replica.empty()) object.update({{"replica", peer.replica}, {"shard", peer.shard}});
  return object;
}

}  // namespace prime::cli
