// Owns what a run's manifest means for its reduces and its outer state. `primectl replay` makes the run's versions by the same terms.
#pragma once

#include "actors/reduce_worker/reduce_terms.hpp"
#include "runtime/agent/outer_state.hpp"
#include "runtime/manifest/manifest.hpp"

namespace prime {

inline ReduceTerms reduce_terms(const manifest::Shared& shared) {
  const auto& wire = shared.sync.wire;
  return {shared.sync.deadline, wire.codec, wire.result_codec, wire.schedule, wire.rounding == manifest::Rounding::Stochastic,
          shared.train.seed};
}

inline OuterStateOptions outer_options(const manifest::Shared& shared) {
  const auto& outer = shared.sync.outer;
  return {{static_cast<float>(outer.learning_rate), static_cast<float>(outer.momentum)},
          1,
          shared.sync.in_flight,
          shared.sync.wire.feedback,
          shared.sync.merge};
}

}  // namespace prime
