// Owns the files that carry proofs between people: what `primectl commitment build` and `primectl generate --prove` write. Whoever reads
// one believes nothing: structure and bounds are checked here, and each proof by itself where it is compared.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "prime/commitment.hpp"

namespace prime::proofs {

/// No file of proofs is larger: 6 million tokens at 258 bytes for 32 of them. What is larger is refused unread.
inline constexpr std::uint64_t FILE_BYTES_MAX = 64ULL << 20;
/// Nor has one more JSON values (tokens, proofs, and what holds them): in memory they take more than in the file.
inline constexpr std::size_t FILE_VALUES_MAX = std::size_t{4} << 20;
/// Tokens of prompts that one call of `generate` takes, and JSON values of a job, which may also be a whole file of proofs.
inline constexpr std::uint64_t PROMPT_TOKENS_MAX = 16ULL << 20;
/// That are written after a prompt where nobody says how many.
inline constexpr std::uint32_t TOKENS_BY_DEFAULT = 128;
inline constexpr std::size_t JOB_VALUES_MAX = std::size_t{32} << 20;

/// Schema primectl.commitment/1: the proofs of one tensor of activations.
struct CommitmentFile {
  CommitmentOptions options;
  std::vector<std::string> proofs;  ///< base64, as they came
};
/// One line of JSON.
std::string format(const CommitmentFile& file);
/// ProofMalformed says what is wrong with the file.
Result<CommitmentFile> parse_commitment(std::string_view text);

/// How tokens were chosen: temperature 0 takes the likeliest one.
struct Sampling {
  double temperature = 0;
  std::uint64_t seed = 0;
  friend bool operator==(const Sampling&, const Sampling&) = default;
};
struct Sequence {
  std::vector<std::uint32_t> prompt;
  std::vector<std::uint32_t> tokens;  ///< that the model wrote; none where it could not
  std::string text;                 ///< for people: of the prompt and of the tokens, where the tokenizer is known; nothing is proved of it
  std::vector<std::string> proofs;  ///< base64: of the prompt's tokens, then of 32 at a time; the last token has no activations
};
/// Schema primectl.proof/1: what a model wrote, and the proofs that it did.
struct GenerationFile {
  std::string model;      ///< SHA-256 of the tensors and of what the configuration says, 64 hexadecimal digits
  std::string tokenizer;  ///< `bytes`, or the SHA-256 of its files
  std::string dtype;      ///< that the prover computed in: f32, f64, bf16, f16
  std::uint32_t k = 128;
  std::uint32_t segment_tokens = 32;
  Sampling sampling;
  std::vector<Sequence> sequences;
};
std::string format(const GenerationFile& file);
Result<GenerationFile> parse_generation(std::string_view text);

/// Before anything is computed: whether `tokens` that are written to each of the file's prompts make a file that can be read again,
/// whichever tokens they are. Usage names the limit. `texts`: a token is a byte.
Result<void> check_room(const GenerationFile& file, std::uint64_t tokens, bool texts);

/// A file, or what comes through a pipe, of at most FILE_BYTES_MAX. StorageFailed when it cannot be read, ProofMalformed when it is larger.
Result<std::string> read_text(const std::filesystem::path& path);

/// As check_proofs of the public header, of texts: what is no base64 is a malformed proof.
Result<std::vector<ProofVerdict>> check_texts(const Activations& activations, std::span<const std::string> proofs,
                                              const CommitmentOptions& options, const CommitmentThresholds& thresholds);

}  // namespace prime::proofs
