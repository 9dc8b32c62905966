// Owns what one peer brought to a round, on disk: complete and verified, or not there (law 9).
//
//   fragment-1/version-000003/  contribution.safetensors  `contribution`, as it went into the reduce; `residual`: what codecs had lost
//                                                         before, and was added, where errors are fed back
//                               contribution.json         whose it is, and the operation: members by rank with their weights, and the rest
//                                                         that its result depends on
//                               listing.json              the other files with their sizes and digests
//
// Of several tries of a round the last one stays: it is the one that was committed, if any was.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "messages/ids.hpp"
#include "messages/outer_step.hpp"
#include "messages/result.hpp"

namespace prime::store {

inline constexpr std::string_view CONTRIBUTION_FORMAT = "prime.contribution/1";

struct RoundKey {
  std::uint32_t fragment = 0;
  OuterStep version;  ///< that the round leads to
};

struct KeptContribution {
  std::string run;
  PeerId peer;
  RoundKey round;
  std::string operation;                    ///< "epoch.sequence", as journals name it
  std::vector<Contribution> contributions;  ///< of all members, by rank
  bool ring = false;                        ///< the members stood in the order of a ring whose links were measured
  std::vector<Real> radii;                  ///< with `sync.merge: radial`: the mean of the contributions' lengths
  friend bool operator==(const KeptContribution& a, const KeptContribution& b) {
    return a.run == b.run && a.peer == b.peer && a.operation == b.operation && a.contributions == b.contributions && a.ring == b.ring &&
           a.radii == b.radii;
  }
};

struct LoadedContribution {
  KeptContribution of;
  std::vector<float> values;
  std::vector<float> residual;  ///< empty where errors are not fed back
};

/// Where one lies below the directory of a peer's contributions.
std::filesystem::path contribution_path(const std::filesystem::path& directory, const RoundKey& round);
/// Writes it there; an earlier one of the same round is replaced at once. StorageFailed leaves nothing behind.
Result<void> write_contribution(const std::filesystem::path& directory, const KeptContribution& kept, std::span<const float> values,
                                std::span<const float> residual);
/// What the directory of one says of itself, with nothing verified; nothing where it is none.
std::optional<KeptContribution> peek_contribution(const std::filesystem::path& path);
/// Reads every byte of one. CheckpointCorrupt names each damaged part; CheckpointFormat: it is of another form than this program's.
Result<LoadedContribution> read_contribution(const std::filesystem::path& path);

}  // namespace prime::store
