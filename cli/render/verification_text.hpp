// Owns what the verification of a whole file looks like: `verify -o json`, and the text for people.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/commitment/proof_file.hpp"

namespace prime::cli {

struct VerifiedSequence {
  std::vector<ProofVerdict> segments;
  std::uint64_t other_choices = 0;  ///< tokens that the promised sampling does not choose
  std::uint64_t first_other = 0;
  std::string reason;  ///< of a sequence that the model cannot compute, or that was not reached
};

struct Verification {
  proofs::GenerationFile file;
  CommitmentThresholds thresholds;
  std::vector<std::string> reasons;  ///< why the file as a whole is refused: another model, too few values …
  std::vector<VerifiedSequence> sequences;
  double seconds = 0;
  [[nodiscard]] bool accepted() const;
};

/// Schema primectl.verify/1.
nlohmann::ordered_json verification_json(const Verification& verification);
std::string verification_text(const Verification& verification);

}  // namespace prime::cli
