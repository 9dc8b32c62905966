#include "runtime/net/reachable.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <optional>

#include "runtime/clock.hpp"
#include "runtime/net/resolve.hpp"
#include "runtime/net/run_key.hpp"
#include "runtime/net/socket.hpp"

namespace prime::net {
namespace {

/// For the look-up of the name that is listened at.
constexpr Duration NAME_LIMIT = 5s;

/// Connecting a datagram socket sends nothing; it only makes the kernel choose the route.
std::optional<std::string> route_to(const SocketAddress& target) {
  const Socket socket{::socket(target.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  SocketAddress own;
  own.size = sizeof own.storage;
  if (socket.fd() < 0 || ::connect(socket.fd(), target.get(), target.size) != 0 || ::getsockname(socket.fd(), own.get(), &own.size) != 0)
    return std::nullopt;
  return own.host();
}

/// By addresses for documentation (RFC 5737, 3849): nobody's, so that only the default route leads to them.
std::vector<std::string> default_route_addresses() {
  std::vector<std::string> found;
  for (const auto* anywhere : {"192.0.2.1", "2001:db8::1"})
    for (const auto& address : resolve_number({anywhere, 9}))
      if (auto own = route_to(address)) found.push_back(*std::move(own));
  return found;
}

/// Those that programs for containers and virtual machines give their bridges.
bool is_for_guests(std::string_view interface) {
  constexpr std::array<std::string_view, 8> BEGINNINGS{"docker", "br-", "virbr", "podman", "cni", "lxcbr", "lxdbr", "vmnet"};
  return std::ranges::any_of(BEGINNINGS, [&](std::string_view beginning) { return interface.starts_with(beginning); });
}

/// The lower, the likelier.
int rank(const OwnAddress& address) {
  const bool is_v4 = address.host.find(':') == std::string::npos;
  switch (address.reach) {
    case Reach::Anywhere: return is_v4 ? (address.routed ? 1 : 2) : 0;
    case Reach::Network: return address.routed && is_v4 ? 1 : is_v4 ? 2 : 3;
    case Reach::Containers: return 4;
    case Reach::Link: return 5;
    case Reach::Machine: break;
  }
  return 6;
}

void add(Addresses& told, const Endpoint& address) {
  if (told.list.size() < MAX_ADDRESSES && std::ranges::find(told.list, address) == told.list.end()) told.list.push_back(address);
}

/// `HOST` or `HOST:PORT`; IPv6 without a port needs no brackets.
Endpoint advertised(const std::string& text, std::uint16_t port) {
  const bool bare = resolve_number({text, 1}).size() == 1 || text.find(':') == std::string::npos;
  if (!bare)
    if (auto endpoint = parse_endpoint(text)) return *std::move(endpoint);
  return {text, port};
}

}  // namespace

bool is_wildcard(const std::string& host) { return host.empty() || host == "0.0.0.0" || host == "::"; }

bool is_loopback(const std::string& host) { return host.starts_with("127.") || host == "::1" || host == "localhost"; }

std::string_view reach_text(Reach reach) {
  switch (reach) {
    case Reach::Anywhere: return "anywhere";
    case Reach::Network: return "its own network";
    case Reach::Containers: return "containers of this machine";
    case Reach::Link: return "one link";
    case Reach::Machine: return "this machine";
  }
  return "";
}

Reach reach_of(const std::string& host) {
  if (is_loopback(host)) return Reach::Machine;
  if (in_addr v4{}; ::inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    const auto number = ntohl(v4.s_addr);
    const auto within = [&](std::uint32_t network, unsigned bits) { return number >> (32 - bits) == network >> (32 - bits); };
    if (within(0xa9fe0000, 16)) return Reach::Link;  // 169.254/16
    const bool is_private = within(0x0a000000, 8) || within(0xac100000, 12) || within(0xc0a80000, 16) || within(0x64400000, 10);
    return is_private ? Reach::Network : Reach::Anywhere;
  }
  if (in6_addr v6{}; ::inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &v6) == 1) {
    if (IN6_IS_ADDR_LINKLOCAL(&v6)) return Reach::Link;
    return (v6.s6_addr[0] & 0xfeU) == 0xfc ? Reach::Network : Reach::Anywhere;
  }
  return Reach::Anywhere;
}

std::vector<OwnAddress> own_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  const auto routed = default_route_addresses();
  std::vector<OwnAddress> found;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0U) continue;
    const auto family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    SocketAddress address;
    address.size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, at->ifa_addr, address.size);
    OwnAddress own{address.host(), at->ifa_name, Reach::Machine};
    own.reach = reach_of(own.host);
    // One link's IPv6 address means nothing without the name that the other end has for the link.
    if (own.reach == Reach::Machine || (own.reach == Reach::Link && family == AF_INET6)) continue;
    own.routed = std::ranges::find(routed, own.host) != routed.end();
    if (!own.routed && is_for_guests(own.interface)) own.reach = Reach::Containers;
    found.push_back(std::move(own));
  }
  std::ranges::stable_sort(found, [](const OwnAddress& a, const OwnAddress& b) {
    return std::pair{rank(a), !a.routed} < std::pair{rank(b), !b.routed};
  });
  return found;
}

