// Owns what one peer and its trainer kept for themselves at a committed revision, on disk: complete and verified, or not there (law 9).
//
//   private-000060/  private.safetensors   private tensors by their names; a blob is one of U8: its length in 8 bytes, then itself; what
//   codecs
//                                          lost is `prime.residual.N`, of fragment N
//                    private.json          whose it is, of which run and revision
//                    listing.json          the other files with their sizes and digests
//
// It lies beside the checkpoints of its peer, and belongs to the one whose state has the same digest, whoever saved that.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "messages/ids.hpp"
#include "messages/result.hpp"
#include "runtime/store/safetensors.hpp"

namespace prime::store {

inline constexpr std::string_view PRIVATE_STATE_FORMAT = "prime.private/1";

struct PrivateState {
  std::string run;
  PeerId peer;
  Revision revision;
  OuterStep outer_step;   ///< the last one that the state of that revision has
  Digest state;           ///< of that shared state; of the peer's shard
  Digest layout;          ///< of the private tensors' names, types and shapes
  bool recorded = false;  ///< false: the trainer had nothing yet but what it was born with
  bool late = false;      ///< it was at work that the shared state lacks: who goes on from here does not do what it would have done
  friend bool operator==(const PrivateState&, const PrivateState&) = default;
};

/// Where the private state beside checkpoints of this directory lies, of this outer step.
std::filesystem::path private_state_path(const std::filesystem::path& directory, OuterStep step);
/// Writes it there and returns the path; one of the same step is replaced at once. Spans must stay valid and unchanged during the call.
/// StorageFailed leaves nothing behind.
Result<std::filesystem::path> write_private_state(const std::filesystem::path& directory, const PrivateState& state,
                                                  std::span<const NamedTensor> tensors);
/// What it says of itself, with nothing verified; nothing where that cannot be read.
std::optional<PrivateState> peek_private_state(const std::filesystem::path& path);
/// Reads every byte; CheckpointCorrupt names each damaged part. CheckpointFormat: it is of another form than this program's.
Result<PrivateState> verify_private_state(const std::filesystem::path& path);
/// Reads one that was verified: `place` says where the bytes of a tensor go, or nothing for one that it does not know.
Result<void> read_private_tensors(const std::filesystem::path& path, const std::function<std::span<std::byte>(const TensorEntry&)>& place);
/// Keeps the newest ones of a directory, so many.
Result<void> prune_private_states(const std::filesystem::path& directory, std::size_t keep);

}  // namespace prime::store
