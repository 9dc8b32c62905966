// Owns who is told to train towards which step, and on which samples. Pure.
#pragma once

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator::outer_step {

/// Whether none of this member's work is on the way: all fragments have it, or it had none to do.
bool is_through(const State& state, PeerId member);
/// Whether it has worked on a step that is reduced while the next one is trained.
bool has_closed_work(const State& state, PeerId member);
/// Fragments that lack what a member works on.
Fragments lacking(const State& state, PeerId member);
/// Where none is, the one that is reduced: who comes now adopts its result.
OuterStep step_in_training(const State& state);
/// Replicas whose work is of the step that is trained.
std::uint32_t contributing(const State& state);

/// A range of samples for a member. Who begins anew keeps the one that no fragment has.
std::uint64_t range_for(State& state, PeerId member);
/// Hands the next disjoint range of samples to the replica of this rank and tells its peers to train, all of them on these samples. Their
/// work is of all fragments that have not made the step.
void begin_for(State& state, std::size_t rank, HeldOutShare evaluate, Effects& effects);
void begin_step(State& state, OuterStep step, Instant now, Effects& effects);
/// Too few contribute (law 5): those train after all who trained nothing in this step; else those whose earlier work other fragments lack,
/// and this one has: it is given up. Whether there are any.
bool promote_whom_it_lacks(State& state, Effects& effects);

}  // namespace prime::coordinator::outer_step
