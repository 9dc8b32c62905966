// Owns the choice of a token, and whether a choice is the one that was promised. Free of libtorch.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/commitment/proof_file.hpp"

namespace prime::trainer {

/// Which token of which sequence is chosen: what is drawn depends on that and on the seed, and not on what runs beside it.
struct TokenPlace {
  std::uint64_t sequence = 0;
  std::uint64_t position = 0;  ///< of the new token, the prompt's counted
};

/// Temperature 0: the likeliest token, the lowest of equal ones. Otherwise one drawn from softmax(logits / temperature).
std::uint32_t choose(std::span<const float> logits, const proofs::Sampling& sampling, TokenPlace place);

/// How far logits of two honest machines may be apart before a choice counts as another one.
struct ChoiceTolerance {
  double logit;        ///< below the highest, at temperature 0
  double probability;  ///< beside what was drawn
};
/// Of what was computed in f32 or f64 on both sides, and of 16 bits on one.
inline constexpr ChoiceTolerance EXACT_CHOICES{1e-3, 1e-4};
inline constexpr ChoiceTolerance COARSE_CHOICES{0.5, 0.05};

bool is_choice(std::span<const float> logits, const proofs::Sampling& sampling, TokenPlace place, std::uint32_t token,
               const ChoiceTolerance& tolerance);

}  // namespace prime::trainer
