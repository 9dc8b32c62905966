// Owns the known answers: vectors.json, which the published package and an independent program made. Its keys say how.
#include <fstream>
#include <nlohmann/json.hpp>

#include "support.hpp"
#include "tests/support/repository.hpp"

using namespace prime;
using namespace prime::test;
using nlohmann::json;

namespace {

const json& vectors() {
  static const json all = [] {
    std::ifstream file(repository() / "tests/runtime/commitment/vectors.json");
    return json::parse(file);
  }();
  return all["vectors"];
}

const json& vector_named(const std::string& name) {
  for (const auto& entry : vectors())
    if (entry["name"] == name) return entry;
  BOOST_FAIL("no vector " << name);
  return vectors();
}

std::string hexadecimal(const CommitmentProof& proof) {
  std::string text;
  for (const auto byte : proof) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

Bits bits_of(const json& vector) {
  if (vector.contains("bits")) return vector["bits"].get<Bits>();
  Bits bits(vector["length"].get<std::size_t>(), 0);
  for (const auto& entry : vector["sparse_bits"]) bits[entry[0].get<std::size_t>()] = entry[1].get<std::uint16_t>();
  return bits;
}

Bits flattened(const json& tensors) {
  Bits bits;
  for (const auto& tensor : tensors)
    for (const auto& value : tensor) bits.push_back(value.get<std::uint16_t>());
  return bits;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(known_answers)

BOOST_AUTO_TEST_CASE(every_vector_with_activations_has_its_proof) {
  int seen = 0;
  for (const auto& vector : vectors()) {
    if (!vector.contains("topk_indices_canonical")) continue;
    ++seen;
    const auto proof = proof_of(bits_of(vector), vector["topk"].get<std::uint32_t>());
    BOOST_TEST(hexadecimal(proof) == vector["proof_hex"].get<std::string>(), vector["name"]);
    BOOST_TEST(to_base64(proof) == vector["proof_base64"].get<std::string>(), vector["name"]);
  }
  BOOST_TEST(seen == 6);
}

BOOST_AUTO_TEST_CASE(a_proof_of_128_values_has_258_bytes) {
  const auto& vector = vector_named("k128_32x64");
  BOOST_TEST(proof_of(bits_of(vector), 128).size() == 258U);
  BOOST_TEST(proof_bytes(128) == 258U);
}

BOOST_AUTO_TEST_CASE(prompt_and_decoded_tokens_are_cut_as_published) {
  const auto& vector = vector_named("readme_prefill_plus_decode");
  const auto bits = flattened(vector["tensors_bits"]);
  const auto proofs = build_proofs({bits, 16}, {4, 3, 5});
  BOOST_REQUIRE(proofs);
  BOOST_REQUIRE(proofs->size() == vector["proofs_hex"].size());
  for (std::size_t i = 0; i < proofs->size(); ++i) BOOST_TEST(hexadecimal((*proofs)[i]) == vector["proofs_hex"][i].get<std::string>());
}

BOOST_AUTO_TEST_CASE(comparisons_are_the_published_ones) {
  for (const auto& vector : vectors()) {
    if (vector.value("kind", "") != "verify") continue;
    const auto bits = flattened(vector["tensors_bits"]);
    std::vector<CommitmentProof> proofs;
    for (const auto& text : vector_named("readme_prefill_plus_decode")["proofs_base64"])
      proofs.push_back(from_base64(text.get<std::string>()).value());
    const auto verdicts = check_proofs({bits, 16}, proofs, {4, 3, 5}, toploc_bf16());
    BOOST_REQUIRE(verdicts);
    BOOST_REQUIRE(verdicts->size() == vector["expected"].size());
    for (std::size_t i = 0; i < verdicts->size(); ++i) {
      const auto& expected = vector["expected"][i];
      BOOST_TEST((*verdicts)[i].comparison.exponent_mismatches == expected["exp_mismatches"].get<std::size_t>());
      BOOST_TEST((*verdicts)[i].comparison.mantissa_mean == expected["mant_err_mean"].get<double>());
      BOOST_TEST((*verdicts)[i].comparison.mantissa_median == expected["mant_err_median"].get<double>());
    }
  }
}

BOOST_AUTO_TEST_CASE(another_choice_among_equal_values_verifies_too) {
  // What upstream may commit to: the last of the four values of magnitude 2.0 instead of the first.
  const Bits swapped{16256, 0, 49152, 16384, 16128, 49152};
  const Bits original{16256, 16384, 49152, 16384, 16128, 49152};
  const auto comparison = comparison_of(proof_of(swapped, 3), original, 3);
  BOOST_TEST(comparison.exponent_mismatches <= 1U);
}

BOOST_AUTO_TEST_CASE(the_null_proof_is_refused) {
  const auto& vector = vector_named("null_proof_k5");
  const CommitmentProof null(proof_bytes(5), 0);
  BOOST_TEST(hexadecimal(null) == vector["proof_hex"].get<std::string>());
  BOOST_TEST(refusal(compare_proof(null, drawn_bits(64, 1), 5), ErrorName::ProofMalformed).find("modulus 0") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
