#include "runtime/agent/lookout.hpp"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <sys/socket.h>

#include "runtime/clock.hpp"
#include "runtime/net/address_race.hpp"
#include "runtime/net/handshake.hpp"
#include "runtime/net/resolve.hpp"
#include "runtime/net/socket.hpp"

namespace prime {
namespace {

/// Of one look. Whoever is away is looked for again.
constexpr Duration LOOK_LIMIT = 1s;
/// A process that is dying closes what it holds one after the other: where it still listens it will refuse in a moment.
constexpr Duration LOOK_AGAIN = 20ms;
/// Looks at once: those that nobody answers take their whole time.
constexpr std::size_t LOOKERS = 8;
/// More peers than a run ever has at a time; what is forgotten is learnt again.
constexpr std::size_t REACHED_MAX = 65'536;

struct Found {
  PeerId peer;
  Endpoint at;  ///< numeric
};

/// Who answers there, if it is one of this run.
Result<Found> meet(const Addresses& addresses, const net::Credentials& credentials, Instant until, const net::StopSignal& ends) {
  const net::Expectation anybody{net::Role::Peer, std::nullopt};
  const auto begin = [&](const net::SocketPtr& socket) { return net::dial_tls(socket, credentials, net::Protocol::Control, anybody); };
  PRIME_TRY(auto won, net::race(addresses, begin, until, &ends));
  net::SocketAddress where;
  where.size = sizeof where.storage;
  ::getpeername(won.socket->fd(), where.get(), &where.size);
  return Found{won.handshake->take_channel()->peer(), {where.host(), where.port()}};
}

/// Said by the machine there, at once.
bool is_refused(const Endpoint& numeric, Instant until, const net::StopSignal& ends) {
  for (const auto& address : net::resolve_number(numeric)) {
    const int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    const net::Socket socket{fd};
    int cause = ::connect(fd, address.get(), address.size) == 0 ? 0 : errno;
    socklen_t size = sizeof cause;
    if (cause == EINPROGRESS && net::wait_ready(fd, POLLOUT, until, &ends)) ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &cause, &size);
    if (cause == ECONNREFUSED) return true;
  }
  return false;
}

}  // namespace

Lookout::Lookout(net::Credentials credentials, std::function<void(PeerId, std::string)> gone)
    : credentials_(std::move(credentials)), gone_(std::move(gone)) {
  for (std::size_t i = 0; i < LOOKERS; ++i) threads_.emplace_back([this](const std::stop_token& ended) { work(ended); });
}

Lookout::~Lookout() { ends_.stop(); }

void Lookout::look_for(PeerId peer, const Addresses& lanes) {
  const std::lock_guard lock(mutex_);
  if (!looked_for_.insert(peer).second) return;
  orders_.emplace_back(peer, lanes);
  wanted_.notify_one();
}

void Lookout::work(const std::stop_token& ended) {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (!wanted_.wait(lock, ended, [this] { return !orders_.empty(); })) return;
    const auto [peer, lanes] = std::move(orders_.front());
    orders_.pop_front();
    lock.unlock();
    look(peer, lanes);
    lock.lock();
    looked_for_.erase(peer);
  }
}

void Lookout::look(PeerId peer, const Addresses& lanes) {
  const auto until = monotonic_now() + LOOK_LIMIT;
  const auto known = known_at(peer);
  while (monotonic_now() < until) {
    const auto met = meet(known ? Addresses{*known} : lanes, credentials_, until, ends_);
    if (ends_.stopped()) return;  // what ended the look proves nothing
    if (met && met->peer == peer) {
      const std::lock_guard lock(mutex_);
      if (reached_.size() >= REACHED_MAX) reached_.clear();
      reached_.insert_or_assign(peer, met->at);
      return;
    }
    if (!known) return;
    const auto where = net::format_endpoint(*known);
    if (met || met.error().name != ErrorName::RunUnreachable) return gone_(peer, "another process answers at " + where + " instead of it");
    if (is_refused(*known, until, ends_)) return gone_(peer, "its process is gone: " + where + " refuses connections");
    (void)net::wait_ready(ends_.fd(), POLLIN, std::min(until, monotonic_now() + LOOK_AGAIN));
  }
}

std::optional<Endpoint> Lookout::known_at(PeerId peer) {
  const std::lock_guard lock(mutex_);
  const auto found = reached_.find(peer);
  return found == reached_.end() ? std::nullopt : std::optional{found->second};
}

}  // namespace prime
