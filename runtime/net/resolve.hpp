// Owns the way from a host's name to socket addresses, and back to a text.
#pragma once

#include <future>
#include <string>
#include <sys/socket.h>
#include <vector>

#include "messages/membership.hpp"
#include "messages/result.hpp"
#include "messages/units.hpp"

namespace prime::net {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] std::uint16_t port() const;
  /// The numeric host; an IPv4 address that arrived through an IPv6 socket reads as IPv4.
  [[nodiscard]] std::string host() const;
};

/// Of a local socket in the abstract namespace: it has no file, and ends with its process.
SocketAddress abstract_address(const std::string& name);

enum class AddressUse : std::uint8_t { Dial, Listen };

/// Of a number; none where the host is a name.
std::vector<SocketAddress> resolve_number(const Endpoint& endpoint, AddressUse use = AddressUse::Dial);
/// At least one address of a name. The look-up goes on, and ends, whether or not somebody waits for it.
std::future<Result<std::vector<SocketAddress>>> resolve_later(const Endpoint& endpoint, AddressUse use);
/// At least one address. A number is read at once; a name is looked up for at most `until`. RunUnreachable says what failed.
Result<std::vector<SocketAddress>> resolve(const Endpoint& endpoint, AddressUse use, Instant until);

}  // namespace prime::net
