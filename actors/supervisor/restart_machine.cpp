#include "actors/supervisor/restart_machine.hpp"

#include <utility>

namespace prime::supervisor {

Transition child_died(State state, const Error& cause, Instant now, bool began) {
  while (!state.restarts.empty() && now - state.restarts.front() > state.options.within) state.restarts.pop_front();
  if (cause.name == ErrorName::Interrupted)
    return {std::move(state), Restart{static_cast<std::uint32_t>(state.restarts.size())},
            "it was told to begin anew, which is not its fault"};
  if (info(cause.name).klass == ErrorClass::User) return {std::move(state), GiveUp{cause}, "a restart does not cure it"};
  const bool same = std::exchange(state.last, cause) == cause;
  if (same && (!began || cause.name == ErrorName::NonFiniteValue)) {
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
