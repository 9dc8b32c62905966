// Owns the way from a seat to the state: what a trainer binds and trains on must be the run's, its peer founds the state or fetches it.
// Pure.
#pragma once

#include <optional>
#include <string>

#include "actors/membership/effects.hpp"
#include "actors/membership/roster.hpp"

namespace prime::membership {

// A handler appends effects and returns the reason.

std::string seated(Roster& roster, PeerId from, const Seated& message, Instant now, Effects& effects);
std::string fetched(Roster& roster, PeerId from, const Fetched& message, Instant now, Effects& effects);
std::string fetch_failed(Roster& roster, PeerId from, const FetchFailed& message, Instant now, Effects& effects);

/// Those caught up at an older revision fetch again; fetches from peers that are gone, or that failed, get another donor.
void refresh_fetches(Roster& roster, Instant now, Effects& effects);
/// A joiner that was overtaken too often, if there is one.
std::optional<PeerId> overtaken(const Roster& roster);

}  // namespace prime::membership
