// Owns reading the monotonic clock. Machines do not: whoever drives them hands them the instant.
#pragma once

#include "messages/units.hpp"

namespace prime {

inline Instant monotonic_now() { return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now()); }

}  // namespace prime
