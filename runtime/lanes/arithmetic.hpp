// Owns Arithmetic: what one reduce does to the elements of a chunk, and how a chunk travels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "actors/ports.hpp"
#include "actors/reduce_worker/schedule.hpp"
#include "kernels/codec/codec.hpp"
#include "kernels/reduce/reduce.hpp"
#include "kernels/reduce/typed_reduce.hpp"

namespace prime::lanes {

/// A ring adds hop by hop in the element's own type: what must be gathered in a wider one, or is encoded, goes to its owner directly.
[[nodiscard]] bool fits_ring(const ReduceRequest& request);

class Arithmetic {
 public:
  /// Fails with ReduceMismatch for a combination that does not exist, with TooFewPeers when nobody contributes.
  static Result<Arithmetic> make(const ReduceRequest& request, Schedule schedule);

  [[nodiscard]] std::size_t element_bytes() const { return prime::element_bytes(type_); }
  /// Whether what members bring travels in another form than it lies in memory, and whether results do.
  [[nodiscard]] bool encoded() const { return encoding_.codec != Codec::None; }
  [[nodiscard]] bool result_encoded() const { return result_codec_ != Codec::None; }
  /// Of segments: where a codec may cut.
  [[nodiscard]] std::uint64_t alignment() const { return encoded() ? kernels::CODEC_ALIGNMENT : SEGMENT_ALIGNMENT; }
  /// Of so many elements on the wire, as members bring them and of the result.
  [[nodiscard]] std::size_t wire_bytes(std::size_t elements) const { return wire_bytes(encoding_.codec, elements); }
  [[nodiscard]] std::size_t result_bytes(std::size_t elements) const { return wire_bytes(result_codec_, elements); }

  /// Fails with NonFiniteValue, naming the element. `first_index`: of the chunk's first element in the tensor.
  Result<void> encode(std::span<const std::byte> elements, std::uint64_t first_index, std::span<std::byte> wire) const;
  /// The same with error feedback; the two are as long as the elements.
  struct Feedback {
    std::span<const float> residual;
    std::span<float> next_residual;
  };
  Result<void> encode(std::span<const std::byte> elements, std::uint64_t first_index, std::span<std::byte> wire, Feedback feedback) const;
  Result<void> encode_result(std::span<const std::byte> elements, std::uint64_t first_index, std::span<std::byte> wire) const;
  void decode_result(std::span<const std::byte> wire, std::span<std::byte> elements) const;

  struct Operand {
    const std::byte* bytes = nullptr;
    const float* residual = nullptr;  ///< of the own operand, with error feedback: it travels nowhere, so nothing of it is lost
    std::uint32_t rank = 0;
    bool own = false;       ///< it lies as it does in memory; what comes from others lies as it travels
    bool weighted = false;  ///< a sum of inputs that have their weights already
  };
  /// Combines the operands in their order; `last` makes the result of it. `out` aliases none of them.
  void combine(std::span<const Operand> operands, bool last, std::span<std::byte> out);

 private:
  Arithmetic() = default;
  [[nodiscard]] std::size_t wire_bytes(Codec codec, std::size_t elements) const;
  [[nodiscard]] kernels::Encoding encoding_at(std::uint64_t first_index) const;
  static Result<void> judge(const std::optional<kernels::Unencodable>& refused, Codec codec, std::uint64_t first_index);
  [[nodiscard]] float weight_of(const Operand& operand) const { return operand.weighted ? 1.0F : factors_.relative[operand.rank]; }
  void combine_encoded(std::span<const Operand> operands, float scale, std::span<float> out);

  DataType type_ = DataType::F32;
  ReduceOperator operator_ = ReduceOperator::Average;
  kernels::Encoding encoding_;  ///< of what members bring
  Codec result_codec_ = Codec::None;
  MeanFactors factors_;
  std::vector<kernels::WeightedInput> weighted_inputs_;
  std::vector<float> decoded_;
  std::vector<kernels::TypedInput> typed_inputs_;
};

}  // namespace prime::lanes
