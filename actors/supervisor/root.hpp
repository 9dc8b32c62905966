// Owns the root of a process's actors: whatever ends there without being told to ends the process, by name. A peer, a reduce worker, a
// supervisor or a coordinator holds a place in a protocol, which an actor started in its stead could not take.
#pragma once

#include <caf/actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>
#include <functional>
#include <string>

#include "messages/result.hpp"

namespace prime {

/// `crashed` is called once, on any thread, at once if the actor has ended already.
template <class Handle>
void end_with(const Handle& actor, std::string name, std::function<void(Error)> crashed) {
  caf::actor_cast<caf::actor>(actor)->attach_functor([name = std::move(name), crashed = std::move(crashed)](const caf::error& reason) {
    if (!reason || reason == caf::exit_reason::user_shutdown) return;
    crashed(
        Error{ErrorName::InternalError, "the " + name + " crashed (" + to_string(reason) + "); this is a defect: report it with the log"});
  });
}

}  // namespace prime
