// Owns the attempts of a replica at what it trains for. When one of its trainers dies before all have contributed, all begin anew, together
// and from one state: what a replica brings to a round is of one attempt. A replica of one peer never begins anew. Pure.
#pragma once

#include "actors/coordinator/coordinator_state.hpp"

namespace prime::coordinator::attempts {

/// Who says that it is at a later one breaks a rule.
inline constexpr std::uint32_t MAX_ATTEMPTS = 1'000'000;

/// Whether all peers of its replica have brought what they train for in this round.
bool brings_all(const State& state, const Round& round, PeerId member);
/// Which attempt its replica is at, as far as this coordinator has heard; 0: the first.
std::uint32_t current(const State& state, PeerId member);
/// As a member is told of the attempt that its replica is at; nothing where that is the first, or all have contributed.
std::optional<BeginStep> begun_anew(State& state, PeerId member);

/// Of work that is of another attempt than that of the others, or from another state: why it does not count. Who is behind hears of it. Who
/// is ahead of a coordinator that was restarted, which has forgotten it, begins anew with the others: one of them may never have heard of
/// it.
std::optional<std::string> refuse(State& state, PeerId from, const Ready& message, Instant now, Effects& effects);
/// A trainer died by itself: the others of its replica begin anew with it, if not all have contributed.
std::string trainer_restarted(State& state, PeerId from, const TrainerRestarted& message, Instant now, Effects& effects);

}  // namespace prime::coordinator::attempts
