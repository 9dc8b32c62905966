// Owns the tests of what the public header promises; the suite `defects` is the table of faults of other implementations.
#include <cmath>
#include <limits>
#include <rapidcheck.h>

#include "kernels/small_floats.hpp"
#include "support.hpp"

using namespace prime;
using namespace prime::test;

namespace {

Bits scaled(const Bits& bits, float factor) {
  std::vector<float> values;
  for (const auto value : bits) values.push_back(kernels::bf16_to_f32(value) * factor);
  return to_bf16(values);
}

std::vector<CommitmentProof> proofs_of(const Bits& bits, std::size_t width, const CommitmentOptions& options) {
  const auto proofs = build_proofs({bits, width}, options);
  BOOST_REQUIRE(proofs);
  return *proofs;
}

std::vector<ProofVerdict> verdicts_of(const Bits& bits, std::size_t width, const std::vector<CommitmentProof>& proofs,
                                      const CommitmentOptions& options, const CommitmentThresholds& thresholds = exact_f32()) {
  const auto verdicts = check_proofs({bits, width}, proofs, options, thresholds);
  BOOST_REQUIRE(verdicts);
  return *verdicts;
}

constexpr std::size_t WIDTH = 64;
const CommitmentOptions OPTIONS{16, 4, 0};

}  // namespace

BOOST_AUTO_TEST_SUITE(commitments)

BOOST_AUTO_TEST_CASE(segments_are_the_prefill_and_then_so_many_tokens_each) {
  using Ranges = std::vector<TokenRange>;
  BOOST_TEST((segments_of(17, {1, 4, 0}) == Ranges{{0, 4}, {4, 8}, {8, 12}, {12, 16}, {16, 17}}));
  BOOST_TEST((segments_of(8, {1, 2, 1}) == Ranges{{0, 1}, {1, 3}, {3, 5}, {5, 7}, {7, 8}}));
  BOOST_TEST((segments_of(5, {1, 32, 5}) == Ranges{{0, 5}}));
  BOOST_TEST((segments_of(5, {1, UINT32_MAX, 0}) == Ranges{{0, 5}}));
  BOOST_TEST(segments_of(0, {}).empty());
  BOOST_TEST(segments_of(600 + 512, {128, 32, 600}).size() == 17U);
}

BOOST_AUTO_TEST_CASE(what_was_committed_is_accepted_at_zero_difference) {
  BOOST_TEST(rc::check([] {
    const auto width = *rc::gen::inRange<std::size_t>(1, 200);
    const auto tokens = *rc::gen::inRange<std::size_t>(1, 70);
    const CommitmentOptions options{*rc::gen::inRange<std::uint32_t>(1, 140), *rc::gen::inRange<std::uint32_t>(1, 40),
                                    *rc::gen::inRange<std::uint64_t>(0, tokens + 1)};
    const auto bits = drawn_bits(width * tokens, *rc::gen::arbitrary<std::uint64_t>());
    const auto proofs = build_proofs({bits, width}, options);
    RC_ASSERT(proofs.has_value());
    RC_ASSERT(proofs->size() == segments_of(tokens, options).size());
    const auto verdicts = check_proofs({bits, width}, *proofs, options, exact_f32());
    for (const auto& verdict : *verdicts) {
      RC_ASSERT(verdict.accepted);
      RC_ASSERT(verdict.comparison.exponent_mismatches == 0U && verdict.comparison.mantissa_mean == 0);
    }
    for (const auto& proof : *proofs) RC_ASSERT(proof.size() == proof_bytes(options.k));
  }));
}

