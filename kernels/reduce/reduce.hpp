// Owns the arithmetic of a weighted mean over ranks. Sums run in rank order in fp32, so that any owner gets the same bits.
#pragma once

#include <cstdint>
#include <span>

namespace prime::kernels {

/// out[i] = Σ_r weights[r]·inputs[r][i] · scale, r ascending, every product and sum rounded to fp32.
/// Shapes: all inputs and `out` hold the same count of f32; `out` may alias no input. A rank of weight 0 is skipped, its
/// pointer may be null. Callers pass weights relative to the largest, so that equal contributors have weight 1 exactly.
struct WeightedInput {
  const float* values = nullptr;
  float weight = 0;
};
void weighted_sum_reference(std::span<const WeightedInput> inputs, float scale, std::span<float> out);
void weighted_sum(std::span<const WeightedInput> inputs, float scale, std::span<float> out);

/// out[i] = base[i] − local[i], the pseudo-gradient (DiLoCo, arXiv:2311.08105, algorithm 1, line 11). `out` may be `local`.
void pseudo_gradient_reference(std::span<const float> base, std::span<const float> local, std::span<float> out);
void pseudo_gradient(std::span<const float> base, std::span<const float> local, std::span<float> out);

/// out[i] = bf16(base[i]) − local[i]: the pseudo-gradient of who was given `base` rounded to bf16 (to nearest, ties to even), and made
/// `local` of that. `out` may be `local`.
void pseudo_gradient_bf16_reference(std::span<const float> base, std::span<const float> local, std::span<float> out);
void pseudo_gradient_bf16(std::span<const float> base, std::span<const float> local, std::span<float> out);

/// The index of the first NaN or infinity, or the count of values when all are finite.
std::size_t first_non_finite_reference(std::span<const float> values);
std::size_t first_non_finite(std::span<const float> values);

}  // namespace prime::kernels
