// Owns the way from a checkpoint to what trainers had for themselves then, and to whom of a new run that goes: the peer of the same rank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "messages/result.hpp"
#include "runtime/store/checkpoint.hpp"

namespace prime::launch {

/// Of one shard, at one checkpoint.
struct PrivateStates {
  bool known = false;                        ///< the checkpoint says of whom it is
  bool any = false;                          ///< some trainer kept something for itself
  std::vector<std::filesystem::path> paths;  ///< by rank; empty: it is not here
  std::vector<std::string> missing;          ///< names of those whose is not here
  std::vector<std::string> missing_of_here;  ///< of those the peers of this machine: they were killed before they had saved it
  std::vector<std::string> late;             ///< names of those who were at work that the checkpoint lacks
};

/// Looks beside the checkpoint, and where that lies in a run's directory at all peers there. Every byte is verified: CheckpointCorrupt and
/// CheckpointFormat name what is damaged, and say what follows without it.
Result<PrivateStates> private_states_of(const std::filesystem::path& checkpoint, const store::CheckpointState& state);

/// With what the trainers of a new run begin.
struct Continuation {
  std::vector<std::vector<std::filesystem::path>> paths;  ///< by rank, each by shard; empty: with nothing
  bool any = false;                                       ///< there is something to go on with
  std::string fresh;                                      ///< why the run does not go on exactly; empty: it does
};

/// `states`: by shard; `replicas` are started together (of one shard: peers), and the first outer step waits for `quorum` of them, 0: for
/// all.
Continuation continuation_of(const std::vector<PrivateStates>& states, const store::CheckpointState& state, std::uint32_t replicas,
                             std::uint32_t quorum);

}  // namespace prime::launch
