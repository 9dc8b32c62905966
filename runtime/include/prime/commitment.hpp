// Owns TOPLOC commitments: 2 + 2k bytes that say which activations a model had, for everybody who has the model to check.
//
// Whoever runs a model commits to the hidden states behind its last norm, 32 tokens at a time: the k largest of them, by magnitude, become
// a polynomial. Whoever doubts runs the same tokens through the same model at once (one prefill), takes the k largest of their own, and
// looks how far the polynomial is from them. docs/VERIFYING.md says what that proves, what it does not, and how to choose thresholds.
//
// Source of the method: TOPLOC (arXiv:2501.16007). Ours is deterministic (of equal values the lower index is taken), refuses what is not
// finite, and compares signs, too. The bytes are those of the package `toploc`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/commitment/commitment.hpp"
#include "messages/result.hpp"

namespace prime {

/// The hidden states of one sequence, [tokens, width], row by row, as bf16 bit patterns.
struct Activations {
  std::span<const std::uint16_t> bits;
  std::size_t width = 1;  ///< divides the size of bits
  [[nodiscard]] std::size_t tokens() const { return width == 0 ? 0 : bits.size() / width; }
};

/// To the nearest bf16, ties to even; what is larger than all of them becomes infinite, and is then refused.
std::vector<std::uint16_t> to_bf16(std::span<const float> values);

struct CommitmentOptions {
  std::uint32_t k = 128;      ///< values of each segment that are committed to, 1 … 8192; of a segment that has fewer, all
  std::uint32_t tokens = 32;  ///< of a segment, at least 1; the last one of a sequence may be shorter
  std::uint64_t prefill = 0;  ///< so many first tokens (the prompt) are one segment of their own; 0: none is
  friend bool operator==(const CommitmentOptions&, const CommitmentOptions&) = default;
};

/// The modulus, then k coefficients by ascending power, each 2 bytes, big-endian. Coefficients of a short segment are 0 above its values.
using CommitmentProof = std::vector<std::uint8_t>;
constexpr std::size_t proof_bytes(std::uint32_t k) { return 2 + 2 * std::size_t{k}; }

/// The tokens [begin, end) of each segment, in order: the prefill, if any, then so many at a time.
struct TokenRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  friend bool operator==(const TokenRange&, const TokenRange&) = default;
};
std::vector<TokenRange> segments_of(std::uint64_t tokens, const CommitmentOptions& options);

/// One proof for the values of one segment.
///   Usage                 no values, k out of its range, 2^32 values or more
///   NonFiniteValue        a NaN or an infinity; it is named
///   CommitmentImpossible  no modulus keeps the indices apart, which only made-up activations come to
Result<CommitmentProof> build_proof(std::span<const std::uint16_t> values, std::uint32_t k);
/// One proof for each segment. Usage, besides: no tokens, a width that does not divide the values, a prefill longer than the sequence.
Result<std::vector<CommitmentProof>> build_proofs(const Activations& activations, const CommitmentOptions& options = {});

/// How many of a segment's values a verifier compares, the largest first: k, but no more than an eighth of them (or eight). The rounding of
/// a computation is as large for a small value as for a large one, so that a value near zero differs by many steps of bf16 between two
/// honest machines. Those with the largest magnitude do not: in a segment of many values they are all that is committed to, and of a
/// short one, which commits to small values as well, they are all that is compared.
std::size_t compared_values(std::size_t values, std::uint32_t k);

/// How far a proof is from one's own values, of which the largest are compared: compared_values says how many. Costs O(k² + values).
/// ProofMalformed: another length than that of k, a modulus above 65497 or too small for so many values, a number outside the field.
/// NonFiniteValue, Usage: of one's own values, as above.
Result<kernels::Comparison> compare_proof(std::span<const std::uint8_t> proof, std::span<const std::uint16_t> values, std::uint32_t k);

/// The most that an honest proof may differ. A value mismatches whose exponent or sign differs.
struct CommitmentThresholds {
  double mismatches = 0;       ///< of 128 values; of other counts in proportion, rounded down
  double mantissa_mean = 0;    ///< units of the last of 7 mantissa bits, over equal exponents
  double mantissa_median = 0;  ///< likewise
  /// One step is a large mean of few values. So as many steps in all as the mean allows of 128 values, two at most, refuse nothing.
  [[nodiscard]] bool accepts(const kernels::Comparison& comparison) const;
  friend bool operator==(const CommitmentThresholds&, const CommitmentThresholds&) = default;
};
/// TOPLOC's own, for models that compute in bf16 on unlike machines: 38 mismatches, mean 10, median 8.
CommitmentThresholds toploc_bf16();
/// For models that compute in f32: no mismatch, a mean below 0.02. One training step, or bf16 instead of f32, is found.
CommitmentThresholds exact_f32();
/// `toploc-bf16`, `exact-f32`, or three numbers such as `6/0.5/0`, in the order of the fields; Usage for everything else.
Result<CommitmentThresholds> parse_thresholds(std::string_view text);
/// Back again.
std::string to_string(const CommitmentThresholds& thresholds);

/// Thresholds between two honest runs of the same sequences, made independently (other machine, other engine): half as much again as they
/// differ at most, in either direction, and never below `exact_f32`. Both hold the same sequences in the same order.
/// Usage: other shapes, or runs that differ by more than `toploc_bf16` allows: these are not two runs of one model.
Result<CommitmentThresholds> calibrate(std::span<const Activations> honest, std::span<const Activations> again,
                                       const CommitmentOptions& options = {});

/// What became of one segment's proof. `reason` says why it is not accepted: what it differs by, or what is wrong with the proof.
struct ProofVerdict {
  bool accepted = false;
  bool compared = false;  ///< `comparison` holds; otherwise the proof is missing, malformed or one too many
  kernels::Comparison comparison;
  std::string reason;
};
/// One verdict for each segment, and one for each proof beyond them: a missing, reordered, truncated, repeated or foreign proof is named.
/// A proof whose comparison the thresholds refuse is compared once more, in its favour where two honest runs may differ by the last bit of
/// bf16: a value one step away is no exponent's mismatch, and of those within one step of the smallest of the k largest, the ones that the
/// proof holds are compared. What is accepted so has that comparison in its verdict.
/// Fails as build_proofs does.
Result<std::vector<ProofVerdict>> check_proofs(const Activations& activations, std::span<const CommitmentProof> proofs,
                                               const CommitmentOptions& options, const CommitmentThresholds& thresholds);

/// The standard alphabet, with padding.
std::string to_base64(std::span<const std::uint8_t> bytes);
/// ProofMalformed for everything that to_base64 does not write.
Result<std::vector<std::uint8_t>> from_base64(std::string_view text);

}  // namespace prime
