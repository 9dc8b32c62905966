// Owns the choice of a token, and whether a choice is the one that was promised. Free of libtorch.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "runtime/commitment/proof_file.hpp"

namespace prime::trainer {

/// Which token of which sequence is chosen: what is drawn depends on that and on the seed, and not on what runs beside it.
struct TokenPlace {
  std::uint64_t sequence = 0;
  std::uint64_t position = 0;  ///< of the new token, the prompt's counted
};

/// Of anything else nothing can be chosen.
inline bool are_finite(std::span<const float> logits) {
  return std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); });
}

/// Of finite logits. Temperature 0: the likeliest token, the lowest of equal ones. Otherwise one drawn from softmax(logits / temperature).
std::uint32_t choose(std::span<const float> logits, const proofs::Sampling& sampling, TokenPlace place);

/// How far logits of two honest machines may be apart before a choice counts as another one: so far at least, and two steps of the type
/// where they are so large that these are more.
struct ChoiceTolerance {
  double logit;        ///< below the highest, at temperature 0
  double probability;  ///< beside what was drawn
  double step;         ///< that two machines differ by, as a part of a logit
};
/// Of what was computed in f32 or f64 on both sides, and of 16 bits on one. A product of a few hundred f32 differs by some tens of its last
/// bits; a logit of bf16 by its last one.
inline constexpr ChoiceTolerance EXACT_CHOICES{1e-3, 1e-4, 0x1p-18};
inline constexpr ChoiceTolerance COARSE_CHOICES{0.5, 0.05, 0x1p-7};

bool is_choice(std::span<const float> logits, const proofs::Sampling& sampling, TokenPlace place, std::uint32_t token,
               const ChoiceTolerance& tolerance);

}  // namespace prime::trainer
