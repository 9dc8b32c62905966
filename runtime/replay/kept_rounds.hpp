// Owns what of a run is there to be replayed: the rounds that its coordinator has journaled, and what its peers have kept of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "messages/events.hpp"
#include "messages/ids.hpp"
#include "messages/result.hpp"

namespace prime::replay {

/// All rounds of a run, by revision, each once. ReplayImpossible for a run that went back to a checkpoint, and where one is missing.
Result<std::vector<events::RoundCommitted>> committed_rounds(const std::filesystem::path& journal);

class KeptFiles {
 public:
  /// Looks for them below these directories, at any depth.
  static Result<KeptFiles> find(std::span<const std::filesystem::path> directories);

  /// Checkpoints of what the first round began with.
  [[nodiscard]] const std::vector<std::filesystem::path>& starts() const { return starts_; }
  /// What this peer brought to the round that led to a version of a fragment. ReplayImpossible names what is missing.
  [[nodiscard]] Result<std::filesystem::path> contribution(std::uint32_t fragment, OuterStep version, PeerId peer) const;

 private:
  using Key = std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>;
  Result<void> look_below(const std::filesystem::path& directory);

  std::vector<std::filesystem::path> starts_;
  std::map<Key, std::filesystem::path> contributions_;
  std::string where_;  ///< the directories, for people
};

}  // namespace prime::replay
