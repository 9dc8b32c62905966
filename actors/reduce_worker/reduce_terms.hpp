// Owns what every reduce of a run has in common, and what of it a round's reduce depends on. Pure: `primectl replay` reduces by it, too.
#pragma once

#include "actors/ports.hpp"
#include "actors/reduce_worker/schedule.hpp"
#include "messages/division.hpp"

namespace prime {

/// What the manifest says of every reduce of a run.
struct ReduceTerms {
  Duration deadline{};
  Codec codec = Codec::None;
  Codec result_codec = Codec::None;
  Schedule schedule = Schedule::Automatic;
  bool stochastic = false;
  std::uint64_t seed = 0;
};

/// A fragment on its way to a version, whose members stand in a ring whose links were measured, or not.
struct ReducedRound {
  std::uint32_t fragment = 0;
  OuterStep version;
  bool ring = false;
};

/// All of a request that the bits of its result depend on, beside members and inputs.
inline ReduceRequest request_of(const ReduceTerms& terms, const ReducedRound& round) {
  ReduceRequest request;
  request.deadline = terms.deadline;
  request.codec = terms.codec;
  request.result_codec = terms.result_codec;
  request.schedule = schedule_of_try(terms.schedule, round.ring);
  request.measured_ring = round.ring;
  request.stochastic = terms.stochastic;
  request.seed = terms.seed;
  request.version = round.version.value * MAX_FRAGMENTS + round.fragment;  // each fragment rounds by bits of its own
  return request;
}

}  // namespace prime
