// Owns what verdicts on proofs look like: an object and a row for each.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "prime/commitment.hpp"

namespace prime::cli {

/// {accepted, exponent_mismatches, sign_mismatches, mantissa_mean, mantissa_median, values, reason}; null where nothing was compared.
nlohmann::ordered_json verdict_json(const ProofVerdict& verdict);

/// Schema primectl.commitment.check/1.
nlohmann::ordered_json check_json(std::size_t proof, const ProofVerdict& verdict);

/// How proofs hold less than was asked for: fewer values, or longer segments. Whoever could choose that would choose how much is proved.
std::vector<std::string> broken_terms(const CommitmentOptions& asked, const CommitmentOptions& found, std::string_view segment_flag);

/// A row for each proof that is not accepted, and what holds in all.
struct CheckedSegment {
  std::string name;
  ProofVerdict verdict;
};
std::string verdicts_text(const std::vector<CheckedSegment>& segments, const CommitmentThresholds& thresholds);

}  // namespace prime::cli
