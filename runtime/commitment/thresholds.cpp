// Owns what counts as the same computation: the presets, their text, and thresholds measured between honest runs.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "prime/commitment.hpp"

namespace prime {
namespace {

/// What TOPLOC's thresholds count mismatches of.
constexpr double COUNTED = 128;
/// What the mean of `exact-f32` allows of so many.
constexpr double STEPS_FORGIVEN = 2;
/// Half as much again as what was seen: the next honest run may be a little further away.
constexpr double MARGIN = 1.5;

struct Preset {
  std::string_view name;
  CommitmentThresholds thresholds;
};
const std::array<Preset, 2>& presets() {
  static const std::array<Preset, 2> all{Preset{"toploc-bf16", toploc_bf16()}, Preset{"exact-f32", exact_f32()}};
  return all;
}

std::string shortest(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

double mismatches_of(const kernels::Comparison& comparison) {
  return static_cast<double>(comparison.exponent_mismatches + comparison.sign_mismatches);
}

}  // namespace

bool CommitmentThresholds::accepts(const kernels::Comparison& comparison) const {
  const double allowed = std::floor(mismatches * static_cast<double>(comparison.values) / COUNTED);
  if (comparison.values == 0 || mismatches_of(comparison) > allowed) return false;
  const auto equal = static_cast<double>(comparison.exponent_intersections());
  const double steps = std::round(comparison.mantissa_mean * equal);
  if (equal > 0 && steps <= std::min(std::floor(mantissa_mean * COUNTED), STEPS_FORGIVEN)) return true;
  return comparison.mantissa_mean <= mantissa_mean && comparison.mantissa_median <= mantissa_median;
}

CommitmentThresholds toploc_bf16() { return {38, 10, 8}; }
CommitmentThresholds exact_f32() { return {0, std::nextafter(0.02, 0.0), 0}; }

Result<CommitmentThresholds> parse_thresholds(std::string_view text) {
  for (const auto& preset : presets())
    if (preset.name == text) return preset.thresholds;
  std::array<double, 3> values{};
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  bool good = true;
  for (std::size_t i = 0; i < values.size() && good; ++i) {
    const auto [next, error] = std::from_chars(at, end, values[i]);
    good = error == std::errc{} && std::isfinite(values[i]) && values[i] >= 0 &&
           (i + 1 < values.size() ? next != end && *next == '/' : next == end);
    at = next + (good && i + 1 < values.size() ? 1 : 0);
  }
  if (!good)
    return fail(ErrorName::Usage,
                "`" + std::string{text} + "` are no thresholds: toploc-bf16, exact-f32, or MISMATCHES/MEAN/MEDIAN such as 6/0.5/0");
  return CommitmentThresholds{values[0], values[1], values[2]};
}

std::string to_string(const CommitmentThresholds& thresholds) {
  for (const auto& preset : presets())
    if (preset.thresholds == thresholds) return std::string{preset.name};
  return shortest(thresholds.mismatches) + "/" + shortest(thresholds.mantissa_mean) + "/" + shortest(thresholds.mantissa_median);
}

Result<CommitmentThresholds> calibrate(std::span<const Activations> honest, std::span<const Activations> again,
                                       const CommitmentOptions& options) {
  if (honest.size() != again.size() || honest.empty())
    return fail(ErrorName::Usage, "runs of " + std::to_string(honest.size()) + " and " + std::to_string(again.size()) + " sequences");
  CommitmentThresholds seen;
  const auto widen = [&](const Activations& prover, const Activations& verifier) -> Result<void> {
    PRIME_TRY(const auto proofs, build_proofs(prover, options));
    PRIME_TRY(const auto verdicts, check_proofs(verifier, proofs, options, toploc_bf16()));
    PRIME_TRY(const auto exact, check_proofs(verifier, proofs, options, exact_f32()));
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      if (exact[i].accepted) continue;  // the floor has room for it
      const auto& verdict = verdicts[i];
      if (!verdict.accepted) return fail(ErrorName::Usage, "these are not two runs of one model: a segment " + verdict.reason);
      const auto& comparison = verdict.comparison;
      seen.mismatches = std::max(seen.mismatches, mismatches_of(comparison) * COUNTED / static_cast<double>(comparison.values));
      seen.mantissa_mean = std::max(seen.mantissa_mean, comparison.mantissa_mean);
      seen.mantissa_median = std::max(seen.mantissa_median, comparison.mantissa_median);
    }
    return {};
  };
  for (std::size_t i = 0; i < honest.size(); ++i) {
    if (honest[i].width != again[i].width || honest[i].bits.size() != again[i].bits.size())
      return fail(ErrorName::Usage, "sequence " + std::to_string(i) + " has another shape in the second run");
    PRIME_CHECK(widen(honest[i], again[i]));
    PRIME_CHECK(widen(again[i], honest[i]));
  }
  const auto least = exact_f32();
  // Rounded up to what a person can type.
  return CommitmentThresholds{std::max(std::ceil(MARGIN * seen.mismatches), least.mismatches),
                              std::max(std::ceil(MARGIN * seen.mantissa_mean * 1000) / 1000, least.mantissa_mean),
                              std::max(MARGIN * seen.mantissa_median, least.mantissa_median)};
}

}  // namespace prime
