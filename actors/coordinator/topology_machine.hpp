// Owns what is known of the links between members, and the order of the ring that follows from it (DESIGN.md §5). Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/coordinator/coordinator_state.hpp"
#include "actors/coordinator/ring_search.hpp"

namespace prime::coordinator::topology {

/// A ring takes the place of the one in use when its slowest link is this much faster (a fraction: GAIN_OF / GAIN_IN).
inline constexpr std::uint64_t GAIN_OF = 5;
inline constexpr std::uint64_t GAIN_IN = 4;
/// A reduce that takes this many times as long as the one before makes its links be measured anew.
inline constexpr std::int64_t SLOWED = 2;

/// So long a reduce that could begin waits for measurements under way: they would come to nothing, again and again where training is short.
inline constexpr Duration MEASURE_HOLD = 2s;

/// Lets pairs of members measure their links while they train: each member one at a time, those longest unknown first.
void measure(State& state, Instant now, Effects& effects);
/// Since when a reduce waits for them; it does until MEASURE_HOLD later.
std::optional<Instant> held_since(const State& state, Instant now);
std::string measured(State& state, PeerId from, const LinkMeasured& message, Instant now, Effects& effects);
/// What a member says of its lane to another one.
std::string relayed(State& state, PeerId from, const LaneRelayed& message, Effects& effects);
/// The members in the order in which an operation has them: that of the ring, where one was found, else that of the view.
SharedList<Member> in_ring_order(const State& state);
/// Among these, as far as links are known: bytes per second over those that need no relay themselves; 0 for all others. Empty where none
/// are measured.
std::optional<LinkSpeeds> direct_links(const State& state, const SharedList<Member>& members);
/// Before a reduce: looks for a better ring. What is under way keeps its order.
void arrange(State& state, Effects& effects);
/// After it.
void note_reduce(State& state, Duration took, Instant now);
/// What was measured with one that went is forgotten; who is new has yet to be measured.
void members_changed(State& state);

}  // namespace prime::coordinator::topology
