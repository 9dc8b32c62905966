// Owns what a started process is told: one JSON document on its stdin. Nothing of it shows in a process list, so the invite may be in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "messages/membership.hpp"
#include "messages/result.hpp"
#include "runtime/manifest/manifest.hpp"
#include "runtime/net/run_key.hpp"
#include "runtime/store/checkpoint.hpp"

namespace prime::launch {

struct CoordinatorPlan {
  std::string run;
  manifest::Manifest manifest;
  Endpoint listen;
  std::uint32_t start_quorum = 0;
  std::optional<store::CheckpointState> origin;  ///< what the run goes on from
  std::string fresh = {};                        ///< why not from what its trainers had for themselves; empty: from that, too
  std::vector<std::string> founders = {};        ///< names of the peers that start with it, by rank; shards: of the replicas
  std::string invite = {};                       ///< of the run that a standby serves when its turn comes; empty: the run is new
  std::string key_check = {};                    ///< of the run's key, for standbys; see net::key_check
  friend bool operator==(const CoordinatorPlan&, const CoordinatorPlan&) = default;
};

struct AgentPlan {
  std::string invite;
  std::string name;  ///< empty: drawn
  manifest::Local local;
  std::string checkpoint;          ///< the state to begin with; empty: none
  std::string private_state = {};  ///< what its trainer begins with beside that; empty: nothing
  std::string replica = {};        ///< of a sharded run; else empty
  std::uint32_t shard = 0;
  std::uint32_t shards = 0;  ///< that its replica was started with; 0: it is not started as a whole
  friend bool operator==(const AgentPlan&, const AgentPlan&) = default;
};

std::string format_plan(const CoordinatorPlan& plan);
std::string format_plan(const AgentPlan& plan);
/// What is another machine's business as well: without the local half, the address and the invite, of whose key it has the check.
std::string format_standby_plan(CoordinatorPlan plan, const net::RunKey& key);
Result<CoordinatorPlan> parse_coordinator_plan(const std::string& text);
Result<AgentPlan> parse_agent_plan(const std::string& text);

/// All of stdin; afterwards it reads as empty.
Result<std::string> take_plan_from_stdin();

}  // namespace prime::launch
