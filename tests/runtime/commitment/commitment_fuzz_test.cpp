// Owns the promise that no bytes pass for a proof, end the process, or take more time than a proof does.
#include <cstdlib>

#include "support.hpp"

using namespace prime;
using namespace prime::test;

namespace {

std::uint64_t rounds() {
  const char* const asked = std::getenv("PRIME_FUZZ_PROOFS");
  return asked != nullptr ? std::strtoull(asked, nullptr, 10) : 1'000'000;
}

/// Random bytes, another length, or an honest proof with one number at an end of its range.
CommitmentProof mangled(const CommitmentProof& honest, std::mt19937_64& random) {
  static const Bits ENDS{0, 1, 2, 0x7F7F, 0x7F80, 0x7FFF, 0x8000, 0xFF80, 65496, 65497, 65498, 0xFFFF};
  switch (random() % 4) {
    case 0: {
      CommitmentProof bytes(random() % (2 * honest.size() + 1));
      for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
      return bytes;
    }
    case 1: {
      auto bytes = honest;
      bytes.resize(random() % honest.size());
      return bytes;
    }
    case 2: {
      auto bytes = honest;
      bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(1U << random() % 8);
      return bytes;
    }
    default: return with_number(honest, random() % (honest.size() / 2), ENDS[random() % ENDS.size()]);
  }
}

/// Another polynomial, and not the honest one moved by a constant, which is near where the constant is small. (A modulus above all indices
/// is as good as any other.)
bool is_another(const CommitmentProof& proof, const CommitmentProof& honest) {
  constexpr std::ptrdiff_t BEFORE = 4;  // the modulus and the constant
  return proof.size() == honest.size() && !std::equal(proof.begin() + BEFORE, proof.end(), honest.begin() + BEFORE);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(commitment_fuzz)

BOOST_AUTO_TEST_CASE(mangled_proofs_are_refused_by_name_or_differ) {
  std::mt19937_64 random(1);
  std::uint64_t malformed = 0, differing = 0, accepted = 0;
  const std::uint64_t all = rounds();
  for (std::uint64_t i = 0; i < all; ++i) {
    // Mostly small ones, so that a million are quick.
    const std::uint32_t k = i % 1000 == 0 ? 128 : 1 + static_cast<std::uint32_t>(random() % 8);
    const auto bits = drawn_bits(i % 1000 == 0 ? 2048 : 24, random());
    const auto honest = build_proof(bits, k);
    BOOST_REQUIRE(honest);
    const auto proof = mangled(*honest, random);
    const auto comparison = compare_proof(proof, bits, k);
    if (!comparison) {
      BOOST_REQUIRE((comparison.error().name == ErrorName::ProofMalformed));
      BOOST_REQUIRE(!comparison.error().detail.empty());
      ++malformed;
      continue;
    }
    BOOST_REQUIRE(comparison->values == k);
    BOOST_REQUIRE(comparison->exponent_mismatches + comparison->sign_mismatches <= k);
    ++differing;
    if (exact_f32().accepts(*comparison) && is_another(proof, *honest)) ++accepted;
  }
  // Every way was taken. Of two or three values some come through; of 128 none does.
  BOOST_TEST(malformed > all / 4);
  BOOST_TEST(differing > all / 8);
  BOOST_TEST(accepted < all / 1000);
}

BOOST_AUTO_TEST_CASE(no_other_polynomial_of_128_values_is_accepted) {
  std::mt19937_64 random(2);
  const auto bits = drawn_bits(2048, 3);
  const auto honest = proof_of(bits, 128);
  for (int i = 0; i < 5'000; ++i) {
    const auto proof = mangled(honest, random);
    const auto comparison = compare_proof(proof, bits, 128);
    if (comparison && is_another(proof, honest)) BOOST_REQUIRE(!toploc_bf16().accepts(*comparison));
  }
}

BOOST_AUTO_TEST_CASE(mangled_texts_are_no_base64_or_come_back) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100'000; ++i) {
    std::string text(random() % 24, 'A');
    for (auto& c : text) c = random() % 8 == 0 ? static_cast<char>(random()) : "ABCabc019+/="[random() % 12];
    const auto bytes = from_base64(text);
    if (bytes) BOOST_REQUIRE(to_base64(*bytes) == text);
    else BOOST_REQUIRE((bytes.error().name == ErrorName::ProofMalformed));
  }
}

BOOST_AUTO_TEST_SUITE_END()
