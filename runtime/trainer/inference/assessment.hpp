// Owns what a model makes of sequences that are given: how likely each is, and the mean of its last hidden states.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/trainer/inference/decoder.hpp"

namespace prime::trainer {

struct Assessed {
  double nats = 0;           ///< of all tokens that were read, but the first
  std::uint64_t tokens = 0;  ///< of which; the model's context may hold no more
  std::vector<float> state;  ///< the mean over the same tokens
};

/// `hear` gets each sequence's number and outcome, in any order. Sequences of one token or none are passed over, and one of ids that the
/// model has not is ModelUnsupported. `progress` (done, of) is called between batches.
Result<void> assess(const Decoder& decoder, const std::vector<std::vector<std::uint32_t>>& sequences, std::uint32_t batch,
                    const std::function<void(std::size_t, const Assessed&)>& hear,
                    const std::function<void(std::uint64_t, std::uint64_t)>& progress);

}  // namespace prime::trainer
