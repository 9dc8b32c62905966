// Owns how a lane's socket is set up.
#include "runtime/lanes/link_options.hpp"

#include <array>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <span>
#include <string_view>
#include <vector>

namespace prime::lanes {
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

bool is_near(int fd) {
  sockaddr_storage local{};
  sockaddr_storage remote{};
  socklen_t local_size = sizeof local;
  socklen_t remote_size = sizeof remote;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &local_size) != 0) return false;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&remote), &remote_size) != 0) return false;
  if (const auto here = address_bytes(local); !here.empty() && here == address_bytes(remote)) return true;
  return on_same_segment(local, remote);
}

void set(int fd, int level, int name, int value) { (void)setsockopt(fd, level, name, &value, sizeof value); }

}  // namespace

bool same_network(const sockaddr_storage& a, const sockaddr_storage& b, const sockaddr_storage& mask) {
  const auto left = address_bytes(a);
  const auto right = address_bytes(b);
  const auto bits = address_bytes(mask);
  if (left.empty() || left.size() != right.size() || left.size() != bits.size()) return false;
  for (std::size_t i = 0; i < left.size(); ++i)
    if (((left[i] ^ right[i]) & bits[i]) != 0) return false;
  return true;
}

LinkOptions apply_link_options(int fd, bool one_of_several) {
  LinkOptions options;
  options.near = is_near(fd);
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // Outer steps may be hours apart: a link that dies in between shall be known before it is used.
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 20);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  if (one_of_several) set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 128 * 1024);
  // An end that takes nothing for so long is as good as gone, whatever its kernel still answers.
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
  // BBR paces, which costs half the rate where nothing is ever lost; where something is, loss is not its reason to slow down.
  const std::string_view wanted = options.near ? "reno" : "bbr";
  (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, wanted.data(), static_cast<socklen_t>(wanted.size()));
  std::array<char, 32> name{};
  socklen_t size = name.size() - 1;
  if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) == 0) options.congestion = name.data();
  return options;
}

Duration unacknowledged_for(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_unacked == 0) return {};
  return std::chrono::milliseconds(info.tcpi_last_ack_recv);
}

}  // namespace prime::lanes
