// Owns the acceptor's loop. A slow, mute or hostile connection costs a slot and its deadline, never a thread or a spinning core.
#include "runtime/net/acceptor.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <limits>
#include <mutex>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/net/congestion.hpp"
#include "runtime/net/handshake.hpp"
#include "runtime/net/memory_channel.hpp"
#include "runtime/net/resolve.hpp"
#include "runtime/net/run_key.hpp"
#include "runtime/net/socket.hpp"

namespace prime::net {

namespace {

constexpr int BACKLOG = 256;
/// Accepted before unfinished handshakes get their turn again.
constexpr int MAX_ACCEPTED_AT_ONCE = 64;
/// How long the name to listen on may take to resolve.
constexpr Duration RESOLVE_TIMEOUT = 5s;

/// Strangers must not take the descriptors that the run's own files and peers need.
std::size_t quarter_of_the_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::numeric_limits<std::size_t>::max();
  return std::max<std::size_t>(1, limit.rlim_cur / 4);
}

tl::unexpected<Error> taken(const Endpoint& where, const std::string& why) {
  return fail(ErrorName::AddressTaken, format_endpoint(where) + ": " + why);
}

Result<SocketPtr> listen_on(const SocketAddress& address, const Endpoint& where) {
  const int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return taken(where, error_text(errno));
  auto socket = std::make_shared<Socket>(fd);
  // A restart takes its port back at once, though connections of the life before linger.
  const int yes = 1;
  const int no = 0;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  // "All addresses" means those of IPv4 too, whatever the system's default.
  if (address.storage.ss_family == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  begin_unpaced(fd);  // what is accepted inherits it
  if (::bind(fd, address.get(), address.size) != 0 || ::listen(fd, BACKLOG) != 0) return taken(where, error_text(errno));
  return socket;
}

std::uint16_t bound_port(int fd) {
  SocketAddress address;
  address.size = sizeof address.storage;
  ::getsockname(fd, address.get(), &address.size);
  return address.port();
}

/// Null when it cannot: lanes then go through the network.
SocketPtr listen_locally(const std::string& name) {
  const SocketAddress address = abstract_address(name);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return nullptr;
  auto socket = std::make_shared<Socket>(fd);
  return ::bind(fd, address.get(), address.size) == 0 && ::listen(fd, BACKLOG) == 0 ? socket : nullptr;
}

}  // namespace

Result<SocketPtr> listen_at(const Endpoint& where) {
  auto addresses = resolve(where, AddressUse::Listen, monotonic_now() + RESOLVE_TIMEOUT);
  if (!addresses) return fail(ErrorName::AddressTaken, addresses.error().detail);
  // Of "all addresses" the IPv6 one comes first, since its socket takes IPv4 as well.
  if (where.host.empty()) std::ranges::stable_partition(*addresses, [](const auto& each) { return each.storage.ss_family == AF_INET6; });
  Result<SocketPtr> last = taken(where, "no address");
  for (const SocketAddress& address : *addresses)
    if (last = listen_on(address, where); last) break;
  return last;
}

class Acceptor::Loop {
 public:
  Loop(const AcceptorOptions& options, Credentials credentials, Handler handler, SocketPtr listener, SocketPtr local, SocketPtr wake)
      : options_(options),
        credentials_(std::move(credentials)),
        handler_(std::move(handler)),
        listener_(std::move(listener)),
        local_(std::move(local)),
        address_{options.listen.host, bound_port(listener_->fd())},
        wake_(std::move(wake)),
        thread_([this] { run(); }) {}
  ~Loop() { stop(); }

  [[nodiscard]] const Endpoint& address() const { return address_; }
  [[nodiscard]] Counters counters() const { return {accepted_.load(), refused_.load(), timed_out_.load(), evicted_.load()}; }

  std::size_t fence(PeerId peer) {
    const std::lock_guard lock(live_mutex_);
    std::size_t cut = 0;
    for (const auto& [owner, weak] : live_) {
      const SocketPtr socket = owner == peer ? weak.lock() : nullptr;
      if (!socket) continue;
      socket->shutdown();
      ++cut;
    }
    return cut;
  }

  void allow_plain() { plain_ = true; }

  void stop() {
    if (!thread_.joinable()) return;
    stopping_ = true;
    ::eventfd_write(wake_->fd(), 1);
    thread_.join();
  }

 private:
  /// A connection that has not proved itself yet. Which handshake it is shows in its first byte.
  struct HalfOpen {
    SocketPtr socket;
    std::unique_ptr<Handshake> handshake;
    Instant deadline;
    std::string host;
    short waits_for = POLLIN;
    bool local = false;
  };

  void run() {
    while (!stopping_) {
      std::vector<pollfd> polled = wanted();
      if (::poll(polled.data(), polled.size(), next_timeout_ms()) < 0) continue;
      const Instant now = monotonic_now();
      for (std::size_t at = 0; at < half_open_.size(); ++at)
        if (polled[at + FIRST_HALF_OPEN].revents != 0) advance(half_open_[at]);
      std::erase_if(half_open_, [](const HalfOpen& each) { return each.socket == nullptr; });
      for (; !half_open_.empty() && now >= half_open_.front().deadline; half_open_.pop_front()) ++timed_out_;
      if (polled[1].revents != 0) accept_waiting(*listener_, now);
      if (polled[2].revents != 0) accept_waiting(*local_, now);
    }
    half_open_.clear();
    listener_.reset();
    local_.reset();
  }

  static constexpr std::size_t FIRST_HALF_OPEN = 3;

