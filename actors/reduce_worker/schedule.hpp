// Owns the schedules of an all-reduce: pure plans of who sends which chunk to whom, and what is combined where.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "messages/data_types.hpp"
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

/// What one frame carries.
enum class PieceKind : std::uint8_t {
  Begin,   ///< nothing: the sender has started the operation and has room for its chunks
  Input,   ///< a chunk of one rank's input, or in a ring the sum of those before
  Result,  ///< a chunk of the result
  // The words of the vote (vote_machine.hpp):
  Vote,   ///< the digest of the sender's complete result
  Doubt,  ///< whom the sender has lost, a byte for each rank
  Committed,
  Aborted,
  Greeting,  ///< the first of a stream, where lanes have several: of which lane it is
  // The words of a measurement (link_probe.hpp):
  Probe,   ///< nothing, in full size
  Probed,  ///< how long those of a round took
};

/// One chunk in one of its forms. `segment` is the rank of its owner.
struct Piece {
  PieceKind kind = PieceKind::Begin;
  std::uint32_t segment = 0;
  std::uint32_t chunk = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
};

/// A tensor of at most this many bytes is exchanged whole, and sent before its receiver is known to have begun.
inline constexpr std::uint64_t WHOLE_BYTES = 32 * 1024;

/// What `Automatic` means for a tensor of so many bytes. `good_ring`: the ranks stand in the order of the best ring over links that were
/// measured. Another one has the pace of its slowest link, and gains nothing among ranks of one host (docs/BENCHMARKS.md).
/// A codec is never exchanged whole, since each rank would add its own values unencoded; nor in a ring, where each hop would encode anew.
Schedule choose_schedule(Schedule wanted, Codec codec, std::uint64_t bytes, std::uint64_t chunk_bytes, bool good_ring);

/// Of a run whose manifest says `wanted`: what the coordinator does not allow to be a ring goes directly, also where a ring is wanted,
/// since a ring that missed its deadline does not tell because of whom.
constexpr Schedule schedule_of_try(Schedule wanted, bool ring) { return wanted == Schedule::Ring && !ring ? Schedule::Direct : wanted; }

struct ReduceShape {
  std::uint64_t elements = 0;
  std::uint32_t rank = 0;
  std::vector<bool> contributes;  ///< one for each rank: whether it sends an input
  std::uint64_t chunk_elements = 0;
  Schedule schedule = Schedule::Direct;
  std::uint64_t alignment = SEGMENT_ALIGNMENT;  ///< of segments, in elements
};

/// What this rank does with every chunk of one segment.
struct Route {
  std::vector<std::uint32_t> give;           ///< ranks to which the own input goes as it is
  std::vector<std::uint32_t> take;           ///< ranks from which something comes to be combined here
  std::vector<std::uint32_t> order;          ///< of combining: the ranks of `take`, and the own one if it contributes here
  bool takes_sums = false;                   ///< what comes is a weighted sum already (a ring, from its third rank on)
  std::optional<std::uint32_t> pass;         ///< the rank to which the sum goes on
  bool finishes = false;                     ///< the sum is the result
  std::optional<std::uint32_t> result_from;  ///< the rank from which the result comes
  std::vector<std::uint32_t> result_to;      ///< ranks to which the result goes from here
};

class ReducePlan {
 public:
  /// Fails when the shape is not one: no ranks, a rank outside, a chunk of nothing, a whole exchange of several chunks.
  static Result<ReducePlan> make(ReduceShape shape);

  [[nodiscard]] std::uint32_t world() const { return static_cast<std::uint32_t>(shape_.contributes.size()); }
  [[nodiscard]] std::uint32_t rank() const { return shape_.rank; }
  [[nodiscard]] std::uint64_t elements() const { return shape_.elements; }
  [[nodiscard]] std::uint64_t chunk_elements() const { return shape_.chunk_elements; }
  [[nodiscard]] Schedule schedule() const { return shape_.schedule; }
  [[nodiscard]] bool contributes(std::uint32_t rank) const { return shape_.contributes[rank]; }

  /// Segments are numbered by their owners; a whole exchange has one, number 0, owned by all.
  [[nodiscard]] std::uint32_t segments() const { return shape_.schedule == Schedule::Whole ? 1 : world(); }
  [[nodiscard]] ElementRange segment(std::uint32_t owner) const;
  [[nodiscard]] std::uint32_t chunk_count(std::uint32_t owner) const;
  [[nodiscard]] ElementRange chunk(std::uint32_t owner, std::uint32_t index) const;
  /// Counts chunks through all segments.
  [[nodiscard]] std::uint64_t chunk_number(std::uint32_t owner, std::uint32_t index) const { return first_chunk_[owner] + index; }
  [[nodiscard]] std::uint64_t chunks() const { return first_chunk_.back(); }

  [[nodiscard]] const Route& route(std::uint32_t segment) const { return routes_[segment]; }
  /// All others, starting with the next rank, so that not all ranks serve the same owner first.
  [[nodiscard]] std::vector<std::uint32_t> peers() const;

  /// The steps that progress is counted in: chunks to receive, and chunks to combine.
  [[nodiscard]] std::uint64_t steps() const;

 private:
  explicit ReducePlan(ReduceShape shape);
  [[nodiscard]] Route direct(std::uint32_t owner) const;
  [[nodiscard]] Route ring(std::uint32_t owner) const;
  [[nodiscard]] Route whole() const;

  ReduceShape shape_;
  std::vector<std::uint64_t> first_chunk_;  ///< of each segment, and behind the last
  std::vector<Route> routes_;
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
