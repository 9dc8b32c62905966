// Owns the restart intensity of a supervised child: one-for-one, at most `restarts` within `within`, then give up (OTP's rule). Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>

#include "messages/result.hpp"
#include "messages/units.hpp"

namespace prime::supervisor {

struct Options {
  std::uint32_t restarts = 3;
  Duration within = 10min;
};

struct State {
  Options options;
  std::optional<Error> last;     ///< why it died last
  std::deque<Instant> restarts;  ///< those still within the window; never more than options.restarts
};

struct Restart {
  std::uint32_t number = 0;  ///< how many within the window, this one included
};
struct GiveUp {
  Error cause;
};
using Decision = std::variant<Restart, GiveUp>;

struct Transition {
  State state;
  Decision decision;
  std::string reason;
};

/// A child died. Interrupted: it was told to, so that it begins anew; that counts for nothing. Errors of class User are not cured by a
/// restart: bad data or a wrong layout stay what they are. Nor is what repeats itself in each word, but for figures, before the child has
/// done anything
/// (`began`: it had), or a value that is not finite, from the same state and data, in the same place.
[[nodiscard]] Transition child_died(State state, const Error& cause, Instant now, bool began = true);

}  // namespace prime::supervisor
