// Owns the words that both ends of a connection must agree on: protocols, roles, transports, and their names on the wire.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "messages/ids.hpp"

namespace prime::net {

/// What a connection is for. One port serves all; the dialer says which. By Relay it asks to be passed on to another peer
/// (relay.hpp), by Probe what the way is like (probe.hpp).
enum class Protocol : std::uint8_t { Control, Lane, State, Relay, Probe };
/// Those that TLS protects. What is passed on protects itself.
inline constexpr std::array PROTOCOLS{Protocol::Control, Protocol::Lane, Protocol::State, Protocol::Probe};

/// How a connection is protected. Plain proves the run key at both ends and then sends in the clear; control is never plain.
enum class Transport : std::uint8_t { Tls, Plain };

enum class Role : std::uint8_t { Coordinator, Peer };

/// Who a process is. The id of a coordinator is that of its incarnation.
struct Identity {
  Role role = Role::Peer;
  PeerId id;
  friend bool operator==(const Identity&, const Identity&) = default;
};

/// Whom a dialer will talk to; everybody else who answers is refused.
struct Expectation {
  Role role = Role::Coordinator;
  std::optional<PeerId> id;  ///< absent: any incarnation
  static Expectation coordinator() { return {Role::Coordinator, std::nullopt}; }
  static Expectation peer(PeerId id) { return {Role::Peer, id}; }
  [[nodiscard]] bool met_by(const Identity& who) const { return who.role == role && (!id || *id == who.id); }
};

/// "prime-control/3", "prime-lane/3", "prime-state/3": the names in ALPN. The number is that of the handshake; what
/// follows has its own (PROTOCOL_VERSION, FRAME_VERSION).
std::string_view name(Protocol protocol);
std::optional<Protocol> parse_protocol(std::string_view text);
/// "coordinator", "peer": as in the certificate's subject.
std::string_view name(Role role);
std::optional<Role> parse_role(std::string_view text);
/// "the coordinator", "peer 00000000000000ff": for error details.
std::string describe(const Identity& who);
std::string describe(const Expectation& who);

}  // namespace prime::net
