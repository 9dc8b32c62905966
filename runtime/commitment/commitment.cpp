// Owns the way from activations to proofs and back to verdicts: segments, bytes, and names for all that is wrong.
#include "prime/commitment.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "kernels/small_floats.hpp"

namespace prime {
namespace {

using kernels::Comparison;
using kernels::TopValue;

tl::unexpected<Error> malformed(const std::string& what) { return fail(ErrorName::ProofMalformed, what); }

std::string number(double value) {
  std::string text(32, '\0');
  text.resize(static_cast<std::size_t>(std::snprintf(text.data(), text.size(), "%.4g", value)));
  return text;
}

/// How many values a segment commits to, of which k are asked for.
std::size_t committed_values(std::size_t values, std::uint32_t k) { return std::min<std::size_t>(k, values); }

/// The largest values of a segment; `how_many` says how many of its size and k.
using Count = std::size_t (*)(std::size_t values, std::uint32_t k);
Result<std::vector<TopValue>> largest(std::span<const std::uint16_t> values, std::uint32_t k, Count how_many) {
  if (k < 1 || k > kernels::COMMITTED_MAXIMUM)
    return fail(ErrorName::Usage, "k is " + std::to_string(k) + "; it goes from 1 to " + std::to_string(kernels::COMMITTED_MAXIMUM));
  if (values.empty()) return fail(ErrorName::Usage, "a segment without activations");
  if (values.size() >= kernels::SEGMENT_VALUES_MAXIMUM)
    return fail(ErrorName::Usage, "a segment of " + std::to_string(values.size()) + " activations; take fewer tokens");
  std::vector<TopValue> points(how_many(values.size(), k));
  if (const auto bad = kernels::top_values(values, points))
    return fail(ErrorName::NonFiniteValue, "activation " + std::to_string(*bad) + " of a segment of " + std::to_string(values.size()));
  return points;
}

std::uint16_t number_at(std::span<const std::uint8_t> proof, std::size_t place) {
  return static_cast<std::uint16_t>(proof[2 * place] << 8 | proof[2 * place + 1]);
}

void append(CommitmentProof& proof, std::uint32_t value) {
  proof.push_back(static_cast<std::uint8_t>(value >> 8));
  proof.push_back(static_cast<std::uint8_t>(value));
}

/// What a proof says, once nothing about it is wrong. `points`: how many values it commits to.
struct Polynomial {
  std::uint32_t modulus = 0;
  std::vector<std::uint16_t> coefficients;
};
Result<Polynomial> parse_proof(std::span<const std::uint8_t> proof, std::uint32_t k, std::size_t points) {
  if (proof.size() != proof_bytes(k))
    return malformed(std::to_string(proof.size()) + " bytes, where k = " + std::to_string(k) + " takes " + std::to_string(proof_bytes(k)));
  Polynomial polynomial{number_at(proof, 0), std::vector<std::uint16_t>(k)};
  if (polynomial.modulus == 0) return malformed("the modulus 0, which stands for a proof that could not be made");
  if (polynomial.modulus > kernels::COMMITMENT_PRIME)
    return malformed("the modulus " + std::to_string(polynomial.modulus) + " is above " + std::to_string(kernels::COMMITMENT_PRIME));
  // So few remainders cannot keep the values of an honest proof apart; a modulus of 1 would make all of them one.
  if (polynomial.modulus < points)
    return malformed("the modulus " + std::to_string(polynomial.modulus) + " cannot tell " + std::to_string(points) + " values apart");
  for (std::size_t i = 0; i < k; ++i) {
    polynomial.coefficients[i] = number_at(proof, i + 1);
    if (polynomial.coefficients[i] >= kernels::COMMITMENT_PRIME)
      return malformed("coefficient " + std::to_string(i) + " is " + std::to_string(polynomial.coefficients[i]) + ", no number modulo " +
                       std::to_string(kernels::COMMITMENT_PRIME));
    if (i >= points && polynomial.coefficients[i] != 0)
      return malformed("coefficient " + std::to_string(i) + " of a segment of " + std::to_string(points) + " values is not 0");
  }
  return polynomial;
}

/// One's own values that a proof is compared with, and of how many values their segment is.
struct OwnSegment {
  std::vector<TopValue> largest;
  std::size_t values = 0;
};

Result<Comparison> compare_with(std::span<const std::uint8_t> proof, const OwnSegment& segment, std::uint32_t k) {
  PRIME_TRY(const auto polynomial, parse_proof(proof, k, committed_values(segment.values, k)));
  const std::span own{segment.largest};
  std::vector<std::uint16_t> committed(own.size());
  kernels::evaluate(polynomial.coefficients, polynomial.modulus, own, committed);
  return kernels::compare(committed, own);
}

std::uint16_t magnitude_of(std::uint16_t bits) { return bits & 0x7FFFU; }

/// Whether two honest runs may round one value to these patterns: equal, or neighbours of one sign.
bool is_one_step(std::uint16_t a, std::uint16_t b) { return (a ^ b) < 0x8000U && (a > b ? a - b : b - a) <= 1; }

/// The comparison in the proof's favour where two honest runs may differ by the last bit. A value that is one step away counts as that,
/// though the step may lead to another exponent. And of the values that are one step or less from the smallest that is compared, either
/// run may have taken others into its `count` largest: those count that the proof holds.
/// `own`: as many of the largest as are known, the first `count` of which are compared otherwise.
Comparison lenient_comparison(const Polynomial& polynomial, std::span<const TopValue> own, std::size_t count) {
  const auto edge = magnitude_of(own[count - 1].bits);
  const auto inside = std::ranges::find_if(own, [&](const TopValue& value) { return magnitude_of(value.bits) <= edge + 1; });
  const auto outside = std::ranges::find_if(own, [&](const TopValue& value) { return magnitude_of(value.bits) + 1 < edge; });
  own = own.first(static_cast<std::size_t>(outside - own.begin()));
  std::vector<std::uint16_t> committed(own.size());
  kernels::evaluate(polynomial.coefficients, polynomial.modulus, own, committed);
  std::vector<std::size_t> order(own.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_partition(order.begin() + (inside - own.begin()), order.end(),
                        [&](std::size_t i) { return is_one_step(committed[i], own[i].bits); });
  std::vector<TopValue> compared;
  std::vector<std::uint16_t> said;
  for (const auto i : std::span{order}.first(count)) {
    compared.push_back(own[i]);
    const bool other_exponent = is_one_step(committed[i], own[i].bits) && ((committed[i] ^ own[i].bits) & 0x7F80U) != 0;
    said.push_back(other_exponent ? own[i].bits ^ 1U : committed[i]);
  }
  return kernels::compare(said, compared);
}

Result<void> check_shape(const Activations& activations, const CommitmentOptions& options) {
  if (options.tokens == 0) return fail(ErrorName::Usage, "segments of no tokens");
  if (activations.width == 0 || activations.bits.empty()) return fail(ErrorName::Usage, "there are no activations");
  if (activations.bits.size() % activations.width != 0)
    return fail(ErrorName::Usage,
                std::to_string(activations.bits.size()) + " activations are no tokens of width " + std::to_string(activations.width));
  if (options.prefill > activations.tokens())
    return fail(ErrorName::Usage,
                "a prefill of " + std::to_string(options.prefill) + " tokens in a sequence of " + std::to_string(activations.tokens()));
  return {};
}

std::span<const std::uint16_t> values_of(const Activations& activations, const TokenRange& range) {
  return activations.bits.subspan(range.begin * activations.width, (range.end - range.begin) * activations.width);
}

/// The largest values of each segment.
Result<std::vector<OwnSegment>> largest_by_segment(const Activations& activations, const CommitmentOptions& options, Count how_many) {
  PRIME_CHECK(check_shape(activations, options));
  std::vector<OwnSegment> all;
  for (const auto& range : segments_of(activations.tokens(), options)) {
    const auto values = values_of(activations, range);
    auto points = largest(values, options.k, how_many);
    if (!points) {
      const auto where = "tokens " + std::to_string(range.begin) + " to " + std::to_string(range.end - 1) + ": ";
      return fail(points.error().name, where + points.error().detail);
    }
    all.push_back({*std::move(points), values.size()});
  }
  return all;
}

Result<CommitmentProof> proof_of(std::span<const TopValue> points, std::uint32_t k) {
  const auto modulus = kernels::injective_modulus(points);
  if (modulus == 0)
    return fail(ErrorName::CommitmentImpossible, "no modulus keeps the places of " + std::to_string(points.size()) + " values apart");
  std::vector<std::uint16_t> coefficients(k);
  kernels::interpolate(points, modulus, coefficients);
  CommitmentProof proof;
  proof.reserve(proof_bytes(k));
  append(proof, modulus);
  for (const auto coefficient : coefficients) append(proof, coefficient);
  return proof;
}

std::string count_of(std::size_t count, std::size_t all, const char* what) {
  return std::to_string(count) + " of " + std::to_string(all) + " " + what;
}

std::string difference_text(const Comparison& comparison) {
  auto text = count_of(comparison.exponent_mismatches, comparison.values, "exponents differ");
  if (comparison.sign_mismatches > 0) text += ", " + std::to_string(comparison.sign_mismatches) + " signs";
  if (comparison.exponent_intersections() == 0) return text;
  return text + ", mantissas by " + number(comparison.mantissa_mean) + " (median " + number(comparison.mantissa_median) + ")";
}

/// Proofs in the order of the segments; an empty one stands for none.
class Checker {
 public:
  Checker(std::span<const CommitmentProof> proofs, const CommitmentOptions& options, const CommitmentThresholds& thresholds)
      : proofs_(proofs), options_(options), thresholds_(thresholds) {}

  Result<std::vector<ProofVerdict>> run(const Activations& activations) {
    PRIME_TRY(own_, largest_by_segment(activations, options_, compared_values));
    activations_ = activations;
    ranges_ = segments_of(activations.tokens(), options_);
    verdicts_.resize(std::max(own_.size(), proofs_.size()));
    for (std::size_t i = 0; i < verdicts_.size(); ++i) judge(i);
    for (std::size_t i = 0; i < verdicts_.size(); ++i)
      if (!verdicts_[i].accepted && i < proofs_.size()) explain(i);
    return std::move(verdicts_);
  }

 private:
  void judge(std::size_t i) {
    auto& verdict = verdicts_[i];
    if (i >= proofs_.size())
      verdict.reason = "missing: there are " + std::to_string(proofs_.size()) + " proofs for " + std::to_string(own_.size()) + " segments";
    else if (i >= own_.size()) verdict.reason = "one too many: there are " + std::to_string(own_.size()) + " segments";
    if (!verdict.reason.empty()) return;
    const auto comparison = compare_with(proofs_[i], own_[i], options_.k);
    if (!comparison) {
      verdict.reason = "malformed: " + comparison.error().detail;
      return;
    }
    verdict.compared = true;
    verdict.comparison = *comparison;
    verdict.accepted = thresholds_.accepts(*comparison);
    if (!verdict.accepted) judge_leniently(i);
    if (!verdict.accepted) verdict.reason = "differs: " + difference_text(*comparison);
  }

  /// Only of what would be refused, so that what is accepted at once is what TOPLOC tells. Costs two first looks, of twice as many values.
  void judge_leniently(std::size_t i) {
    const auto values = values_of(activations_, ranges_[i]);
    const std::size_t count = own_[i].largest.size();
    std::vector<TopValue> points(std::min({2 * count, values.size(), kernels::COMMITTED_MAXIMUM}));
    const auto polynomial = parse_proof(proofs_[i], options_.k, committed_values(values.size(), options_.k));
    if (!polynomial || kernels::top_values(values, points)) return;  // neither: both have been looked at
    const auto comparison = lenient_comparison(*polynomial, points, count);
    if (!thresholds_.accepts(comparison)) return;
    verdicts_[i].accepted = true;
    verdicts_[i].comparison = comparison;
  }

  /// Where a refused proof is at home, if it is one of this sequence. Looks at so many neighbours, and of each at a few values before it
  /// looks at all: so a file of nothing but refused proofs costs no more than a few times what a file of good ones costs, whatever k is.
  void explain(std::size_t i) {
    constexpr std::size_t NEIGHBOURS = 8;
    const std::size_t begin = i > NEIGHBOURS ? i - NEIGHBOURS : 0;
    const std::size_t end = std::min(own_.size(), i + NEIGHBOURS + 1);
    for (std::size_t other = begin; other < end; ++other) {
      if (other == i || !may_prove(i, own_[other])) continue;
      const auto comparison = compare_with(proofs_[i], own_[other], options_.k);
      if (!comparison || !thresholds_.accepts(*comparison)) continue;
      const bool repeated = other < proofs_.size() && proofs_[other] == proofs_[i];
      const auto what =
          std::string{repeated ? "repeated: it is the proof of segment " : "out of order: it proves segment "} + std::to_string(other);
      verdicts_[i].reason = i < own_.size() ? what : verdicts_[i].reason + "; " + what;
      return;
    }
  }

  /// Of a proof of other values not one in a hundred has the exponent and sign that one's own has.
  [[nodiscard]] bool may_prove(std::size_t i, const OwnSegment& segment) const {
    constexpr std::size_t LOOKED_AT = 16;
    const auto polynomial = parse_proof(proofs_[i], options_.k, committed_values(segment.values, options_.k));
    if (!polynomial) return false;
    const auto own = std::span{segment.largest}.first(std::min(LOOKED_AT, segment.largest.size()));
    std::vector<std::uint16_t> committed(own.size());
    kernels::evaluate(polynomial->coefficients, polynomial->modulus, own, committed);
    const auto comparison = kernels::compare(committed, own);
    return 2 * (comparison.exponent_mismatches + comparison.sign_mismatches) <= comparison.values;
  }

  std::span<const CommitmentProof> proofs_;
  CommitmentOptions options_;
  CommitmentThresholds thresholds_;
  Activations activations_;
  std::vector<TokenRange> ranges_;
  std::vector<OwnSegment> own_;
  std::vector<ProofVerdict> verdicts_;
};

}  // namespace

std::vector<std::uint16_t> to_bf16(std::span<const float> values) {
  std::vector<std::uint16_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(), kernels::f32_to_bf16);
  return bits;
}

std::vector<TokenRange> segments_of(std::uint64_t tokens, const CommitmentOptions& options) {
  std::vector<TokenRange> ranges;
  std::uint64_t begin = std::min(options.prefill, tokens);
  if (begin > 0) ranges.push_back({0, begin});
  while (options.tokens > 0 && begin < tokens) {
    const std::uint64_t end = begin + std::min<std::uint64_t>(options.tokens, tokens - begin);
    ranges.push_back({begin, end});
    begin = end;
  }
  return ranges;
}

std::size_t compared_values(std::size_t values, std::uint32_t k) {
  constexpr std::size_t PART = 8, LEAST = 8;
  return std::min({std::size_t{k}, values, std::max(LEAST, values / PART)});
}

Result<CommitmentProof> build_proof(std::span<const std::uint16_t> values, std::uint32_t k) {
  PRIME_TRY(const auto points, largest(values, k, committed_values));
  return proof_of(points, k);
}

Result<std::vector<CommitmentProof>> build_proofs(const Activations& activations, const CommitmentOptions& options) {
  PRIME_TRY(const auto segments, largest_by_segment(activations, options, committed_values));
  std::vector<CommitmentProof> proofs;
  for (const auto& segment : segments) {
    PRIME_TRY(auto proof, proof_of(segment.largest, options.k));
    proofs.push_back(std::move(proof));
  }
  return proofs;
}

Result<Comparison> compare_proof(std::span<const std::uint8_t> proof, std::span<const std::uint16_t> values, std::uint32_t k) {
  PRIME_TRY(auto points, largest(values, k, compared_values));
  return compare_with(proof, {std::move(points), values.size()}, k);
}

Result<std::vector<ProofVerdict>> check_proofs(const Activations& activations, std::span<const CommitmentProof> proofs,
                                               const CommitmentOptions& options, const CommitmentThresholds& thresholds) {
  return Checker(proofs, options, thresholds).run(activations);
}

}  // namespace prime
