// Owns the arithmetic of the reduce plan.
#include "actors/reduce_worker/schedule.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "messages/assert.hpp"

namespace prime {
namespace {

std::uint64_t divide_up(std::uint64_t count, std::uint64_t unit) { return count / unit + (count % unit != 0 ? 1 : 0); }

}  // namespace

Result<ReducePlan> ReducePlan::make(ReduceShape shape) {
  const auto world = shape.contributes.size();
  // Above this, offsets in bytes and products with the world size could overflow.
  constexpr std::uint64_t MAX_ELEMENTS = std::uint64_t{1} << 48;
  if (world == 0 || world > MAX_PEERS) return fail(ErrorName::ReduceMismatch, "a reduce among " + std::to_string(world) + " peers");
  if (shape.rank >= world) return fail(ErrorName::ReduceMismatch, "rank " + std::to_string(shape.rank) + " of " + std::to_string(world));
  if (shape.elements > MAX_ELEMENTS) return fail(ErrorName::ReduceMismatch, std::to_string(shape.elements) + " elements are too many");
  if (shape.chunk_elements == 0) return fail(ErrorName::ReduceMismatch, "chunks of nothing");
  ReducePlan plan(std::move(shape));
  for (std::uint32_t owner = 0; owner < world; ++owner)
    if (divide_up(plan.segment(owner).count, plan.shape_.chunk_elements) > std::numeric_limits<std::uint32_t>::max())
      return fail(ErrorName::ReduceMismatch, "too many chunks");
  return plan;
}

ElementRange ReducePlan::segment(std::uint32_t owner) const {
  const std::uint64_t blocks = divide_up(shape_.elements, SEGMENT_ALIGNMENT);
  const auto border = [&](std::uint64_t index) { return std::min(blocks * index / world() * SEGMENT_ALIGNMENT, shape_.elements); };
  return ElementRange{border(owner), border(owner + 1ULL) - border(owner)};
}

std::uint32_t ReducePlan::chunk_count(std::uint32_t owner) const {
  return static_cast<std::uint32_t>(divide_up(segment(owner).count, shape_.chunk_elements));
}

ElementRange ReducePlan::chunk(std::uint32_t owner, std::uint32_t index) const {
  const ElementRange all = segment(owner);
  const std::uint64_t skipped = index * shape_.chunk_elements;
  PRIME_ASSERT(skipped < all.count, "a chunk lies in its segment");
  return ElementRange{all.begin + skipped, std::min(shape_.chunk_elements, all.count - skipped)};
}

std::vector<std::uint32_t> ReducePlan::peers() const {
  std::vector<std::uint32_t> order;
  for (std::uint32_t step = 1; step < world(); ++step) order.push_back((shape_.rank + step) % world());
  return order;
}

bool ReducePlan::summable(std::uint32_t index, std::span<const std::uint32_t> arrived) const {
  if (index >= chunk_count(shape_.rank)) return false;
  for (std::uint32_t r = 0; r < world(); ++r)
    if (r != shape_.rank && contributes(r) && arrived[r] <= index) return false;
  return true;
}

std::uint64_t ReducePlan::steps() const {
  std::uint64_t count = chunk_count(shape_.rank);
  for (const std::uint32_t from : peers()) count += receive_count(from) - 1;  // Begin carries no chunk
  return count;
}

std::uint64_t ReducePlan::frame_count(std::uint32_t from, std::uint32_t to) const {
  return 1ULL + (contributes(from) ? chunk_count(to) : 0) + chunk_count(from);
}

Piece ReducePlan::frame(std::uint32_t from, std::uint32_t to, std::uint64_t index) const {
  PRIME_ASSERT(index < frame_count(from, to), "a frame lies in its plan");
  if (index == 0) return Piece{PieceKind::Begin, from, 0, {}};
  const std::uint64_t inputs = contributes(from) ? chunk_count(to) : 0;
  const bool is_input = index <= inputs;
  const std::uint32_t segment = is_input ? to : from;
  const auto number = static_cast<std::uint32_t>(is_input ? index - 1 : index - 1 - inputs);
  return Piece{is_input ? PieceKind::Input : PieceKind::Result, segment, number, chunk(segment, number)};
}

Result<MeanFactors> mean_factors(std::span<const Contribution> contributions) {
  double total = 0;
  std::uint64_t largest = 0;
  for (const auto& contribution : contributions) {
    total += static_cast<double>(contribution.weight);
    largest = std::max(largest, contribution.weight);
  }
  if (largest == 0) return fail(ErrorName::TooFewPeers, "nobody contributes");
  MeanFactors factors;
  for (const auto& contribution : contributions)
    factors.relative.push_back(static_cast<float>(static_cast<double>(contribution.weight) / static_cast<double>(largest)));
  factors.scale = static_cast<float>(static_cast<double>(largest) / total);
  return factors;
}

}  // namespace prime