  /// First the wake-up, then the listeners, then the half-open ones in their order. poll ignores a negative descriptor.
  std::vector<pollfd> wanted() {
    if (paused_until_ && monotonic_now() >= *paused_until_) paused_until_.reset();
    std::vector<pollfd> polled{{wake_->fd(), POLLIN, 0},
                               {paused_until_ ? -1 : listener_->fd(), POLLIN, 0},
                               {paused_until_ || !local_ ? -1 : local_->fd(), POLLIN, 0}};
    for (const HalfOpen& each : half_open_) polled.push_back({each.socket->fd(), each.waits_for, 0});
    return polled;
  }

  [[nodiscard]] int next_timeout_ms() const {
    std::optional<Instant> next = paused_until_;
    // The oldest is in front and all have the same time, so its deadline is the first.
    if (!half_open_.empty() && (!next || half_open_.front().deadline < *next)) next = half_open_.front().deadline;
    return next ? poll_timeout_ms(*next) : -1;
  }

  void accept_waiting(const Socket& listener, Instant now) {
    const bool local = &listener == local_.get();
    for (int count = 0; count < MAX_ACCEPTED_AT_ONCE; ++count) {
      SocketAddress from;
      from.size = sizeof from.storage;
      const int fd = ::accept4(listener.fd(), from.get(), &from.size, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) {
        // Out of descriptors or memory: waiting connections keep the listener ready, so it is left alone for a while.
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) paused_until_ = now + options_.descriptor_backoff;
        return;
      }
      set_connection_options(fd);
      if (half_open_.size() >= options_.max_half_open) {
        ++evicted_;
        half_open_.pop_front();
      }
      half_open_.push_back(
          {std::make_shared<Socket>(fd), nullptr, now + options_.handshake_deadline, local ? "" : from.host(), POLLIN, local});
    }
  }

  /// Goes on with one handshake; afterwards its socket is null when it is over, well or not.
  void advance(HalfOpen& each) {
    if (!each.handshake) each.handshake = each.local ? accept_plain(each.socket, credentials_) : choose_handshake(each.socket);
    if (!each.handshake) return refuse(each);
    switch (each.handshake->advance()) {
      case Handshake::Step::WantRead: each.waits_for = POLLIN; return;
      case Handshake::Step::WantWrite: each.waits_for = POLLOUT; return;
      case Handshake::Step::Failed: return refuse(each);
      case Handshake::Step::Done: return hand_over(each);
    }
  }

  /// Null when the first byte is not the beginning of anything that is allowed here.
  std::unique_ptr<Handshake> choose_handshake(const SocketPtr& socket) {
    std::byte first{};
    if (::recv(socket->fd(), &first, 1, MSG_PEEK) != 1) return nullptr;
    if (first == TLS_RECORD) return accept_tls(socket, credentials_);
    const PlainTerms terms{plain_, options_.relay != nullptr};
    return terms.data || terms.relays ? accept_plain(socket, credentials_, terms) : nullptr;
  }

  void refuse(HalfOpen& each) {
    ++refused_;
    each.socket->end_politely();
    each.handshake.reset();
    each.socket.reset();
  }

  void hand_over(HalfOpen& each) {
    const Protocol protocol = each.handshake->protocol();
    const PeerId target = each.handshake->target();
    ChannelPtr channel = each.handshake->take_channel();
    if (each.local) channel = MemoryChannel::accept(std::move(channel));
    else end_unpaced_if_far(channel->fd());  // only now: to find it out costs more than strangers are worth
    {
      const std::lock_guard lock(live_mutex_);
      std::erase_if(live_, [](const auto& known) { return known.second.expired(); });
      live_.emplace_back(channel->peer(), each.socket);
    }
    ++accepted_;
    each.handshake.reset();
    each.socket.reset();
    if (protocol == Protocol::Relay) options_.relay(std::move(channel), target);
    else handler_(protocol, std::move(channel), std::move(each.host));
  }

  const AcceptorOptions options_;
  const Credentials credentials_;
  const Handler handler_;
  SocketPtr listener_;  ///< the loop's own after the start
  SocketPtr local_;     ///< null where there is none
  const Endpoint address_;
  const SocketPtr wake_;            ///< an eventfd that ends the waiting of poll
  std::deque<HalfOpen> half_open_;  ///< oldest first; the loop's own
  std::optional<Instant> paused_until_;
  std::mutex live_mutex_;  ///< guards live_: the loop adds, fencing reads
  std::vector<std::pair<PeerId, std::weak_ptr<Socket>>> live_;
  std::atomic<std::uint64_t> accepted_{0};
  std::atomic<std::uint64_t> refused_{0};
  std::atomic<std::uint64_t> timed_out_{0};
  std::atomic<std::uint64_t> evicted_{0};
  std::atomic<bool> plain_{options_.allow_plain};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

Result<std::unique_ptr<Acceptor>> Acceptor::open(AcceptorOptions options, Credentials credentials, Handler handler) {
  options.max_half_open = std::min(options.max_half_open, quarter_of_the_open_files());
  PRIME_TRY(SocketPtr listener, listen_at(options.listen));
  const int wake = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) return taken(options.listen, error_text(errno));
  SocketPtr local = options.memory ? listen_locally(local_name(credentials, credentials.self().id)) : nullptr;
  auto loop = std::make_unique<Loop>(options, std::move(credentials), std::move(handler), std::move(listener), std::move(local),
                                     std::make_shared<Socket>(wake));
  return std::unique_ptr<Acceptor>(new Acceptor(std::move(loop)));
}

Acceptor::Acceptor(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
Acceptor::~Acceptor() = default;

const Endpoint& Acceptor::address() const { return loop_->address(); }
Acceptor::Counters Acceptor::counters() const { return loop_->counters(); }
std::size_t Acceptor::fence(PeerId peer) { return loop_->fence(peer); }
void Acceptor::allow_plain() { loop_->allow_plain(); }
void Acceptor::stop() { loop_->stop(); }

}  // namespace prime::net
