// Owns how many bytes a reduce puts on the wire, from its plan: what its members' votes report as `wire_bytes`, and nothing is sent.
#pragma once

#include <cstdint>

#include "messages/data_types.hpp"
#include "messages/result.hpp"

namespace prime::planning {

/// Of f32 values, averaged over `members` who all contribute.
struct ReduceSize {
  std::uint64_t elements = 0;
  std::uint32_t members = 1;
  Codec codec = Codec::None;         ///< of what members bring
  Codec result_codec = Codec::None;  ///< of the result
  Schedule schedule = Schedule::Automatic;
};

/// That all members send together, headers of frames included. Fails as the reduce would (ReduceMismatch).
Result<std::uint64_t> wire_bytes(const ReduceSize& size);

}  // namespace prime::planning
