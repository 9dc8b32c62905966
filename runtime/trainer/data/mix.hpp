// Owns the choice of a source for each sample of a mix: exact shares, spread evenly, found without counting from the start.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/manifest/manifest.hpp"

namespace prime::data {

/// What part of the samples a source gives at a sample of the run; a line to the next one.
struct MixShare {
  std::uint64_t at = 0;
  double share = 0;
};
/// Of each source, at the start and wherever a line of any of them begins or ends. Empty where no source has a weight.
std::vector<std::vector<MixShare>> shares_of(const std::vector<manifest::Source>& sources);

class Mix {
 public:
  static constexpr std::uint64_t BLOCK = 4096;

  /// Of one source or more, at any sample one with a weight above 0. The least share of such a one is one sample in BLOCK. A block has the
  /// weights of its first sample. With a `range` above 1 weights do not change, and so many samples are drawn at once, from one source: a
  /// block has BLOCK ranges then, and among the first 2^k of it, and all that follow, sources have their shares as exactly as can be.
  Mix(std::span<const manifest::SourceWeight> weights, std::uint64_t seed, std::uint64_t range = 1);

  /// How the samples of one block are dealt out.
  struct Block {
    std::uint64_t number = 0;
    std::vector<std::uint64_t> first;  ///< of each source: its own samples, or ranges, before the block
    std::vector<std::uint64_t> ends;   ///< of each source's part of the block
  };
  [[nodiscard]] Block block_of(std::uint64_t sample) const;
  [[nodiscard]] bool is_in(const Block& block, std::uint64_t sample) const { return sample / range_ / BLOCK == block.number; }
  struct Drawn {
    std::size_t source = 0;
    std::uint64_t index = 0;  ///< of the source's own samples: each is drawn once, in some order within a block
  };
  /// A sample of this block.
  [[nodiscard]] Drawn draw(const Block& block, std::uint64_t sample) const;

 private:
  [[nodiscard]] std::vector<std::uint64_t> parts_at(std::uint64_t block) const;

  std::vector<manifest::SourceWeight> weights_;
  std::uint64_t seed_;
  std::uint64_t range_;
  std::uint64_t level_from_ = 0;                   ///< block from which on no weight changes
  std::vector<std::uint64_t> level_parts_;         ///< of each source in a block from there on
  std::vector<std::vector<std::uint64_t>> marks_;  ///< of each source: its samples before every so many blocks, up to level_from_
};

}  // namespace prime::data
