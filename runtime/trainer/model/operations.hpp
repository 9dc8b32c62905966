// Owns the differentiable operations of a Llama block. Those of f32 on the CPU are ours: each is one pass over memory, forward and
// backward. Of other types, and on GPUs, they are made of ATen's operators.
#pragma once

#include "runtime/trainer/torch_fence.hpp"

namespace prime::trainer {

/// x: [rows, width] → [rows, width].
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

/// gate_up: [rows, 2·width] → silu(gate) · up: [rows, width].
at::Tensor swiglu(const at::Tensor& gate_up);

/// How the rows of a query-key-value product are cut into heads, and how positions turn them.
struct HeadLayout {
  std::int64_t time;      ///< tokens in a window
  std::int64_t heads;     ///< query heads
  std::int64_t kv_heads;  ///< divides heads; each serves heads / kv_heads query heads
  std::int64_t width;     ///< of one head
  at::Tensor cosine;      ///< [time or more, width / 2]
  at::Tensor sine;
};

struct Heads {
  at::Tensor query, key, value;  // [windows, heads, time, width]
};
/// qkv: [windows · time, (heads + 2·kv_heads) · width] → heads with queries and keys turned by position, keys and values repeated.
Heads split_heads(const at::Tensor& qkv, const HeadLayout& layout);

/// The same of ATen's operators, for any type and device.
namespace composed {
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);
at::Tensor swiglu(const at::Tensor& gate_up);
Heads split_heads(const at::Tensor& qkv, const HeadLayout& layout);
}  // namespace composed

}  // namespace prime::trainer
