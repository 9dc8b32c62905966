// Owns the schedule of the direct all-reduce: a pure plan of who sends which chunk to whom, in what order, and what is summed when.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "messages/outer_step.hpp"
#include "messages/result.hpp"

namespace prime {

/// Segments begin at multiples of this many elements (one cache line of f32), so that no two owners share a line.
inline constexpr std::uint64_t SEGMENT_ALIGNMENT = 16;

struct ElementRange {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

/// What one frame carries. Begin carries nothing: it tells the other end what we think the operation is.
enum class PieceKind : std::uint8_t { Begin, Input, Result };

/// One frame of the plan. `segment` is the rank of its owner; `range` counts from the start of the tensor.
struct Piece {
  PieceKind kind = PieceKind::Begin;
  std::uint32_t segment = 0;
  std::uint32_t chunk = 0;
  ElementRange range;
  friend bool operator==(const Piece&, const Piece&) = default;
};

struct ReduceShape {
  std::uint64_t elements = 0;
  std::uint32_t rank = 0;
  std::vector<bool> contributes;  ///< one for each rank: whether it sends an input
  std::uint64_t chunk_elements = 0;
};

/// Rank r owns segment r: all contributors send it there, the owner sums in rank order and sends the result to all.
/// From one rank to another the frames have one fixed order: Begin, the inputs of the receiver's segment, the results of the
/// sender's segment, chunks ascending. So the receiver knows each frame before it comes, and chunks become summable in order.
/// Inputs go first because others wait for them, while nothing depends on a result but the end.
class ReducePlan {
 public:
  /// Fails when the shape is not one: no ranks, a rank outside, a chunk of nothing.
  static Result<ReducePlan> make(ReduceShape shape);

  [[nodiscard]] std::uint32_t world() const { return static_cast<std::uint32_t>(shape_.contributes.size()); }
  [[nodiscard]] std::uint32_t rank() const { return shape_.rank; }
  [[nodiscard]] std::uint64_t elements() const { return shape_.elements; }
  [[nodiscard]] bool contributes(std::uint32_t rank) const { return shape_.contributes[rank]; }

  [[nodiscard]] ElementRange segment(std::uint32_t owner) const;
  [[nodiscard]] std::uint32_t chunk_count(std::uint32_t owner) const;
  [[nodiscard]] ElementRange chunk(std::uint32_t owner, std::uint32_t index) const;

  /// All others, starting with the next rank, so that not all ranks serve the same owner first.
  [[nodiscard]] std::vector<std::uint32_t> peers() const;

  [[nodiscard]] std::uint64_t send_count(std::uint32_t to) const { return frame_count(shape_.rank, to); }
  [[nodiscard]] Piece send(std::uint32_t to, std::uint64_t index) const { return frame(shape_.rank, to, index); }
  [[nodiscard]] std::uint64_t receive_count(std::uint32_t from) const { return frame_count(from, shape_.rank); }
  [[nodiscard]] Piece receive(std::uint32_t from, std::uint64_t index) const { return frame(from, shape_.rank, index); }

  /// Whether `piece` can be sent once `summed` chunks of the own segment are.
  [[nodiscard]] static bool sendable(const Piece& piece, std::uint32_t summed) {
    return piece.kind != PieceKind::Result || piece.chunk < summed;
  }
  /// Whether chunk `index` of the own segment can be summed, when so many input chunks have come from each rank.
  [[nodiscard]] bool summable(std::uint32_t index, std::span<const std::uint32_t> arrived) const;

  /// The steps that progress is counted in: chunks to receive, and chunks to sum.
  [[nodiscard]] std::uint64_t steps() const;

 private:
  explicit ReducePlan(ReduceShape shape) : shape_(std::move(shape)) {}
  [[nodiscard]] std::uint64_t frame_count(std::uint32_t from, std::uint32_t to) const;
  [[nodiscard]] Piece frame(std::uint32_t from, std::uint32_t to, std::uint64_t index) const;

  ReduceShape shape_;
};

/// The factors of a weighted mean: Σ relative[r]·x[r] · scale. Relative to the largest weight, so that equal contributors
/// have 1 exactly; computed in double from the integers, so that all ranks have the same bits.
struct MeanFactors {
  std::vector<float> relative;
  float scale = 0;
};
/// Fails with TooFewPeers when nobody contributes: such a mean does not exist.
Result<MeanFactors> mean_factors(std::span<const Contribution> contributions);

}  // namespace prime
