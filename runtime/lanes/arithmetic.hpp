// Owns Arithmetic: what one reduce does to the elements of a chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "actors/ports.hpp"
#include "actors/reduce_worker/schedule.hpp"

namespace prime::lanes {

class Arithmetic {
 public:
  /// Fails with ReduceMismatch for a combination that does not exist, with TooFewPeers when nobody contributes.
  static Result<Arithmetic> make(const ReduceRequest& request);

  [[nodiscard]] std::size_t element_bytes() const { return prime::element_bytes(type_); }
  /// Whether chunks travel in another form than they lie in memory.
  [[nodiscard]] bool encoded() const { return codec_ != Codec::None; }
  /// Of so many elements on the wire.
  [[nodiscard]] std::size_t wire_bytes(std::size_t elements) const;

  struct Operand {
    const std::byte* bytes = nullptr;
    std::uint32_t rank = 0;
    bool weighted = false;  ///< a sum of inputs that have their weights already
  };
  /// Combines the operands in their order; `last` makes the result of it. `out` aliases none of them.
  void combine(std::span<const Operand> operands, bool last, std::span<std::byte> out) const;

 private:
  Arithmetic() = default;

  DataType type_ = DataType::F32;
  ReduceOperator operator_ = ReduceOperator::Average;
  Codec codec_ = Codec::None;
  MeanFactors factors_;
};

}  // namespace prime::lanes
