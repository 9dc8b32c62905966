// Owns look-ups, and their deadline: the system's resolver has none.
#include "runtime/net/resolve.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <future>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <string_view>
#include <sys/un.h>
#include <thread>
#include <utility>

#include "messages/assert.hpp"
#include "runtime/net/run_key.hpp"

namespace prime::net {

namespace {

struct LookUp {
  int status = 0;
  std::vector<SocketAddress> addresses;
};

LookUp look_up(const Endpoint& endpoint, AddressUse use, int flags) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags | AI_NUMERICSERV | (use == AddressUse::Listen ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  LookUp result;
  result.status = ::getaddrinfo(endpoint.host.empty() ? nullptr : endpoint.host.c_str(), port.c_str(), &wanted, &found);
  if (result.status != 0) return result;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    if (at->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress& address = result.addresses.emplace_back();
    std::memcpy(&address.storage, at->ai_addr, at->ai_addrlen);
    address.size = at->ai_addrlen;
  }
  return result;
}

}  // namespace

std::uint16_t SocketAddress::port() const {
  if (storage.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

std::string SocketAddress::host() const {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(get(), size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "?";
  constexpr std::string_view MAPPED = "::ffff:";
  const std::string_view host(text.data());
  const bool is_mapped = host.starts_with(MAPPED) && host.find('.') != std::string_view::npos;
  return std::string(is_mapped ? host.substr(MAPPED.size()) : host);
}

std::vector<SocketAddress> resolve_number(const Endpoint& endpoint, AddressUse use) {
  return look_up(endpoint, use, AI_NUMERICHOST).addresses;
}

std::future<Result<std::vector<SocketAddress>>> resolve_later(const Endpoint& endpoint, AddressUse use) {
  using Found = Result<std::vector<SocketAddress>>;
  // A thread of its own, left behind when it is late: getaddrinfo can be neither timed nor cancelled, but it does end.
  auto promise = std::make_shared<std::promise<Found>>();
  auto future = promise->get_future();
  std::thread([promise, endpoint, use] {
    LookUp named = look_up(endpoint, use, 0);
    if (named.status != 0) promise->set_value(fail(ErrorName::RunUnreachable, ::gai_strerror(named.status)));
    else if (named.addresses.empty()) promise->set_value(fail(ErrorName::RunUnreachable, "the name has no address"));
    else promise->set_value(Found{std::move(named.addresses)});
  }).detach();
  return future;
}

Result<std::vector<SocketAddress>> resolve(const Endpoint& endpoint, AddressUse use, Instant until) {
  if (auto numeric = resolve_number(endpoint, use); !numeric.empty()) return numeric;
  auto future = resolve_later(endpoint, use);
  const std::string where = format_endpoint(endpoint);
  if (future.wait_until(until) != std::future_status::ready)
    return fail(ErrorName::RunUnreachable, where + ": the name was not resolved in time");
  auto found = future.get();
  if (!found) return fail(found.error().name, where + ": " + found.error().detail);
  return found;
}

SocketAddress abstract_address(const std::string& name) {
  sockaddr_un local{};
  PRIME_ASSERT(name.size() < sizeof local.sun_path, "a local name fits");
  local.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), local.sun_path + 1);  // the first byte stays zero
  SocketAddress address;
  std::memcpy(&address.storage, &local, sizeof local);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

}  // namespace prime::net
