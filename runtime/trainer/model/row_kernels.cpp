// Owns the loops. They are compiled for several instruction sets; the processor picks one when the program starts.
#include "runtime/trainer/model/row_kernels.hpp"

#include <cmath>

#if defined(__x86_64__)
#define PRIME_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PRIME_CLONES
#endif

namespace prime::trainer::rows {

PRIME_CLONES
void rms_norm(Range range, std::int64_t width, float epsilon, const float* x, const float* weight, float* y, float* r) {
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const float* in = x + row * width;
    float* out = y + row * width;
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < width; ++i) squares += in[i] * in[i];
    const float scale = 1.0F / std::sqrt(squares / static_cast<float>(width) + epsilon);
    r[row] = scale;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) out[i] = in[i] * scale * weight[i];
  }
}

PRIME_CLONES
void rms_norm_gradient(Range range, std::int64_t width, const float* grad_y, const float* x, const float* weight, const float* r,
                       float* grad_x, float* grad_weight) {
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const float* g = grad_y + row * width;
    const float* in = x + row * width;
    float* out = grad_x + row * width;
    const float scale = r[row];
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (std::int64_t i = 0; i < width; ++i) dot += g[i] * weight[i] * in[i];
    const float along = dot * scale * scale / static_cast<float>(width);
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) {
      out[i] = scale * (g[i] * weight[i] - along * in[i]);
      grad_weight[i] += g[i] * in[i] * scale;
    }
  }
}

PRIME_CLONES
void swiglu(Range range, std::int64_t width, const float* gate_up, const float* s, float* y) {
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const float* gate = gate_up + row * 2 * width;
    const float* up = gate + width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) y[row * width + i] = gate[i] * s[row * width + i] * up[i];
  }
}

PRIME_CLONES
void swiglu_gradient(Range range, std::int64_t width, const float* grad_y, const float* gate_up, const float* s, float* grad_gate_up) {
  for (std::int64_t row = range.begin; row < range.end; ++row) {
    const float* g = grad_y + row * width;
    const float* sigmoid = s + row * width;
    const float* gate = gate_up + row * 2 * width;
    const float* up = gate + width;
    float* grad_gate = grad_gate_up + row * 2 * width;
    float* grad_up = grad_gate + width;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) {
      grad_gate[i] = g[i] * up[i] * sigmoid[i] * (1.0F + gate[i] * (1.0F - sigmoid[i]));
      grad_up[i] = g[i] * gate[i] * sigmoid[i];
    }
  }
}

PRIME_CLONES
void rotate(std::int64_t width, float direction, const float* cosine, const float* sine, const float* x, float* y, bool add) {
  const std::int64_t half = width / 2;
#pragma omp simd
  for (std::int64_t i = 0; i < half; ++i) {
    const float turned = direction * sine[i];
    const float first = x[i] * cosine[i] - x[i + half] * turned;
    const float second = x[i + half] * cosine[i] + x[i] * turned;
    y[i] = add ? y[i] + first : first;
    y[i + half] = add ? y[i + half] + second : second;
  }
}

}  // namespace prime::trainer::rows
