// Owns what a model hands to an optimizer.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/trainer/torch_fence.hpp"

namespace prime::trainer {

/// A tensor that is stepped as one.
struct Leaf {
  at::Tensor tensor;
  /// The matrices within a block that it is made of, by their rows, from the first; empty: it is none of a block, or a vector.
  std::vector<std::int64_t> matrices = {};
};

}  // namespace prime::trainer
