// Owns what a model hands to an optimizer.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/trainer/torch_fence.hpp"

namespace prime::trainer {

/// A tensor that is stepped as one.
struct Leaf {
  at::Tensor tensor;
  /// The matrices within a block that it is made of, by their outputs, from the first; empty: it is none of a block, or a vector.
  std::vector<std::int64_t> matrices = {};
  /// They lie side by side as [inputs, outputs]; else one above the other as [outputs, inputs].
  bool transposed = false;
};

}  // namespace prime::trainer
