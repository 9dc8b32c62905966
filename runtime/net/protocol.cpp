// Owns the names of protocols and roles.
#include "runtime/net/protocol.hpp"

#include <algorithm>

namespace prime::net {

std::string_view name(Protocol protocol) {
  switch (protocol) {
    case Protocol::Control: return "prime-control/3";
    case Protocol::Lane: return "prime-lane/3";
    case Protocol::State: return "prime-state/3";
    case Protocol::Relay: return "prime-relay/3";
    case Protocol::Probe: return "prime-probe/3";
  }
  return {};
}

std::optional<Protocol> parse_protocol(std::string_view text) {
  const auto* const found = std::ranges::find(PROTOCOLS, text, [](Protocol protocol) { return name(protocol); });
  if (found == PROTOCOLS.end()) return std::nullopt;
  return *found;
}

std::string_view name(Role role) { return role == Role::Coordinator ? "coordinator" : "peer"; }

std::optional<Role> parse_role(std::string_view text) {
  for (const Role role : {Role::Coordinator, Role::Peer})
    if (name(role) == text) return role;
  return std::nullopt;
}

std::string describe(const Identity& who) {
  return who.role == Role::Coordinator ? "the coordinator " + to_string(who.id) : "peer " + to_string(who.id);
}

std::string describe(const Expectation& who) {
  if (who.id) return describe(Identity{who.role, *who.id});
  return who.role == Role::Coordinator ? "the coordinator" : "a peer";
}

}  // namespace prime::net
