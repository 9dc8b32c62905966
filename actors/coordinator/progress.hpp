// Owns what members have moved of a reduce, and what is said of tries that end alike.
#pragma once

#include "actors/coordinator/coordinator_state.hpp"
#include "actors/membership/transfer.hpp"

namespace prime::coordinator::progress {

/// Whether nothing of the reduce moves any more.
bool reduce_stands_still(const State& state, Instant now);
/// The member without a vote that has moved least.
std::optional<membership::Transfer> least_of_reduce(const State& state, Instant now);
/// What would help after tries that all ended alike; empty before there were enough of them.
std::string advice(const State& state);
/// Now and then, of what lasts.
void tell(State& state, Instant now, Effects& effects);

}  // namespace prime::coordinator::progress
