// Owns the arithmetic between matrix products, row by row on raw memory: what a chain of tensor operations would stream through
// memory five times, these loops touch once. Every function works on rows [begin, end), so that threads can share the rows.
#pragma once

#include <cstdint>

namespace prime::trainer::rows {

struct Range {
  std::int64_t begin;
  std::int64_t end;
};

/// RMSNorm: y = x · r · weight with r = 1 / sqrt(mean(x²) + epsilon); x, y: [rows, width], weight: [width], r: [rows].
void rms_norm(Range range, std::int64_t width, float epsilon, const float* x, const float* weight, float* y, float* r);
/// Its derivative: writes grad_x, adds this range's share to grad_weight [width].
void rms_norm_gradient(Range range, std::int64_t width, const float* grad_y, const float* x, const float* weight, const float* r,
                       float* grad_x, float* grad_weight);

/// SwiGLU: y = gate · sigmoid(gate) · up, where gate_up: [rows, 2·width] holds gate and then up, s = sigmoid(gate): [rows, width].
void swiglu(Range range, std::int64_t width, const float* gate_up, const float* s, float* y);
void swiglu_gradient(Range range, std::int64_t width, const float* grad_y, const float* gate_up, const float* s, float* grad_gate_up);

/// One head of one token, turned by its position: pairs are (i, i + width/2), as Hugging Face's `rotate_half` has them.
/// cosine and sine: [width/2]; direction 1 turns, -1 turns back (the derivative of a rotation). Adds to y when `add`.
void rotate(std::int64_t width, float direction, const float* cosine, const float* sine, const float* x, float* y, bool add);

}  // namespace prime::trainer::rows
