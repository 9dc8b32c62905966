// Owns the door to the vector versions of the reduce.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/reduce/reduce.hpp"

namespace prime::kernels {

/// As weighted_sum, of at least one input, none of weight 0.
void sum_all_vectors(std::span<const WeightedInput> inputs, float scale, std::span<float> out);

}  // namespace prime::kernels
