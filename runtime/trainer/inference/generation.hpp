// Owns writing with proofs, and checking both: batches of sequences through a decoder.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "prime/commitment.hpp"
#include "runtime/commitment/proof_file.hpp"
#include "runtime/trainer/inference/decoder.hpp"
#include "runtime/trainer/inference/sampler.hpp"

namespace prime::trainer {

/// Where the time goes, in seconds.
struct Spent {
  double total = 0;    ///< of the model and of what follows
  double proving = 0;  ///< of it: rounding, the largest values, polynomials, base64
};

struct GenerationOptions {
  std::uint32_t tokens = 128;  ///< for each prompt
  std::uint32_t batch = 16;    ///< prompts at a time
  proofs::Sampling sampling;
  bool prove = true;
  std::uint32_t k = 128;
  std::uint32_t segment_tokens = 32;
};
/// Hears of tokens done, of all.
using Progress = std::function<void(std::uint64_t done, std::uint64_t of)>;
/// Hears of what was written, or why nothing was: NonFiniteValue of logits or states, CommitmentImpossible. The others are written all the
/// same.
using SequenceDone = std::function<void(std::size_t index, Result<proofs::Sequence> sequence)>;

/// Writes after each prompt. Usage: a prompt that is empty, has an unknown token, or leaves no room in the context.
Result<Spent> generate(const Decoder& decoder, const std::vector<std::vector<std::uint32_t>>& prompts, const GenerationOptions& options,
                       const SequenceDone& done, const Progress& progress);

struct VerificationOptions {
  std::uint32_t batch = 16;
  proofs::Sampling sampling;
  std::uint32_t k = 128;
  std::uint32_t segment_tokens = 32;
  CommitmentThresholds thresholds;
  ChoiceTolerance tolerance = EXACT_CHOICES;
};
struct SequenceVerdict {
  std::vector<ProofVerdict> segments;
  std::uint64_t other_choices = 0;  ///< tokens that the promised sampling does not choose
  std::uint64_t first_other = 0;    ///< the first of them, from 0
  std::string reason;               ///< of a sequence that cannot be computed or has non-finite states or logits
};
using VerdictDone = std::function<void(std::size_t index, SequenceVerdict verdict)>;

/// Recomputes each sequence by one prefill. What cannot be computed of one is the reason of its verdict; the others have theirs.
Result<Spent> verify(const Decoder& decoder, const std::vector<proofs::Sequence>& sequences, const VerificationOptions& options,
                     const VerdictDone& done, const Progress& progress);

}  // namespace prime::trainer
