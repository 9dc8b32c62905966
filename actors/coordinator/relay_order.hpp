// Owns the choice of who passes a lane on between two peers that cannot reach each other. Pure.
#pragma once

#include "actors/coordinator/ring_search.hpp"
#include "messages/outer_step.hpp"

namespace prime::coordinator {

/// So many are told for each peer to be reached.
inline constexpr std::size_t RELAYS_TOLD = 4;

/// By whom peer `from` best reaches each other one: where the slower of both hops is the fastest. A hop is as fast as its slower direction,
/// since a lane is for both; who has a hop that is none (0) is not named. Among equals the first.
RelayOrder relay_order(const LinkSpeeds& hops, std::size_t from);

}  // namespace prime::coordinator
