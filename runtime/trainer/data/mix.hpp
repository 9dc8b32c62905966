// Owns the choice of a source for each sample of a mix: exact shares, spread evenly, found without counting from the start.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace prime::data {

class Mix {
 public:
  /// Of one source or more; each weight is above 0. The least share is one sample in BLOCK.
  Mix(std::span<const double> weights, std::uint64_t seed);

  struct Drawn {
    std::size_t source = 0;
    std::uint64_t index = 0;  ///< of the source's own samples: each is drawn once, in some order within a block
  };
  [[nodiscard]] Drawn operator()(std::uint64_t sample) const;

  static constexpr std::uint64_t BLOCK = 4096;

 private:
  std::uint64_t seed_;
  std::vector<std::uint64_t> ends_;  ///< of each source's part of a block
};

}  // namespace prime::data
