// Owns what differs where peers of unequal speed wait for nobody (`sync.algorithm: decoupled`; Decoupled DiLoCo, arXiv:2604.21428): the
// first member that is due opens a round, all others are asked for what they have made by then, and each member has samples for itself.
// Operations, votes and commits are those of every other algorithm. Pure; see coordinator_state.hpp.
#pragma once

#include <string>
#include <vector>

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator::decoupled {

/// Gives samples to every member that has none left, and so begins or goes on.
void begin(State& state, Instant now, Effects& effects);
/// These have just become members of a run that is under way: they train at once.
void admitted(State& state, const std::vector<PeerId>& members, Effects& effects);
/// A member is back over another connection: it is told again what it is to do, and says again what it has made.
void returned(State& state, PeerId member, Effects& effects);

std::string published(State& state, PeerId from, const Ready& message, Instant now, Effects& effects);
std::string lease_used(State& state, PeerId from, const LeaseUsed& message);
/// The round has been committed: what its members make from now on is for the next version.
void committed(State& state, Round& round);
/// Gives samples to whoever has none left, and reduces each fragment of which enough is there, the one first that has waited longest.
void advance(State& state, Instant now, Effects& effects);
/// What is waited for longer than usual.
[[nodiscard]] Wait wait_of(const State& state, Instant now);

}  // namespace prime::coordinator::decoupled
