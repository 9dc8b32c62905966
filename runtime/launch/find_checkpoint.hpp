// Owns the way from what a person names, a run or a path, to the checkpoints that a new run goes on from.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "messages/result.hpp"
#include "runtime/launch/private_states.hpp"
#include "runtime/manifest/manifest.hpp"
#include "runtime/store/checkpoint.hpp"

namespace prime::launch {

/// How far a run has come: what it has committed and not undone, as the journal here says, or what somebody here has saved of it.
struct NewestStep {
  OuterStep outer_step;
  std::uint32_t shards = 1;            ///< of the run
  std::vector<std::uint32_t> missing;  ///< of those, the ones that are saved nowhere here
};

/// A newer checkpoint than the one that is gone on from: some peers of this machine have not saved what their trainers had for themselves.
struct PassedOver {
  OuterStep outer_step;
  std::vector<std::filesystem::path> paths;  ///< by shard
  std::vector<std::string> missing;          ///< names of those peers
};

/// What a run goes on from.
struct FoundCheckpoint {
  std::vector<std::filesystem::path> paths;  ///< by shard
  store::CheckpointState state;              ///< of the whole model
  NewestStep newest = {};                    ///< of the run that it is of; where only a path was named, nothing
  std::vector<PrivateStates> privates = {};  ///< by shard
  std::optional<PassedOver> passed_over = {};
};

/// Whether a newer step had to be passed over.
bool is_older(const FoundCheckpoint& found);
/// "shard 0 of outer step 327 is saved nowhere here", where `of` is "outer step 327".
std::string what_is_missing(const NewestStep& newest, const std::string& of);

/// A checkpoint's directory, or the newest one that a run of this machine left, by its id or a unique prefix of it. Of a sharded run:
/// those of all shards of the newest outer step of which each shard has one. One of the same peers that is older goes before one of which
/// a peer of this machine was killed while it saved what its trainer had for itself. Every byte is verified. Errors: RunUnknown,
/// CheckpointCorrupt, CheckpointFormat, StorageFailed; StateMismatch when `manifest` names another model, Usage when there is none, or no
/// step after it; RunElsewhere when the run may live on another machine: `waits` is called when that has to be watched for.
Result<FoundCheckpoint> find_checkpoint(const std::filesystem::path& state_root, const std::string& name,
                                        const manifest::Manifest& manifest, const std::function<void()>& waits = {});

/// What a run of so many shards, more than one, would be gone on from. CheckpointCorrupt says how to go on from an older step.
Result<FoundCheckpoint> newest_of_all_shards(const std::filesystem::path& run, std::uint32_t count);

/// Whether a run has any, whole or not.
bool has_checkpoint(const std::filesystem::path& run);

}  // namespace prime::launch
