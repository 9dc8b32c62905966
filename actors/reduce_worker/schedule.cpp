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

Schedule choose_schedule(Schedule wanted, Codec codec, std::uint64_t bytes, std::uint64_t chunk_bytes, bool good_ring) {
  if (wanted != Schedule::Automatic) return wanted;
  if (codec != Codec::None) return Schedule::Direct;
  if (good_ring) return Schedule::Ring;
  return bytes <= std::min(WHOLE_BYTES, chunk_bytes) ? Schedule::Whole : Schedule::Direct;
}

Result<ReducePlan> ReducePlan::make(ReduceShape shape) {
  const auto world = shape.contributes.size();
  // Above this, offsets in bytes and products with the world size could overflow.
  constexpr std::uint64_t MAX_ELEMENTS = std::uint64_t{1} << 48;
  if (world == 0 || world > MAX_PEERS) return fail(ErrorName::ReduceMismatch, "a reduce among " + std::to_string(world) + " peers");
  if (shape.rank >= world) return fail(ErrorName::ReduceMismatch, "rank " + std::to_string(shape.rank) + " of " + std::to_string(world));
  if (shape.elements > MAX_ELEMENTS) return fail(ErrorName::ReduceMismatch, std::to_string(shape.elements) + " elements are too many");
  if (shape.chunk_elements == 0 || shape.alignment == 0) return fail(ErrorName::ReduceMismatch, "chunks of nothing");
  if (shape.schedule == Schedule::Whole && shape.elements > shape.chunk_elements)
    return fail(ErrorName::ReduceMismatch, std::to_string(shape.elements) + " elements are too many to be exchanged whole");
  if (divide_up(shape.elements, shape.chunk_elements) + world > std::numeric_limits<std::uint32_t>::max())
    return fail(ErrorName::ReduceMismatch, "too many chunks");
  return ReducePlan(std::move(shape));
}

ReducePlan::ReducePlan(ReduceShape shape) : shape_(std::move(shape)) {
  PRIME_ASSERT(shape_.schedule != Schedule::Automatic, "a plan has chosen its schedule");
  first_chunk_.push_back(0);
  for (std::uint32_t owner = 0; owner < segments(); ++owner) {
    first_chunk_.push_back(first_chunk_.back() + chunk_count(owner));
    switch (shape_.schedule) {
      case Schedule::Automatic:
      case Schedule::Direct: routes_.push_back(direct(owner)); break;
      case Schedule::Ring: routes_.push_back(ring(owner)); break;
      case Schedule::Whole: routes_.push_back(whole()); break;
    }
  }
}

Route ReducePlan::direct(std::uint32_t owner) const {
  Route route;
  if (rank() != owner) {
    if (contributes(rank())) route.give.push_back(owner);
    route.result_from = owner;
    return route;
  }
  for (std::uint32_t r = 0; r < world(); ++r) {
    if (!contributes(r)) continue;
    if (r != owner) route.take.push_back(r);
    route.order.push_back(r);
  }
  route.finishes = true;
  route.result_to = peers();
  return route;
}

Route ReducePlan::ring(std::uint32_t owner) const {
  // Who takes part in the sum, in the order of the ring; the owner closes it.
  std::vector<std::uint32_t> path;
  for (std::uint32_t step = 1; step < world(); ++step)
    if (const auto r = (owner + step) % world(); contributes(r)) path.push_back(r);
  path.push_back(owner);
  Route route;
  for (std::size_t at = 0; at < path.size(); ++at) {
    if (path[at] != rank()) continue;
    const bool last = at + 1 == path.size();
    if (at == 0 && !last) route.give.push_back(path[1]);
    if (at > 0) {
      route.take.push_back(path[at - 1]);
      route.order.push_back(path[at - 1]);
      route.takes_sums = at > 1;
      if (!last) route.pass = path[at + 1];
    }
    if ((at > 0 || last) && contributes(rank())) route.order.push_back(rank());
    route.finishes = last;
  }
  const auto next = (rank() + 1) % world();
  if (rank() != owner) route.result_from = (rank() + world() - 1) % world();
  if (next != owner) route.result_to.push_back(next);
  return route;
}

Route ReducePlan::whole() const {
  Route route;
  if (contributes(rank())) route.give = peers();
  for (std::uint32_t r = 0; r < world(); ++r) {
    if (!contributes(r)) continue;
    if (r != rank()) route.take.push_back(r);
    route.order.push_back(r);
  }
  route.finishes = true;
  return route;
}

ElementRange ReducePlan::segment(std::uint32_t owner) const {
  if (shape_.schedule == Schedule::Whole) return ElementRange{0, shape_.elements};
  const std::uint64_t blocks = divide_up(shape_.elements, shape_.alignment);
  const auto border = [&](std::uint64_t index) { return std::min(blocks * index / world() * shape_.alignment, shape_.elements); };
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

std::uint64_t ReducePlan::steps() const {
  std::uint64_t count = 0;
  for (std::uint32_t owner = 0; owner < segments(); ++owner) {
    const Route& each = route(owner);
    const std::uint64_t per_chunk = each.take.size() + (each.pass || each.finishes ? 1 : 0) + (each.result_from ? 1 : 0);
    count += per_chunk * chunk_count(owner);
  }
  return count;
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
