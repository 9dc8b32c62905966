// Owns checkpoints: one directory for one committed revision, readable by transformers, complete and verified or not there (law 9).
//
//   step-000060/  model.safetensors, config.json …      what other programs load; copied tensors stand behind the parameters
//                 prime/state.json                      run, counters, digest of the shared state
//                 prime/outer_momentum.safetensors      the outer optimizer's state; absent when it has none
//                 prime/manifest.yaml                   the shared half of the manifest
//                 prime/checkpoint.json                 every other file with its size and digest
//
// What trainers keep for themselves lies beside it, and is each peer's own to save: private_state.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "messages/data_identity.hpp"
#include "messages/division.hpp"
#include "messages/ids.hpp"
#include "messages/result.hpp"
#include "runtime/store/safetensors.hpp"

namespace prime::store {

/// What this program writes and reads. A later form has a higher number, and is never taken for a damaged one.
inline constexpr std::string_view CHECKPOINT_FORMAT = "prime.checkpoint/1";

/// A peer whose trainer may keep something for itself.
struct CheckpointMember {
  PeerId peer;
  std::string name;  ///< for people
  friend bool operator==(const CheckpointMember&, const CheckpointMember&) = default;
};

/// What a checkpoint is of. `state` is the digest that the peers voted on; this floor keeps it and does not compute it.
struct CheckpointState {
  std::string run;
  Revision revision;
  OuterStep outer_step;
  std::uint64_t next_sample = 0;  ///< the data cursor
  std::uint64_t tokens = 0;       ///< trained on by all peers so far
  Digest state;
  std::uint32_t shard = 0;  ///< the part of the model that it holds, of `shards`
  std::uint32_t shards = 1;
  Division division = {};                      ///< into fragments, which `state` depends on
  std::vector<OuterStep> versions = {};        ///< of each fragment; empty: all are of `outer_step`
  DataIdentity data = {};                      ///< what its peer trained on, where its trainer told
  bool dated = false;                          ///< of an earlier form, whose `state` is a digest that nobody computes any more
  std::vector<std::uint64_t> given_back = {};  ///< first samples of ranges before the cursor that nobody's work has, lowest first
  std::vector<CheckpointMember> members = {};  ///< of the run then, by rank; empty: not known
  bool private_state = false;        ///< its writer's trainer keeps something for itself, which is saved beside it (private_state.hpp)
  std::uint32_t copied = 0;          ///< tensors of model.safetensors, the last ones, that are neither reduced nor digested
  std::vector<Digest> digests = {};  ///< of each fragment, of which `state` is made; empty: there is one
  friend bool operator==(const CheckpointState&, const CheckpointState&) = default;
};

/// The text of prime/state.json, and back; nothing when it is damaged.
std::string format_state(const CheckpointState& state);
std::optional<CheckpointState> parse_state(const std::string& text);

/// What to write. Spans must stay valid and unchanged during the call.
struct CheckpointContent {
  CheckpointState state;
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> copied = {};             ///< of names of their own
  std::vector<NamedTensor> momentum;                ///< of the same names and shapes; empty when there is none
  std::string manifest;                             ///< canonical YAML of the shared half
  std::map<std::string, std::string> export_files;  ///< by plain file name, put beside model.safetensors
};

struct LoadedCheckpoint {
  CheckpointState state;
  std::vector<TensorEntry> layout;  ///< of the parameters, in the order of their bytes
  std::vector<float> parameters;    ///< flat, in that order
  std::vector<float> momentum;      ///< likewise; empty when there is none
  std::vector<TensorEntry> copied;
  std::vector<std::byte> copied_bytes;  ///< without gaps, in their order
  std::string manifest;
};

struct CheckpointEntry {
  OuterStep outer_step;
  std::filesystem::path path;
  std::uint64_t bytes = 0;
};

/// Writes `directory`/step-NNNNNN and returns its path; one of the same step is replaced at once. StorageFailed leaves nothing behind.
Result<std::filesystem::path> write_checkpoint(const std::filesystem::path& directory, const CheckpointContent& content);
/// Whether a checkpoint of tensors of these names and shapes can be written there and found again, before anybody trains for it: its files
/// are written with their lengths and without their values, read back, and removed. The error says what stands in the way.
Result<void> rehearse_checkpoint(const std::filesystem::path& directory, OuterStep step, std::span<const NamedTensor> parameters,
                                 std::span<const NamedTensor> copied = {});
/// Reads every byte of a checkpoint; CheckpointCorrupt names each damaged part. CheckpointFormat: it is of another form than this
/// program's.
Result<CheckpointState> verify_checkpoint(const std::filesystem::path& checkpoint);
/// The shared half that it was written with; nothing of it is verified.
Result<std::string> read_manifest(const std::filesystem::path& checkpoint);
/// Verifies, then loads.
Result<LoadedCheckpoint> load_checkpoint(const std::filesystem::path& checkpoint);
/// The complete checkpoints of a directory, oldest step first; sizes are checked, digests are not.
std::vector<CheckpointEntry> list_checkpoints(const std::filesystem::path& directory);
/// Keeps the `keep` newest complete checkpoints, at least one, and returns the paths that it removed.
Result<std::vector<std::filesystem::path>> prune_checkpoints(const std::filesystem::path& directory, std::size_t keep);

}  // namespace prime::store
