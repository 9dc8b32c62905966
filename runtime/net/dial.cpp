// Owns the steps of dialing and their shares of the deadline.
#include "runtime/net/dial.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <sys/socket.h>
#include <vector>

#include "runtime/net/address_race.hpp"
#include "runtime/net/handshake.hpp"
#include "runtime/net/memory_channel.hpp"
#include "runtime/net/plain_channel.hpp"
#include "runtime/net/relay.hpp"
#include "runtime/net/resolve.hpp"
#include "runtime/net/socket.hpp"

namespace prime::net {

namespace {

tl::unexpected<Error> unreachable(const std::string& cause) { return fail(ErrorName::RunUnreachable, cause); }

/// Of a wait that has ended without what it was for.
tl::unexpected<Error> no_answer(const std::string& cause, const StopSignal* stop) {
  return stop != nullptr && stop->stopped() ? fail(ErrorName::Interrupted, "who dials ends") : unreachable(cause);
}

/// Empty when done.
Result<void> drive(Handshake& handshake, int fd, Instant until, const StopSignal* stop) {
  for (;;) {
    switch (handshake.advance()) {
      case Handshake::Step::Done: return {};
      case Handshake::Step::Failed: return fail(handshake.error());
      case Handshake::Step::WantRead:
        if (!wait_ready(fd, POLLIN, until, stop)) return no_answer("connected, but no answer in time", stop);
        break;
      case Handshake::Step::WantWrite:
        if (!wait_ready(fd, POLLOUT, until, stop)) return no_answer("connected, but no answer in time", stop);
        break;
    }
  }
}

std::unique_ptr<Handshake> handshake_of(const SocketPtr& socket, Protocol protocol, const Credentials& credentials, const Expectation& who,
                                        Transport transport) {
  return transport == Transport::Tls ? dial_tls(socket, credentials, protocol, who) : dial_plain(socket, credentials, protocol, who);
}

/// After this the socket leads to the peer that was asked for.
Result<void> hear_of_passing_on(const SocketPtr& socket, Instant until, const StopSignal* stop) {
  std::byte answer{};
  if (!wait_ready(socket->fd(), POLLIN, until, stop)) return no_answer("it does not answer in time", stop);
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

Result<SocketPtr> connect_to(const Addresses& addresses, Instant until, const StopSignal* stop) {
  PRIME_TRY(auto won, race(
                          addresses, [](const SocketPtr&) { return nullptr; }, until, stop));
  return std::move(won.socket);
}

Result<ChannelPtr> dial_memory(const Credentials& credentials, PeerId peer, DialLimit limit) {
  const auto until = monotonic_now() + limit.timeout;
  const SocketAddress address = abstract_address(local_name(credentials, peer));
  PRIME_TRY(const SocketPtr socket, begin_connect(address.get(), address.size));
  const auto handshake = dial_plain(socket, credentials, Protocol::Lane, Expectation::peer(peer));
  PRIME_CHECK(drive(*handshake, socket->fd(), until, limit.stop));
  return MemoryChannel::offer(handshake->take_channel());
}

Result<ChannelPtr> dial(const Addresses& addresses, Protocol protocol, const Credentials& credentials, const Expectation& who,
                        DialLimit limit, Transport transport, AddressMemory* memory) {
  const auto begin = [&](const SocketPtr& socket) { return handshake_of(socket, protocol, credentials, who, transport); };
  PRIME_TRY(auto won, race(memory != nullptr ? memory->order(addresses) : addresses, begin, monotonic_now() + limit.timeout, limit.stop));
  if (memory != nullptr) memory->note(addresses, won.address);
  return won.handshake->take_channel();
}

Result<ChannelPtr> dial_through(const Addresses& addresses, PeerId through, Protocol protocol, const Credentials& credentials, PeerId peer,
                                DialLimit limit, Transport transport, AddressMemory* memory) {
  const Instant until = monotonic_now() + limit.timeout;
  const auto where = "through peer " + to_string(through);
  const auto ask = [&](const SocketPtr& socket) {
    return dial_plain(socket, credentials, Protocol::Relay, Expectation::peer(through), peer);
  };
  const auto relay = race(memory != nullptr ? memory->order(addresses) : addresses, ask, until, limit.stop);
  if (!relay) return at(where, relay.error());
  if (memory != nullptr) memory->note(addresses, relay->address);
  const auto& socket = relay->socket;
  if (auto passed_on = hear_of_passing_on(socket, until, limit.stop); !passed_on) return at(where, passed_on.error());
  const auto handshake = handshake_of(socket, protocol, credentials, Expectation::peer(peer), transport);
  if (auto done = drive(*handshake, socket->fd(), until, limit.stop); !done) return at(where, done.error());
  return handshake->take_channel();
}

}  // namespace prime::net
