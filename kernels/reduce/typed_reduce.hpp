// Owns the reduce of any element type by any operator: N ranks' values in, one rank's worth out, in rank order.
#pragma once

#include <cstddef>
#include <span>

#include "messages/data_types.hpp"

namespace prime::kernels {

/// A rank of weight 0 is skipped by every operator, its pointer may be null. Only the average of floats looks at other weights.
struct TypedInput {
  const std::byte* values = nullptr;
  float weight = 1;
};

struct TypedReduction {
  ReduceOperator op = ReduceOperator::Sum;
  DataType type = DataType::F32;
  double scale = 1;  ///< of an average of floats: 1/Σ weights
};

/// Shapes: out and every input hold the same count of elements. `out` may be one of the inputs.
///
/// f16 and bf16 are summed, multiplied and compared in f32 and rounded once, at the end; f32 and f64 in their own precision.
/// Average of floats: Σ weight·x · scale (f64: in f64). Of integers: the exact sum divided by the number of ranks, towards zero; it
/// does not overflow on the way. Sum and product of integers wrap around. Minimum and maximum: a NaN of any rank stays one; of two
/// equal zeros the first rank's. Of no ranks: what changes nothing (0, 1, the greatest or the least value).
void reduce_typed(const TypedReduction& reduction, std::span<const TypedInput> inputs, std::span<std::byte> out);
void reduce_typed_reference(const TypedReduction& reduction, std::span<const TypedInput> inputs, std::span<std::byte> out);

/// accumulator = accumulator op operand, for schedules that add one hop at a time. Not for Average; f16 and bf16 round at each hop.
void combine(const TypedReduction& reduction, std::span<std::byte> accumulator, std::span<const std::byte> operand);

}  // namespace prime::kernels
