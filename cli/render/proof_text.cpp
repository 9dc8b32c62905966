#include "cli/render/proof_text.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "cli/render/columns.hpp"
#include "cli/render/figures.hpp"

namespace prime::cli {

nlohmann::ordered_json verdict_json(const ProofVerdict& verdict) {
  const auto& comparison = verdict.comparison;
  nlohmann::ordered_json object{{"accepted", verdict.accepted},
                                {"exponent_mismatches", comparison.exponent_mismatches},
                                {"mantissa_mean", comparison.mantissa_mean},
                                {"mantissa_median", comparison.mantissa_median},
                                {"sign_mismatches", comparison.sign_mismatches},
                                {"values", comparison.values},
                                {"reason", nullptr}};
  if (!verdict.compared)
    for (const auto* key : {"exponent_mismatches", "mantissa_mean", "mantissa_median", "sign_mismatches", "values"}) object[key] = nullptr;
  if (!verdict.accepted) object["reason"] = verdict.reason;
  return object;
}

nlohmann::ordered_json check_json(std::size_t proof, const ProofVerdict& verdict) {
  nlohmann::ordered_json object{{"schema", "primectl.commitment.check/1"}, {"proof", proof}};
  object.update(verdict_json(verdict));
  return object;
}

std::vector<std::string> broken_terms(const CommitmentOptions& asked, const CommitmentOptions& found, std::string_view segment_flag) {
  std::vector<std::string> reasons;
  if (found.k < asked.k)
    reasons.push_back(fmt::format("each proof holds {}; at least {} are asked for (--k)", plural(found.k, "value"), asked.k));
  if (found.tokens > asked.tokens)
    reasons.push_back(
        fmt::format("each proof is of {}; at most {} are asked for ({})", plural(found.tokens, "token"), asked.tokens, segment_flag));
  return reasons;
}

std::string verdicts_text(const std::vector<CheckedSegment>& segments, const CommitmentThresholds& thresholds) {
  std::vector<std::vector<std::string>> rows;
  kernels::Comparison worst;
  std::size_t accepted = 0;
  for (const auto& [name, verdict] : segments) {
    if (!verdict.accepted) {
      rows.push_back({name, verdict.reason});
      continue;
    }
    ++accepted;
    worst.exponent_mismatches = std::max(worst.exponent_mismatches, verdict.comparison.exponent_mismatches);
    worst.sign_mismatches = std::max(worst.sign_mismatches, verdict.comparison.sign_mismatches);
    worst.mantissa_mean = std::max(worst.mantissa_mean, verdict.comparison.mantissa_mean);
    worst.mantissa_median = std::max(worst.mantissa_median, verdict.comparison.mantissa_median);
  }
  auto text = rows.empty() ? std::string{} : columns({{"SEGMENT"}, {"NOT ACCEPTED"}}, rows);
  text += fmt::format("{} of {} segments accepted ({})", accepted, segments.size(), to_string(thresholds));
  if (accepted > 0)
    text += fmt::format("; at most {} exponents and {} signs differ, mantissas by {:.4g} (median {:.4g})", worst.exponent_mismatches,
                        worst.sign_mismatches, worst.mantissa_mean, worst.mantissa_median);
  return text + "\n";
}

}  // namespace prime::cli