Result<std::vector<std::string>> addresses_towards(const Addresses& target, Duration limit) {
  const auto until = monotonic_now() + limit;
  std::vector<std::string> found;
  std::optional<Error> cause;
  for (const auto& endpoint : target.list) {
    const auto addresses = resolve(endpoint, AddressUse::Dial, until);
    if (!addresses) {
      cause = addresses.error();
      continue;
    }
    for (const auto& address : *addresses)
      if (auto own = route_to(address); own && std::ranges::find(found, *own) == found.end()) found.push_back(*std::move(own));
  }
  if (!found.empty()) return found;
  if (cause) return fail(*std::move(cause));
  return fail(ErrorName::RunUnreachable, "this machine has no way to " + format_addresses(target));
}

Listening listening_for(const Endpoint& asked) {
  const bool is_name = !is_wildcard(asked.host) && asked.host != "localhost" && resolve_number(asked).empty();
  if (!is_name) return {asked};
  const auto found = resolve(asked, AddressUse::Listen, monotonic_now() + NAME_LIMIT);
  const auto is_local = [](const SocketAddress& address) { return is_loopback(address.host()); };
  if (!found || !std::ranges::all_of(*found, is_local)) return {asked};
  return {{"", asked.port}, asked.host};
}

Endpoint listen_towards(const std::vector<std::string>& own_addresses) {
  if (std::ranges::all_of(own_addresses, is_loopback)) return {own_addresses.empty() ? "127.0.0.1" : own_addresses.front(), 0};
  return {"", 0};
}

Addresses told_addresses(const Listening& listening, std::uint16_t port, const std::vector<std::string>& advertise,
                         const std::vector<std::string>& towards) {
  const auto& host = listening.at.host;
  Addresses told;
  for (const auto& text : advertise) add(told, advertised(text, port));
  if (!told.list.empty()) return told;
  if (!is_wildcard(host)) {
    add(told, {host, port});
    // Others may not know the name.
    if (resolve_number(listening.at).empty())
      if (const auto found = resolve(listening.at, AddressUse::Listen, monotonic_now() + NAME_LIMIT))
        for (const auto& address : *found)
          if (!is_loopback(address.host())) add(told, {address.host(), port});
    return told;
  }
  const auto takes = [&](const std::string& own) { return host != "0.0.0.0" || own.find(':') == std::string::npos; };
  for (const auto& own : towards)
    if (!is_loopback(own) && takes(own)) add(told, {own, port});
  for (const auto& own : own_addresses())
    if (takes(own.host)) add(told, {own.host, port});
  // Others may know it better than its own machine does.
  if (!listening.name.empty()) add(told, {listening.name, port});
  if (told.list.empty()) add(told, {host == "::" ? "::1" : "127.0.0.1", port});
  return told;
}

Result<Addresses> peer_addresses(const Listening& listening, std::uint16_t port, const std::vector<std::string>& advertise,
                                 const std::vector<std::string>& towards) {
  auto told = told_addresses(listening, port, advertise, towards);
  const auto is_local = [](const Endpoint& each) { return is_loopback(each.host); };
  if (std::ranges::all_of(told.list, is_local) && !std::ranges::all_of(towards, is_loopback))
    return fail(ErrorName::AddressUnreachable, format_addresses(told) + " is this machine alone, and the run is not on it");
  return told;
}

}  // namespace prime::net
