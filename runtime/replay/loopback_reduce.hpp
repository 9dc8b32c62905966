// Owns a reduce within one thread: the operations of all its members, as peers run them, whose frames are handed over in memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "actors/ports.hpp"

namespace prime::replay {

/// What one member brings; both empty where it weighs nothing.
struct Brought {
  std::span<const float> values;
  std::span<const float> residual;  ///< what a codec had lost before; empty where errors are not fed back
};

/// The result that each member of `terms.contributions` is left with; `brought` is by rank. Of `terms` view, self, input and output are
/// filled in here. `turns` draws whose frame goes next: the result is the same, whatever it is. Fails as the members would, and with
/// InternalError where two of them are left with different bits.
Result<std::vector<float>> reduce(const ReduceRequest& terms, std::span<const Brought> brought, std::uint64_t turns = 0);

}  // namespace prime::replay