BOOST_AUTO_TEST_CASE(a_segment_with_fewer_values_than_k_commits_to_all_of_them) {
  const Bits bits = drawn_bits(10, 3);
  const auto proof = proof_of(bits, 128);
  BOOST_TEST(proof.size() == 258U);
  BOOST_TEST(comparison_of(proof, bits, 128).values == 8U, "and what is near zero is not compared");
  const auto text = refusal(compare_proof(with_number(proof, 11, 1), bits, 128), ErrorName::ProofMalformed);
  BOOST_TEST(text.find("coefficient 10 of a segment of 10 values is not 0") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_committed_to_is_refused_by_name) {
  refusal(build_proof({}, 8), ErrorName::Usage);
  refusal(build_proof(Bits(8), 0), ErrorName::Usage);
  refusal(build_proof(Bits(8), 8193), ErrorName::Usage);
  refusal(build_proofs({{}, 4}, OPTIONS), ErrorName::Usage);
  const Bits bits = drawn_bits(6 * WIDTH, 1);
  refusal(build_proofs({bits, 0}, OPTIONS), ErrorName::Usage);
  refusal(build_proofs({bits, 5}, OPTIONS), ErrorName::Usage);
  refusal(build_proofs({bits, WIDTH}, {16, 0, 0}), ErrorName::Usage);
  refusal(build_proofs({bits, WIDTH}, {16, 4, 7}), ErrorName::Usage);
  auto bad = bits;
  bad[5 * WIDTH + 3] = 0x7FC0;
  const auto text = refusal(build_proofs({bad, WIDTH}, OPTIONS), ErrorName::NonFiniteValue);
  BOOST_TEST(text == "tokens 4 to 5: activation 67 of a segment of 128");
  refusal(check_proofs({bad, WIDTH}, {}, OPTIONS, exact_f32()), ErrorName::NonFiniteValue);
}

BOOST_AUTO_TEST_CASE(activations_made_to_collide_are_refused_by_name) {
  // The largest values lie so that every number up to the prime divides a distance between two of them.
  Bits bits(70'000, 0);
  for (std::size_t i = 0; i < 260; ++i) bits[i] = bits[260 * (i + 1)] = 0x4000;
  refusal(build_proof(bits, 519), ErrorName::CommitmentImpossible);
}

BOOST_AUTO_TEST_CASE(a_missing_repeated_or_exchanged_proof_is_named) {
  const auto bits = drawn_bits(14 * WIDTH, 5);
  const auto proofs = proofs_of(bits, WIDTH, OPTIONS);
  BOOST_REQUIRE(proofs.size() == 4U);

  auto fewer = proofs;
  fewer.pop_back();
  auto verdicts = verdicts_of(bits, WIDTH, fewer, OPTIONS);
  BOOST_REQUIRE(verdicts.size() == 4U);
  BOOST_TEST(verdicts[2].accepted);
  BOOST_TEST(!verdicts[3].accepted);
  BOOST_TEST(verdicts[3].reason == "missing: there are 3 proofs for 4 segments");

  auto more = proofs;
  more.push_back(proofs[1]);
  verdicts = verdicts_of(bits, WIDTH, more, OPTIONS);
  BOOST_REQUIRE(verdicts.size() == 5U);
  BOOST_TEST(verdicts[4].reason == "one too many: there are 4 segments; repeated: it is the proof of segment 1");

  auto exchanged = proofs;
  std::swap(exchanged[1], exchanged[2]);
  verdicts = verdicts_of(bits, WIDTH, exchanged, OPTIONS);
  BOOST_TEST(verdicts[0].accepted);
  BOOST_TEST(verdicts[1].reason == "out of order: it proves segment 2");
  BOOST_TEST(verdicts[2].reason == "out of order: it proves segment 1");

  auto repeated = proofs;
  repeated[2] = proofs[1];
  verdicts = verdicts_of(bits, WIDTH, repeated, OPTIONS);
  BOOST_TEST(verdicts[2].reason == "repeated: it is the proof of segment 1");

  auto cut = proofs;
  cut[3].resize(20);
  verdicts = verdicts_of(bits, WIDTH, cut, OPTIONS);
  BOOST_TEST(verdicts[3].reason == "malformed: 20 bytes, where k = 16 takes 34");

  auto foreign = proofs;
  foreign[0] = proof_of(drawn_bits(4 * WIDTH, 99), 16);
  verdicts = verdicts_of(bits, WIDTH, foreign, OPTIONS, toploc_bf16());
  BOOST_TEST(verdicts[0].reason.starts_with("differs: "), verdicts[0].reason);
}

/// 127 values far above all others, of which two are near each other: between those the 128th is chosen.
Bits with_an_edge(std::uint16_t one, std::uint16_t other) {
  Bits bits(1024, 0x3C00);
  for (std::size_t i = 0; i < 127; ++i) bits[7 * i] = static_cast<std::uint16_t>((i % 2) << 15 | (0x4180U + i));
  bits[901] = one;
  bits[902] = other;
  return bits;
}

ProofVerdict verdict_on(const Bits& prover, const Bits& verifier, const CommitmentThresholds& thresholds = exact_f32()) {
  const std::vector<CommitmentProof> proofs{proof_of(prover, 128)};
  const auto verdicts = check_proofs({verifier, verifier.size()}, proofs, {}, thresholds);
  BOOST_REQUIRE(verdicts);
  BOOST_REQUIRE(verdicts->size() == 1U);
  return verdicts->front();
}

BOOST_AUTO_TEST_CASE(of_values_one_step_apart_at_the_edge_either_may_be_committed_to) {
  const auto own = with_an_edge(0x4000, 0x4000);  // the lower index is taken
  for (const unsigned theirs : {0x4001U, 0x4000U, 0x3FFFU}) {
    const auto prover = with_an_edge(static_cast<std::uint16_t>(theirs - 1), static_cast<std::uint16_t>(theirs));  // and here the other one
    BOOST_TEST(comparison_of(proof_of(prover, 128), own, 128).exponent_mismatches == 1U, "as TOPLOC counts");
    const auto verdict = verdict_on(prover, own);
    BOOST_TEST(verdict.accepted, verdict.reason);
    BOOST_TEST(verdict.comparison.exponent_mismatches == 0U);
    BOOST_TEST(verdict.comparison.values == 128U);
    BOOST_TEST(verdict.comparison.mantissa_mean == (theirs == 0x4000 ? 0 : 1.0 / 128));
  }
  BOOST_TEST(!verdict_on(with_an_edge(0x4000, 0x4002), own).accepted, "two steps");
  BOOST_TEST(!verdict_on(with_an_edge(0x3C00, 0xC000), own).accepted, "another sign");
  const auto refused = verdict_on(with_an_edge(0x3C00, 0x4000), with_an_edge(0x4003, 0x4000));
  BOOST_TEST(!refused.accepted, "what lies three steps above the other is no edge");
  BOOST_TEST(refused.comparison.exponent_mismatches == 1U, "what is refused has TOPLOC's numbers");
}

BOOST_AUTO_TEST_CASE(a_step_to_another_exponent_is_a_step) {
  auto own = with_an_edge(0x4000, 0x3C00), theirs = own;
  for (const auto& [mine, other] : {std::pair{0x4200, 0x41FF}, std::pair{0xC1FF, 0xC200}}) {
    own[0] = static_cast<std::uint16_t>(mine);
    theirs[0] = static_cast<std::uint16_t>(other);
    const auto verdict = verdict_on(theirs, own);
    BOOST_TEST(verdict.accepted, verdict.reason);
    BOOST_TEST(verdict.comparison.exponent_mismatches == 0U);
    BOOST_TEST(verdict.comparison.mantissa_mean == 1.0 / 128);
  }
  own[0] = 0x4200;
  theirs[0] = 0x41FE;
  BOOST_TEST(!verdict_on(theirs, own).accepted, "two steps");
  theirs[0] = 0xC1FF;
  BOOST_TEST(!verdict_on(theirs, own).accepted, "another sign");
}

BOOST_AUTO_TEST_CASE(the_edge_may_be_wide_or_missing) {
  const Bits equal(1024, 0x3F80);
  BOOST_TEST(verdict_on(equal, equal).accepted);
  auto other = equal;
  for (std::size_t i = 0; i < 128; ++i) other[i + 200] = 0x3F81;  // what the prover chooses lies behind all that is looked at
  BOOST_TEST(!verdict_on(other, equal).accepted);
  for (std::size_t i = 0; i < 128; ++i) std::swap(other[i + 100], other[i + 200]);  // and here it does not, but all of it is a step away
  BOOST_TEST(!verdict_on(other, equal).accepted);
  const Bits few(100, 0x3F80);
  BOOST_TEST(verdict_on(few, few).accepted);
  BOOST_TEST(!verdict_on(Bits(100, 0x3F90), few).accepted);
}

/// A segment of one token: eight large values, and all others near zero, where the last bits of an honest f32 are many of bf16.
Bits with_small_values(unsigned step) {
  Bits bits(WIDTH);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i % 8 == 0 ? 0x4010 + i : 0x3410 + i + step * (i % 7));
  return bits;
}

BOOST_AUTO_TEST_CASE(of_a_short_segment_only_the_large_values_are_compared) {
  const auto own = with_small_values(0);
  const auto near_zero = verdict_on(with_small_values(5), own);
  BOOST_TEST(near_zero.accepted, near_zero.reason);
  BOOST_TEST(near_zero.comparison.values == 8U);
  auto other = own;
  other[8] += 3;
  BOOST_TEST(!verdict_on(other, own).accepted, "three steps of one large value");
  other = own;
  other[8] ^= 0x80;
  BOOST_TEST(!verdict_on(other, own).accepted, "an exponent");
  other = own;
  other[8] ^= 0x8000;
  BOOST_TEST(!verdict_on(other, own).accepted, "a sign");
}

BOOST_AUTO_TEST_CASE(as_many_last_bits_may_differ_as_of_128_values) {
  // Down to the shortest segment that there is: one value differs in one step, or two.
  for (const std::size_t values : {1U, 2U, 3U, 8U, 64U, 500U}) {
    Bits own(values);  // no two alike: at an edge of equal ones either may be compared
    for (std::size_t i = 0; i < values; ++i) own[i] = static_cast<std::uint16_t>(0x4400 - 4 * i);
    for (const unsigned steps : {1U, 2U, 3U}) {
      auto other = own;
      other[0] = static_cast<std::uint16_t>(other[0] + steps);
      const auto verdict = verdict_on(other, own);
      BOOST_TEST(verdict.accepted == (steps <= 2), values << " values, " << steps << " steps: " << verdict.reason);
      BOOST_TEST(!verdict_on(other, own, {0, 0, 0}).accepted, "who asks for no difference gets none");
    }
  }
}

BOOST_AUTO_TEST_CASE(an_eighth_of_a_segment_is_compared_at_most) {
  BOOST_TEST(compared_values(32 * 4096, 128) == 128U);
  BOOST_TEST(compared_values(1024, 128) == 128U);
  BOOST_TEST(compared_values(1023, 128) == 127U);
  BOOST_TEST(compared_values(2048, 4096) == 256U);
  BOOST_TEST(compared_values(64, 128) == 8U);
  BOOST_TEST(compared_values(9, 128) == 8U);
  BOOST_TEST(compared_values(3, 128) == 3U);
  BOOST_TEST(compared_values(4096, 2) == 2U);
}

BOOST_AUTO_TEST_CASE(calibration_does_not_count_what_the_floor_has_room_for) {
  const auto one = with_an_edge(0x4000, 0x4000), other = with_an_edge(0x4000, 0x4001);
  const std::vector<Activations> honest{{one, one.size()}}, again{{other, other.size()}};
  const auto thresholds = calibrate(honest, again, {});
  BOOST_REQUIRE(thresholds);
  BOOST_TEST((*thresholds == exact_f32()), to_string(*thresholds));
}

BOOST_AUTO_TEST_CASE(the_presets_are_the_published_thresholds) {
  const kernels::Comparison at_the_limit{128, 38, 0, 10, 8};
  BOOST_TEST(toploc_bf16().accepts(at_the_limit));
  for (const auto& beyond : {kernels::Comparison{128, 39, 0, 10, 8}, kernels::Comparison{128, 38, 1, 10, 8},
                             kernels::Comparison{128, 38, 0, 10.01, 8}, kernels::Comparison{128, 38, 0, 10, 8.5}})
    BOOST_TEST(!toploc_bf16().accepts(beyond));
  BOOST_TEST(toploc_bf16().accepts({64, 19, 0, 0, 0}));
  BOOST_TEST(!toploc_bf16().accepts({64, 20, 0, 0, 0}));
  BOOST_TEST(exact_f32().accepts({128, 0, 0, 0.0199, 0}));
  BOOST_TEST(!exact_f32().accepts({128, 0, 0, 0.02, 0}));
  BOOST_TEST(!exact_f32().accepts({128, 1, 0, 0, 0}));
  BOOST_TEST(!exact_f32().accepts({128, 0, 1, 0, 0}));
  BOOST_TEST(!toploc_bf16().accepts({0, 0, 0, 0, 0}), "nothing compared is nothing proved");
}

BOOST_AUTO_TEST_CASE(thresholds_are_written_and_read) {
  for (const auto* text : {"toploc-bf16", "exact-f32", "6/0.5/0", "0/0/0", "1.5/1e+300/8"})
    BOOST_TEST(to_string(parse_thresholds(text).value()) == text);
  BOOST_TEST((parse_thresholds("38/10/8").value() == toploc_bf16()));
  for (const auto* text :
       {"", "38", "38/10", "38/10/8/", "38/10/8/1", "-1/0/0", "nan/0/0", "1/inf/0", "a/b/c", "38 /10/8", "exact", "/0/0"})
    BOOST_TEST(refusal(parse_thresholds(text), ErrorName::Usage).find("toploc-bf16, exact-f32") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(calibration_gives_both_honest_runs_room) {
  const auto honest = drawn_bits(32 * WIDTH, 7);
  auto again = honest;
  for (std::size_t i = 0; i < again.size(); i += 3) again[i] ^= 1;  // the last bit of every third value
  const std::vector<Activations> a{{honest, WIDTH}}, b{{again, WIDTH}};
  const auto thresholds = calibrate(a, b, OPTIONS);
  BOOST_REQUIRE(thresholds);
  BOOST_TEST(thresholds->mantissa_mean > 0.3);
  BOOST_TEST(thresholds->mantissa_mean < 10);
  for (const auto& verdict : verdicts_of(again, WIDTH, proofs_of(honest, WIDTH, OPTIONS), OPTIONS, *thresholds))
    BOOST_TEST(verdict.accepted);
  for (const auto& verdict : verdicts_of(honest, WIDTH, proofs_of(again, WIDTH, OPTIONS), OPTIONS, *thresholds))
    BOOST_TEST(verdict.accepted);
  BOOST_TEST((calibrate(a, a, OPTIONS).value() == exact_f32()), "runs that do not differ need no more");
  const auto other = drawn_bits(32 * WIDTH, 8);
  const std::vector<Activations> c{{other, WIDTH}}, shorter{{std::span{honest}.first(WIDTH), WIDTH}};
  BOOST_TEST(refusal(calibrate(a, c, OPTIONS), ErrorName::Usage).starts_with("these are not two runs of one model"));
  refusal(calibrate(a, shorter, OPTIONS), ErrorName::Usage);
  refusal(calibrate({}, {}, OPTIONS), ErrorName::Usage);
}

BOOST_AUTO_TEST_CASE(values_become_the_nearest_bf16) {
  const std::vector<float> values{1.0F, 1.00390625F, 1.01171875F, -2.5F, std::numeric_limits<float>::max(), std::nanf("")};
  const auto bits = to_bf16(values);
  BOOST_TEST((bits == Bits{0x3F80, 0x3F80, 0x3F82, 0xC020, 0x7F80, 0x7FC0}));
  refusal(build_proof(bits, 2), ErrorName::NonFiniteValue);
}

BOOST_AUTO_TEST_CASE(base64_is_read_as_it_is_written_and_no_other_way) {
  BOOST_TEST(rc::check([](const std::vector<std::uint8_t>& bytes) { RC_ASSERT(from_base64(to_base64(bytes)).value() == bytes); }));
  BOOST_TEST(to_base64(std::vector<std::uint8_t>{0xFF, 0xD9, 0xC0, 0xA0}) == "/9nAoA==");
  for (const auto* text : {"A", "AA=A", "====", "A===", "AAA ", "AA\n=", "AB==", "AAB=", "-9nAoA==", "AA==AAAA"})
    refusal(from_base64(text), ErrorName::ProofMalformed);
}

BOOST_AUTO_TEST_CASE(scaled_activations_are_told_as_the_paper_does) {
  const auto bits = drawn_bits(32 * WIDTH, 11);
  const auto proof = proof_of(bits, 128);
  const auto slightly = comparison_of(proof, scaled(bits, 1.01F), 128);
  BOOST_TEST(slightly.mantissa_mean > 0);
  BOOST_TEST(slightly.mantissa_mean <= 2.5);
  BOOST_TEST(comparison_of(proof, scaled(bits, 1.10F), 128).mantissa_mean > 9);
  const auto four_times = comparison_of(proof, scaled(bits, 4), 128);
  BOOST_TEST(four_times.exponent_mismatches == 128U);
  BOOST_TEST(four_times.mantissa_mean > 0x1p32);
  BOOST_TEST(four_times.mantissa_median > 0x1p32);
}

BOOST_AUTO_TEST_SUITE_END()

/// Each case is a row of the table of faults that other implementations have.
BOOST_AUTO_TEST_SUITE(defects)

BOOST_AUTO_TEST_CASE(a_null_proof_ends_no_process) {
  BOOST_TEST(refusal(compare_proof(CommitmentProof(34, 0), drawn_bits(64, 1), 16), ErrorName::ProofMalformed).find("modulus 0") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_proof_without_coefficients_ends_no_process) {
  for (const std::size_t size : {0U, 1U, 2U, 3U})
    refusal(compare_proof(CommitmentProof(size, 0xFF), drawn_bits(64, 1), 16), ErrorName::ProofMalformed);
  refusal(compare_proof(CommitmentProof{0xFF, 0xD9}, drawn_bits(64, 1), 0), ErrorName::Usage);
}

BOOST_AUTO_TEST_CASE(more_proofs_than_segments_are_answered_each) {
  const auto bits = drawn_bits(4 * WIDTH, 1);
  const std::vector<CommitmentProof> proofs(50, proof_of(bits, 16));
  const auto verdicts = verdicts_of(bits, WIDTH, proofs, OPTIONS);
  BOOST_TEST(verdicts.size() == 50U);
  BOOST_TEST(std::count_if(verdicts.begin(), verdicts.end(), [](const auto& verdict) { return verdict.accepted; }) == 1);
}

BOOST_AUTO_TEST_CASE(fewer_proofs_than_segments_never_give_fewer_verdicts) {
  const auto bits = drawn_bits(40 * WIDTH, 1);
  for (const auto& verdict : verdicts_of(bits, WIDTH, {}, OPTIONS)) BOOST_TEST(verdict.reason.starts_with("missing"));
  BOOST_TEST(verdicts_of(bits, WIDTH, {}, OPTIONS).size() == 10U);
}

BOOST_AUTO_TEST_CASE(an_index_is_reduced_by_a_smaller_modulus_too) {
  Bits bits(131'072, 0);
  bits[5] = 0x4040;
  bits[65'502] = 0xC060;
  bits[131'071] = 0x4080;
  const auto proof = proof_of(bits, 3);
  BOOST_TEST((proof[0] << 8 | proof[1]) == 65'496);
  BOOST_TEST((comparison_of(proof, bits, 3) == kernels::Comparison{3, 0, 0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(negated_activations_do_not_pass) {
  const auto bits = drawn_bits(32 * WIDTH, 2);
  auto negated = bits;
  for (auto& value : negated) value ^= 0x8000;
  const auto comparison = comparison_of(proof_of(bits, 128), negated, 128);
  BOOST_TEST((comparison == kernels::Comparison{128, 0, 128, 0, 0}));
  BOOST_TEST(!toploc_bf16().accepts(comparison));
}

BOOST_AUTO_TEST_CASE(a_modulus_that_tells_no_values_apart_is_refused) {
  // Of one remainder, every index is the same point: a constant would be compared with all values.
  const auto bits = drawn_bits(32 * WIDTH, 2);
  const auto proof = proof_of(bits, 128);
  for (const std::uint16_t modulus : Bits{1, 2, 127})
    BOOST_TEST(refusal(compare_proof(with_number(proof, 0, modulus), bits, 128), ErrorName::ProofMalformed).find("cannot tell") !=
               std::string::npos);
  for (const std::uint16_t modulus : Bits{65498, 65535})
    BOOST_TEST(refusal(compare_proof(with_number(proof, 0, modulus), bits, 128), ErrorName::ProofMalformed).find("above 65497") !=
               std::string::npos);
  for (const std::uint16_t coefficient : Bits{65497, 65535})
    refusal(compare_proof(with_number(proof, 7, coefficient), bits, 128), ErrorName::ProofMalformed);
}

BOOST_AUTO_TEST_CASE(a_constant_that_guesses_the_exponent_does_not_pass) {
  // The cheapest forgery without the model: the likeliest exponent, and the middle of the mantissas.
  const auto bits = drawn_bits(32 * 4096, 2);
  const auto honest = proof_of(bits, 128);
  CommitmentProof forged(honest.size(), 0);
  forged = with_number(with_number(forged, 0, 65497), 1, 0x40F8);
  BOOST_TEST(!toploc_bf16().accepts(comparison_of(forged, bits, 128)));
}

BOOST_AUTO_TEST_SUITE_END()
