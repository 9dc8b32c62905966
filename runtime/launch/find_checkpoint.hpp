// Owns the way from what a person names, a run or a path, to the checkpoints that a new run goes on from.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "messages/result.hpp"
#include "runtime/manifest/manifest.hpp"
#include "runtime/store/checkpoint.hpp"

namespace prime::launch {

/// What a run goes on from.
struct FoundCheckpoint {
  std::vector<std::filesystem::path> paths;  ///< by shard
  store::CheckpointState state;              ///< of the whole model
};

/// A checkpoint's directory, or the newest one that a run of this machine left, by its id or a unique prefix of it. Of a sharded run:
/// those of all shards of the newest outer step of which each shard has one. Every byte is verified. Errors: RunUnknown,
/// CheckpointCorrupt, StorageFailed; StateMismatch when `manifest` names another model, Usage when there is none, or no step after it.
Result<FoundCheckpoint> find_checkpoint(const std::filesystem::path& state_root, const std::string& name,
                                        const manifest::Manifest& manifest);

/// Whether a run has any, whole or not.
bool has_checkpoint(const std::filesystem::path& run);

}  // namespace prime::launch
