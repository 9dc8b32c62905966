#include "runtime/planning/wire_bytes.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "actors/reduce_worker/schedule.hpp"
#include "kernels/codec/codec.hpp"
#include "runtime/lanes/frame.hpp"

namespace prime::planning {
namespace {

/// Of the frames that carry each chunk of a segment once.
std::uint64_t frames_of(const ReducePlan& plan, std::uint32_t segment, Codec codec) {
  const auto chunks = plan.chunk_count(segment);
  if (chunks == 0) return 0;
  const auto last = plan.chunk(segment, chunks - 1).count;
  const auto full = kernels::encoded_bytes(codec, plan.chunk_elements());
  return (chunks - 1) * full + kernels::encoded_bytes(codec, last) + chunks * lanes::HEADER_BYTES;
}

/// A frame without a payload goes first to every rank that anything is exchanged with; a whole exchange needs none.
std::uint64_t beginnings(const ReducePlan& plan) {
  if (plan.schedule() == Schedule::Whole || plan.world() == 1) return 0;
  const std::uint64_t neighbours = plan.schedule() == Schedule::Ring ? 2 : plan.world() - 1;
  return plan.world() * std::min<std::uint64_t>(neighbours, plan.world() - 1) * lanes::HEADER_BYTES;
}

}  // namespace

Result<std::uint64_t> wire_bytes(const ReduceSize& size) {
  const auto schedule = choose_schedule(size.schedule, size.codec, size.elements * sizeof(float), lanes::CHUNK_BYTES, false);
  const auto alignment = size.codec == Codec::None ? SEGMENT_ALIGNMENT : kernels::CODEC_ALIGNMENT;
  PRIME_TRY(const auto plan, ReducePlan::make({size.elements, 0, std::vector<bool>(size.members, true), lanes::CHUNK_BYTES / sizeof(float),
                                               schedule, alignment}));
  // Seen from its owner a segment takes the same way, whoever that is: rank 0 sends each once as often as all ranks together send one.
  std::uint64_t brought = 0, results = 0, frames = 0, result_frames = 0;
  for (std::uint32_t segment = 0; segment < plan.segments(); ++segment) {
    const auto& route = plan.route(segment);
    brought += route.give.size() + (route.pass ? 1 : 0);
    results += route.result_to.size();
    frames += frames_of(plan, segment, size.codec);
    result_frames += frames_of(plan, segment, size.result_codec);
  }
  if (plan.schedule() == Schedule::Whole) brought *= plan.world();  // one segment, which all own
  return brought * frames + results * result_frames + beginnings(plan);
}

}  // namespace prime::planning
