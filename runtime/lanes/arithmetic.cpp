// Owns the choice of kernels for a reduce.
#include "runtime/lanes/arithmetic.hpp"

#include <string>

#include "kernels/reduce/reduce.hpp"

namespace prime::lanes {

Result<Arithmetic> Arithmetic::make(const ReduceRequest& request) {
  Arithmetic arithmetic;
  arithmetic.type_ = request.type;
  arithmetic.operator_ = request.combine;
  arithmetic.codec_ = request.codec;
  const bool averages = request.combine == ReduceOperator::Average;
  if (request.codec != Codec::None || request.type != DataType::F32 || (!averages && request.combine != ReduceOperator::Sum))
    return fail(ErrorName::ReduceMismatch, std::string(to_string(request.combine)) + " of " + std::string(to_string(request.type)) +
                                               " by " + std::string(to_string(request.codec)) + " does not exist");
  PRIME_TRY(arithmetic.factors_, mean_factors(request.contributions));
  if (!averages) {
    for (float& factor : arithmetic.factors_.relative) factor = factor > 0 ? 1.0F : 0.0F;
    arithmetic.factors_.scale = 1;
  }
  return arithmetic;
}

std::size_t Arithmetic::wire_bytes(std::size_t elements) const { return elements * element_bytes(); }

void Arithmetic::combine(std::span<const Operand> operands, bool last, std::span<std::byte> out) const {
  std::vector<kernels::WeightedInput> inputs;
  for (const Operand& each : operands)
    inputs.push_back({reinterpret_cast<const float*>(each.bytes), each.weighted ? 1.0F : factors_.relative[each.rank]});
  kernels::weighted_sum(inputs, last ? factors_.scale : 1.0F, {reinterpret_cast<float*>(out.data()), out.size() / sizeof(float)});
}

}  // namespace prime::lanes
