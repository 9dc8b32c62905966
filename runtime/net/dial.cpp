// Owns the steps of dialing and their shares of the deadline.
#include "runtime/net/dial.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <sys/socket.h>
#include <vector>

#include "runtime/net/congestion.hpp"
#include "runtime/net/handshake.hpp"
#include "runtime/net/memory_channel.hpp"
#include "runtime/net/plain_channel.hpp"
#include "runtime/net/relay.hpp"
#include "runtime/net/resolve.hpp"
#include "runtime/net/run_key.hpp"
#include "runtime/net/socket.hpp"

namespace prime::net {

namespace {

tl::unexpected<Error> unreachable(const std::string& cause) { return fail(ErrorName::RunUnreachable, cause); }

Result<SocketPtr> connect_socket(const SocketAddress& address, Instant until) {
  const int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return unreachable(error_text(errno));
  auto socket = std::make_shared<Socket>(fd);
  begin_unpaced(fd);
  if (::connect(fd, address.get(), address.size) != 0) {
    if (errno != EINPROGRESS) return unreachable(error_text(errno));
    if (!wait_ready(fd, POLLOUT, until)) return unreachable("no answer in time");
    int error_number = 0;
    socklen_t size = sizeof error_number;
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error_number, &size);
    if (error_number != 0) return unreachable(error_text(error_number));
  }
  set_connection_options(fd);
  end_unpaced_if_far(fd);
  return socket;
}

/// Tries one address after the other; each gets its share of the time, so that a dead one leaves some for the next.
Result<SocketPtr> connect_to_any(const std::vector<SocketAddress>& addresses, Instant until) {
  Error last(ErrorName::RunUnreachable, "no address");
  for (std::size_t at = 0; at < addresses.size(); ++at) {
    const Duration share = (until - monotonic_now()) / static_cast<std::int64_t>(addresses.size() - at);
    auto socket = connect_socket(addresses[at], monotonic_now() + share);
    if (socket) return socket;
    last = std::move(socket).error();
  }
  return fail(std::move(last));
}

/// Empty when done.
Result<void> drive(Handshake& handshake, int fd, Instant until) {
  for (;;) {
    switch (handshake.advance()) {
      case Handshake::Step::Done: return {};
      case Handshake::Step::Failed: return fail(handshake.error());
      case Handshake::Step::WantRead:
        if (!wait_ready(fd, POLLIN, until)) return unreachable("connected, but no answer in time");
        break;
      case Handshake::Step::WantWrite:
        if (!wait_ready(fd, POLLOUT, until)) return unreachable("connected, but no answer in time");
        break;
    }
  }
}

Result<ChannelPtr> shake_hands(const SocketPtr& socket, Protocol protocol, const Credentials& credentials, const Expectation& who,
                               Instant until, Transport transport) {
  const auto handshake =
      transport == Transport::Tls ? dial_tls(socket, credentials, protocol, who) : dial_plain(socket, credentials, protocol, who);
  PRIME_CHECK(drive(*handshake, socket->fd(), until));
  return handshake->take_channel();
}

/// After this the socket leads to `peer`.
Result<void> ask_to_pass_on(const SocketPtr& socket, PeerId through, const Credentials& credentials, PeerId peer, Instant until) {
  const auto handshake = dial_plain(socket, credentials, Protocol::Relay, Expectation::peer(through), peer);
  PRIME_CHECK(drive(*handshake, socket->fd(), until));
  std::byte answer{};
  if (!wait_ready(socket->fd(), POLLIN, until)) return unreachable("it does not answer in time");
  if (receive_some(socket->fd(), {&answer, 1}).state != Channel::State::Ok) return unreachable("it answers nothing");
  switch (static_cast<RelayAnswer>(answer)) {
    case RelayAnswer::Connected: return {};
    case RelayAnswer::NoMember: return unreachable("it does not know both as members");
    case RelayAnswer::Busy: return unreachable("it passes on as many as it can");
    case RelayAnswer::Unreachable: return unreachable("it cannot reach it");
  }
  return unreachable("it answers something else");
}

tl::unexpected<Error> at(const std::string& where, Error error) {
  error.detail = where + ": " + error.detail;
  return fail(std::move(error));
}

}  // namespace

Result<SocketPtr> connect_to(const Endpoint& endpoint, Instant until) {
  PRIME_TRY(const auto addresses, resolve(endpoint, AddressUse::Dial, until));
  return connect_to_any(addresses, until);
}

Result<ChannelPtr> dial_memory(const Credentials& credentials, PeerId peer, Duration timeout) {
  SocketAddress address = abstract_address(local_name(credentials, peer));
  PRIME_TRY(const SocketPtr socket, connect_socket(address, monotonic_now() + timeout));
  const auto handshake = dial_plain(socket, credentials, Protocol::Lane, Expectation::peer(peer));
  PRIME_CHECK(drive(*handshake, socket->fd(), monotonic_now() + timeout));
  return MemoryChannel::offer(handshake->take_channel());
}

Result<ChannelPtr> dial(const Endpoint& endpoint, Protocol protocol, const Credentials& credentials, const Expectation& who,
                        Duration timeout, Transport transport) {
  const Instant until = monotonic_now() + timeout;
  PRIME_TRY(const auto addresses, resolve(endpoint, AddressUse::Dial, until));
  const auto socket = connect_to_any(addresses, until);
  if (!socket) return at(format_endpoint(endpoint), socket.error());
  auto channel = shake_hands(*socket, protocol, credentials, who, until, transport);
  return channel ? std::move(channel) : at(format_endpoint(endpoint), std::move(channel).error());
}

Result<ChannelPtr> dial_through(const Endpoint& endpoint, PeerId through, const Credentials& credentials, PeerId peer, Duration timeout,
                                Transport transport) {
  const Instant until = monotonic_now() + timeout;
  const auto where = "through peer " + to_string(through);
  const auto socket = connect_to(endpoint, until);
  if (!socket) return at(where, socket.error());
  if (auto passed_on = ask_to_pass_on(*socket, through, credentials, peer, until); !passed_on) return at(where, passed_on.error());
  auto channel = shake_hands(*socket, Protocol::Lane, credentials, Expectation::peer(peer), until, transport);
  return channel ? std::move(channel) : at(where, std::move(channel).error());
}

}  // namespace prime::net
