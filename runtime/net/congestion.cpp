// Owns the socket options of congestion control, and the comparison of addresses.
#include "runtime/net/congestion.hpp"

#include <array>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <vector>

#include "runtime/net/socket.hpp"

namespace prime::net {
namespace {

/// The address alone, without port; IPv4 in an IPv6 socket counts as IPv4. Empty for other families.
std::vector<unsigned char> address_bytes(const sockaddr_storage& address) {
  const auto copy = [](const void* from, std::size_t count) {
    const auto* bytes = static_cast<const unsigned char*>(from);
    return std::vector<unsigned char>(bytes, bytes + count);
  };
  if (address.ss_family == AF_INET) return copy(&reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  if (address.ss_family != AF_INET6) return {};
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) return copy(v6.s6_addr + 12, 4);
  return copy(&v6, 16);
}

sockaddr_storage storage_of(const sockaddr* address) {
  sockaddr_storage storage{};
  std::memcpy(&storage, address, address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  return storage;
}

bool on_same_segment(const sockaddr_storage& local, const sockaddr_storage& remote) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_netmask == nullptr) continue;
    if (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6) continue;
    const auto ours = storage_of(at->ifa_addr);
    // Some systems leave the family of a mask unset.
    auto mask = storage_of(at->ifa_addr);
    std::memcpy(&mask, at->ifa_netmask, ours.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    mask.ss_family = ours.ss_family;
    if (address_bytes(ours) == address_bytes(local) && same_network(local, remote, mask)) return true;
  }
  return false;
}

/// Of a socket's two ends; of no family where it is not connected.
std::pair<sockaddr_storage, sockaddr_storage> ends_of(int fd) {
  std::pair<sockaddr_storage, sockaddr_storage> ends{};
  socklen_t local_size = sizeof ends.first;
  socklen_t remote_size = sizeof ends.second;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&ends.first), &local_size) != 0) return {};
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&ends.second), &remote_size) != 0) return {};
  return ends;
}

/// The system's congestion control, where it is one that paces and could be put back; else empty. Not kept: it may change, and there may
/// be no descriptor to ask with just now.
std::string paced_default() {
  const Socket untouched(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  auto name = congestion_control(untouched.fd());
  const bool can_go_back = set_congestion_control(untouched.fd(), UNPACED) && set_congestion_control(untouched.fd(), name);
  return name.starts_with("bbr") && can_go_back ? name : "";
}

}  // namespace

void begin_unpaced(int fd) {
  if (!paced_default().empty()) set_congestion_control(fd, UNPACED);
}

void end_unpaced_if_far(int fd) {
  if (congestion_control(fd) != UNPACED || is_near(fd)) return;
  if (const auto name = paced_default(); !name.empty()) set_congestion_control(fd, name);
}

bool set_congestion_control(int fd, const std::string& name) {
  return ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
}

std::string congestion_control(int fd) {
  std::array<char, 32> name{};
  socklen_t size = name.size() - 1;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) == 0 ? name.data() : "";
}

bool is_here(int fd) {
  const auto [local, remote] = ends_of(fd);
  const auto here = address_bytes(local);
  const auto there = address_bytes(remote);
  return !here.empty() && (here == there || (here.size() == 4 && there.size() == 4 && here[0] == 127 && there[0] == 127));
}

std::pair<std::uint16_t, std::uint16_t> ports_of(int fd) {
  const auto [local, remote] = ends_of(fd);
  const auto port = [](const sockaddr_storage& address) -> std::uint16_t {
    if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
    return address.ss_family == AF_INET6 ? ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port) : std::uint16_t{0};
  };
  return {port(local), port(remote)};
}

bool is_near(int fd) {
  const auto [local, remote] = ends_of(fd);
  return is_here(fd) || (!address_bytes(local).empty() && on_same_segment(local, remote));
}

bool same_network(const sockaddr_storage& a, const sockaddr_storage& b, const sockaddr_storage& mask) {
  const auto left = address_bytes(a);
  const auto right = address_bytes(b);
  const auto bits = address_bytes(mask);
  if (left.empty() || left.size() != right.size() || left.size() != bits.size()) return false;
  for (std::size_t i = 0; i < left.size(); ++i)
    if (((left[i] ^ right[i]) & bits[i]) != 0) return false;
  return true;
}

}  // namespace prime::net
