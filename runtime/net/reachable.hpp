// Owns the question by which address others reach a process that listens on this machine.
#pragma once

#include <optional>
#include <string>

#include "messages/membership.hpp"
#include "messages/result.hpp"
#include "messages/units.hpp"

namespace prime::net {

/// All addresses of the machine: `0.0.0.0`, `::`, or nothing.
[[nodiscard]] bool is_wildcard(const std::string& host);
/// A numeric address that only this machine can dial, or `localhost`.
[[nodiscard]] bool is_loopback(const std::string& host);

/// The numeric address of this machine on the way to `target`; a loopback one when `target` is this machine itself.
/// Errors: RunUnreachable when the name has no address, or there is no way to it, within `limit`.
Result<std::string> address_towards(const Endpoint& target, Duration limit);

/// Where a peer listens when its manifest does not say: on loopback for a coordinator of this machine, else on all addresses.
Endpoint listen_towards(const std::string& own_address);

/// The host that a peer which listens at `listening` is to be reached by, given its own address on the way to the coordinator.
/// Errors: AddressUnreachable when the coordinator is elsewhere and the host is a loopback one.
Result<std::string> peer_host(const std::string& listening, const std::optional<std::string>& advertise, const std::string& own_address);

/// The host that the coordinator's invite names: what is advertised, the listening one, or of a wildcard the machine's address on
/// its default route (its first one without a route; loopback when it has no other).
std::string coordinator_host(const std::string& listening, const std::optional<std::string>& advertise);

}  // namespace prime::net
