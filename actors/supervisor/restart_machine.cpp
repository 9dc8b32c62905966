#include "actors/supervisor/restart_machine.hpp"

#include <string>
#include <utility>

namespace prime::supervisor {

namespace {

Error without_digits(Error cause) {
  const auto strip = [](std::string& text) { std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; }); };
  strip(cause.detail);
  for (auto& each : cause.context) strip(each);
  return cause;
}

/// A time or a process's number in its last words makes no other cause of it. Of a value that is not finite the place is the cause.
bool are_alike(const Error& one, const Error& other) {
  if (one.name == ErrorName::NonFiniteValue) return one == other;
  return without_digits(one) == without_digits(other);
}

}  // namespace

Transition child_died(State state, const Error& cause, Instant now, bool began) {
  while (!state.restarts.empty() && now - state.restarts.front() > state.options.within) state.restarts.pop_front();
  if (cause.name == ErrorName::Interrupted)
    return {std::move(state), Restart{static_cast<std::uint32_t>(state.restarts.size())},
            "it was told to begin anew, which is not its fault"};
  if (info(cause.name).klass == ErrorClass::User) return {std::move(state), GiveUp{cause}, "a restart does not cure it"};
  const auto before = std::exchange(state.last, cause);
  if (before && are_alike(*before, cause) && (!began || cause.name == ErrorName::NonFiniteValue)) {
    auto repeated = cause;
    repeated.detail += "; it failed like that twice, so that another restart would not help";
    return {std::move(state), GiveUp{std::move(repeated)}, "it fails alike each time"};
  }
  if (state.restarts.size() >= state.options.restarts) {
    auto final_cause = Error{ErrorName::TrainerFailed, std::to_string(state.restarts.size()) + " restarts within " +
                                                           format_duration(state.options.within) + "; the last cause: " + to_string(cause)};
    return {std::move(state), GiveUp{std::move(final_cause)}, "the restart intensity is used up"};
  }
  state.restarts.push_back(now);
  const auto number = static_cast<std::uint32_t>(state.restarts.size());
  return {std::move(state), Restart{number}, "restart " + std::to_string(number) + " of " + std::to_string(number)};
}

}  // namespace prime::supervisor
