// Owns the question by which addresses others reach a process that listens on this machine.
#pragma once

#include <string>
#include <vector>

#include "messages/membership.hpp"
#include "messages/result.hpp"
#include "messages/units.hpp"

namespace prime::net {

/// All addresses of the machine: `0.0.0.0`, `::`, or nothing.
[[nodiscard]] bool is_wildcard(const std::string& host);
/// A numeric address that only this machine can dial, or `localhost`.
[[nodiscard]] bool is_loopback(const std::string& host);

/// From where an address is likely to be reached, as it looks from here.
enum class Reach : std::uint8_t {
  Anywhere,    ///< an address of the Internet, or a name
  Network,     ///< a private one (RFC 1918, 6598, 4193): its own network, and what a router lets in
  Containers,  ///< of a bridge that container and virtual machine programs make: this machine's guests
  Link,        ///< link-local: nobody gave it one
  Machine,     ///< loopback
};
[[nodiscard]] std::string_view reach_text(Reach reach);
[[nodiscard]] Reach reach_of(const std::string& host);

/// One that this machine has.
struct OwnAddress {
  std::string host;       ///< numeric
  std::string interface;  ///< that has it
  Reach reach;
  bool routed = false;  ///< what goes to the Internet leaves with it
};
/// Those of all interfaces that are up, without loopback and without IPv6 addresses of one link; the likeliest first: global IPv6, IPv4 on
/// the default route, other IPv4, other IPv6, those of containers.
std::vector<OwnAddress> own_addresses();

/// The numeric addresses of this machine on the way to those of `target`, each once; loopback ones when `target` is this machine itself.
/// Errors: RunUnreachable when no name has an address, or there is no way to any, within `limit`.
Result<std::vector<std::string>> addresses_towards(const Addresses& target, Duration limit);

/// Where to listen.
struct Listening {
  Endpoint at;
  std::string name = {};  ///< that was asked for, where it is this machine's own loopback to itself; else empty
};
/// A name that leads to loopback addresses alone here, as Debian's own name does by its line `127.0.1.1 NAME`, was not meant so: nobody
/// else would reach it. Then it is all addresses; but for `localhost`.
Listening listening_for(const Endpoint& asked);
/// Where a peer listens when its manifest does not say: on loopback for a coordinator of this machine, else on all addresses.
Endpoint listen_towards(const std::vector<std::string>& own_addresses);

/// Under which addresses a process is told to others, the likeliest first, at most MAX_ADDRESSES: what is advertised (`HOST` or
/// `HOST:PORT`), or where it listens; of all addresses those `towards` the run, then the machine's others. Loopback ones only where there
/// is nothing else.
Addresses told_addresses(const Listening& listening, std::uint16_t port, const std::vector<std::string>& advertise,
                         const std::vector<std::string>& towards = {});
/// The same of a peer. Errors: AddressUnreachable when the coordinator is elsewhere and nothing but loopback addresses could be told.
Result<Addresses> peer_addresses(const Listening& listening, std::uint16_t port, const std::vector<std::string>& advertise,
                                 const std::vector<std::string>& towards);

}  // namespace prime::net
