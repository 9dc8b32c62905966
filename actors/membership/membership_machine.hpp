// Owns who takes part: who is let in, and who is admitted. Pure. Whoever uses it decides when the doors are open, and what follows from a
// member's going.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/membership/effects.hpp"
#include "actors/membership/roster.hpp"

namespace prime::membership {

// A handler appends effects and returns the reason.

/// Why somebody who greets cannot have a seat; `closed`: why nobody new can.
std::optional<Error> refusal(const Roster& roster, const Hello& message, const std::optional<Error>& closed);
std::string refuse(const Roster& roster, PeerId from, const Hello& message, const Error& cause, Effects& effects);
std::string without_seat(const Roster& roster, PeerId from, Effects& effects);
std::string hello(Roster& roster, PeerId from, const Hello& message, const std::optional<Error>& closed, Instant now, Effects& effects);
/// A joiner is back over another connection: it takes its seat anew, with what it has fetched meanwhile.
std::string returned(Roster& roster, PeerId from, const Hello& message, Instant now, Effects& effects);
/// Admits all who are caught up; returns those admitted, by age. The first view waits for its quorum.
std::vector<PeerId> admit(Roster& roster, Instant now, Effects& effects);

}  // namespace prime::membership
