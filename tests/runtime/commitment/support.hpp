// Owns what the tests of commitments share: activations as the known answers have them, and proofs with one thing changed.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <random>
#include <vector>

#include "prime/commitment.hpp"

namespace prime::test {

using Bits = std::vector<std::uint16_t>;

/// Finite, with exponents as activations have them.
inline Bits drawn_bits(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bits bits(count);
  for (auto& value : bits) value = static_cast<std::uint16_t>((random() % 2) << 15 | (118 + random() % 12) << 7 | random() % 128);
  return bits;
}

inline CommitmentProof proof_of(const Bits& values, std::uint32_t k) {
  const auto proof = build_proof(values, k);
  BOOST_REQUIRE(proof);
  return *proof;
}

inline kernels::Comparison comparison_of(const CommitmentProof& proof, const Bits& values, std::uint32_t k) {
  const auto comparison = compare_proof(proof, values, k);
  BOOST_REQUIRE(comparison);
  return *comparison;
}

/// The numbers of a proof: 0 is the modulus, 1 … k are the coefficients.
inline CommitmentProof with_number(CommitmentProof proof, std::size_t place, std::uint16_t value) {
  proof[2 * place] = static_cast<std::uint8_t>(value >> 8);
  proof[2 * place + 1] = static_cast<std::uint8_t>(value);
  return proof;
}

template <class T>
std::string refusal(const Result<T>& result, ErrorName name) {
  BOOST_REQUIRE(!result);
  BOOST_TEST((result.error().name == name), to_string(result.error()));
  return result.error().detail;
}

}  // namespace prime::test
