#include "runtime/net/reachable.hpp"

#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include "runtime/clock.hpp"
#include "runtime/net/resolve.hpp"
#include "runtime/net/run_key.hpp"
#include "runtime/net/socket.hpp"

namespace prime::net {
namespace {

/// Connecting a datagram socket sends nothing; it only makes the kernel choose the route.
std::optional<std::string> route_to(const SocketAddress& target) {
  const Socket socket{::socket(target.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  SocketAddress own;
  own.size = sizeof own.storage;
  if (socket.fd() < 0 || ::connect(socket.fd(), target.get(), target.size) != 0 || ::getsockname(socket.fd(), own.get(), &own.size) != 0)
    return std::nullopt;
  return own.host();
}

std::optional<std::string> default_route_address() {
  // An address for documentation (RFC 5737): nobody's, so that only the default route leads to it.
  const auto anywhere = resolve({"192.0.2.1", 9}, AddressUse::Dial, Instant{});
  return anywhere ? route_to(anywhere->front()) : std::nullopt;
}

std::optional<std::string> first_address() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET || (at->ifa_flags & IFF_UP) == 0U) continue;
    SocketAddress address;
    address.size = sizeof(sockaddr_in);
    address.storage = {};
    *reinterpret_cast<sockaddr_in*>(&address.storage) = *reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
    if (auto host = address.host(); !is_loopback(host)) return host;
  }
  return std::nullopt;
}

}  // namespace

bool is_wildcard(const std::string& host) { return host.empty() || host == "0.0.0.0" || host == "::"; }

bool is_loopback(const std::string& host) { return host.starts_with("127.") || host == "::1" || host == "localhost"; }

Result<std::string> address_towards(const Endpoint& target, Duration limit) {
  const auto until = monotonic_now() + limit;
  PRIME_TRY(const auto addresses, resolve(target, AddressUse::Dial, until));
  for (const auto& address : addresses)
    if (auto own = route_to(address)) return *std::move(own);
  return fail(ErrorName::RunUnreachable, "this machine has no way to " + format_endpoint(target));
}

Endpoint listen_towards(const std::string& own_address) {
  if (is_loopback(own_address)) return {own_address, 0};
  return {own_address.find(':') == std::string::npos ? "0.0.0.0" : "::", 0};
}

Result<std::string> peer_host(const std::string& listening, const std::optional<std::string>& advertise, const std::string& own_address) {
  const std::string host = advertise.value_or(is_wildcard(listening) ? own_address : listening);
  if (is_loopback(host) && !is_loopback(own_address))
    return fail(ErrorName::AddressUnreachable, host + " is this machine alone, and the run is not on it");
  return host;
}

std::string coordinator_host(const std::string& listening, const std::optional<std::string>& advertise) {
  if (advertise) return *advertise;
  if (!is_wildcard(listening)) return listening;
  if (auto host = default_route_address()) return *std::move(host);
  return first_address().value_or(listening == "::" ? "::1" : "127.0.0.1");
}

}  // namespace prime::net
