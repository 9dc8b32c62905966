// Owns the proxy's sockets: who may read, who may write, and how an end at one side becomes the same end at the other.
#include "tests/faults/fault_proxy.hpp"

#include <algorithm>
#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "runtime/net/run_key.hpp"

namespace prime::faults {
namespace {

constexpr std::size_t MAX_CONNECTIONS = 256;
constexpr std::size_t READ_BYTES = 64 * KIB;
constexpr Duration RESOLVE_TIMEOUT = 5s;
constexpr Duration MAX_DELAY = 60s;
/// Listener, wake-up and the caller's descriptor; after them come two of each connection.
constexpr std::size_t FIRST_CONNECTION = 3;
constexpr short READABLE = POLLIN | POLLERR | POLLHUP;
constexpr short WRITABLE = POLLOUT | POLLERR | POLLHUP;

std::size_t index_of(Direction direction) { return static_cast<std::size_t>(direction); }

Result<net::SocketPtr> listen_at(const Endpoint& where, Endpoint& bound) {
  const auto taken = [&](const std::string& why) {
    return fail(ErrorName::AddressTaken, net::format_endpoint(where) + ": " + why + "; name a free port of this machine with --listen");
  };
  auto addresses = net::resolve(where, net::AddressUse::Listen, monotonic_now() + RESOLVE_TIMEOUT);
  if (!addresses) return taken(addresses.error().detail);
  net::SocketAddress address = addresses->front();
  const int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return taken(net::error_text(errno));
  auto socket = std::make_shared<net::Socket>(fd);
  const int yes = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(fd, address.get(), address.size) != 0 || ::listen(fd, SOMAXCONN) != 0) return taken(net::error_text(errno));
  ::getsockname(fd, address.get(), &address.size);
  bound = Endpoint{where.host, address.port()};
  return socket;
}

/// Closing then resets the connection instead of ending it.
void make_abrupt(int fd) {
  const linger abrupt{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &abrupt, sizeof abrupt);
}

/// The kernel keeps as much again as a pipe does. Left alone, its buffers grow to megabytes, and a slow link would look like a long queue.
void bound_buffers(int fd, const FaultProxyOptions& options) {
  const auto size = static_cast<int>(std::min<std::size_t>(std::max(options.up.buffer_bytes, options.down.buffer_bytes), 1 << 30));
  for (const int which : {SO_RCVBUF, SO_SNDBUF}) ::setsockopt(fd, SOL_SOCKET, which, &size, sizeof size);
}

bool would_block(int error_number) { return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR; }

}  // namespace

/// One direction of a connection.
struct FaultProxy::Half {
  Direction direction;
  int from;
  int to;
  ShapedPipe pipe;
  bool source_ended = false;  ///< nothing more is read
  bool finished = false;      ///< nothing more is sent
  bool blocked = false;       ///< the receiver takes nothing now
  bool forgotten = false;     ///< nothing more passes
};

struct FaultProxy::Connection {
  net::Socket client;
  net::Socket target;
  std::uint64_t number;
  std::array<Half, 2> halves;  ///< by direction
  std::optional<std::uint64_t> bytes_left;
  bool connecting = true;
  bool doomed = false;

  Connection(int client_fd, int target_fd, std::uint64_t which, const FaultProxyOptions& options, Instant now)
      : client(client_fd),
        target(target_fd),
        number(which),
        halves{Half{Direction::Up, client_fd, target_fd, ShapedPipe(options.up, now)},
               Half{Direction::Down, target_fd, client_fd, ShapedPipe(options.down, now)}} {}

  /// This socket was reset: what it sent before still arrives, then the reset; what is on the way to it is lost.
  void broke(int fd, Instant now) {
    for (Half& half : halves) {
      half.source_ended = true;
      half.finished = half.to == fd;
      if (half.from == fd) half.pipe.put_end(StreamEnd::Reset, now);
    }
  }
  [[nodiscard]] bool over() const { return doomed || (halves[0].finished && halves[1].finished); }
};

Result<std::unique_ptr<FaultProxy>> FaultProxy::open(FaultProxyOptions options) {
  for (const Shape& shape : {options.up, options.down}) {
    if (shape.rate_bytes_per_s > MAX_RATE_BYTES_PER_S)
      return fail(ErrorName::Usage, "a rate of more than " + std::to_string(MAX_RATE_BYTES_PER_S) + " bytes/s; 0 is no cap");
    if (shape.delay < Duration::zero() || shape.delay > MAX_DELAY) return fail(ErrorName::Usage, "a delay of more than 60 s");
    if (shape.buffer_bytes < READ_BYTES) return fail(ErrorName::Usage, "a buffer of fewer than " + std::to_string(READ_BYTES) + " bytes");
  }
  auto targets = net::resolve(options.target, net::AddressUse::Dial, monotonic_now() + RESOLVE_TIMEOUT);
  if (!targets) return fail(std::move(targets).error().with_context("looking up the target " + net::format_endpoint(options.target)));
  Endpoint bound;
  PRIME_TRY(auto listener, listen_at(options.listen, bound));
  bound_buffers(listener->fd(), options);  // what it accepts inherits them
  auto wake = std::make_shared<net::Socket>(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  return std::unique_ptr<FaultProxy>(
      new FaultProxy(std::move(options), targets->front(), std::move(listener), std::move(bound), std::move(wake)));
}

FaultProxy::FaultProxy(FaultProxyOptions options, net::SocketAddress target, net::SocketPtr listener, Endpoint address, net::SocketPtr wake)
    : options_(std::move(options)), target_(target), listener_(std::move(listener)), address_(std::move(address)), wake_(std::move(wake)) {}

FaultProxy::~FaultProxy() = default;

// --- commands ---------------------------------------------------------------------------------------------------------

void FaultProxy::cut() {
  command([this] {
    for (auto& each : connections_) each->doomed = true;
  });
}

void FaultProxy::hold(Direction direction) {
  command([&] { held_[index_of(direction)] = true; });
}

void FaultProxy::release() {
  command([this] { held_ = {}; });
}

void FaultProxy::forget() {
  command([this] {
    for (const auto& each : connections_)
      for (Half& half : each->halves) half.forgotten = true;
  });
}

void FaultProxy::refuse() {
  command([this] { refusing_ = true; });
}

void FaultProxy::accept() {
  command([this] { refusing_ = false; });
}

void FaultProxy::drop_after(std::optional<std::uint64_t> bytes) {
  command([&] {
    drop_after_ = bytes;
    for (auto& each : connections_) each->bytes_left = bytes;
  });
}

FaultProxy::Counts FaultProxy::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.open = static_cast<std::uint64_t>(std::ranges::count_if(connections_, [](const auto& each) { return !each->over(); }));
  return counts;
}

template <class Change>
void FaultProxy::command(Change change) {
  const std::lock_guard lock(mutex_);
  change();
  ::eventfd_write(wake_->fd(), 1);
}

// --- the loop ---------------------------------------------------------------------------------------------------------

void FaultProxy::run(const std::stop_token& stop) {
  const std::stop_callback waking(stop, [this] { ::eventfd_write(wake_->fd(), 1); });
  while (!stop.stop_requested()) step(1s);
}

bool FaultProxy::step(Duration limit, int also_fd) {
  std::vector<pollfd> polls;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(connections_, [](const auto& each) { return bury(*each); });
    polls = wanted(also_fd);
    limit = time_left(limit);
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  const timespec timeout{seconds.count(), (limit - seconds).count()};
  if (::ppoll(polls.data(), polls.size(), &timeout, nullptr) < 0) return false;
  const std::lock_guard lock(mutex_);
  eventfd_t wakes = 0;
  if (polls[1].revents != 0) ::eventfd_read(wake_->fd(), &wakes);
  const Instant now = options_.now();
  // Only this thread adds and removes connections, so each still has its place.
  for (std::size_t i = 0; i < connections_.size(); ++i)
    serve(*connections_[i], polls[FIRST_CONNECTION + 2 * i].revents, polls[FIRST_CONNECTION + 2 * i + 1].revents, now);
  if (polls[0].revents != 0) welcome(now);
  return polls[2].revents != 0;
}

std::vector<pollfd> FaultProxy::wanted(int also_fd) const {
  std::vector<pollfd> polls{{listener_->fd(), POLLIN, 0}, {wake_->fd(), POLLIN, 0}, {also_fd, POLLIN, 0}};
  // A poll that wants nothing would still report errors, at once and again and again: then the descriptor is left out.
  const auto add = [&](const Half& reads, bool writable) {
    const bool readable = !reads.source_ended && reads.pipe.room() > 0;
    const auto events = static_cast<short>((readable ? POLLIN : 0) | (writable ? POLLOUT : 0));
    polls.push_back({events == 0 ? -1 : reads.from, events, 0});
  };
  for (const auto& each : connections_) {
    const auto& [up, down] = each->halves;
    add(up, down.blocked && !is_held(down));
    add(down, each->connecting || (up.blocked && !is_held(up)));
  }
  return polls;
}

Duration FaultProxy::time_left(Duration limit) const {
  const Instant now = options_.now();
  for (const auto& each : connections_)
    for (const Half& half : each->halves)
      if (const auto next = half.pipe.next(); next && may_forward(*each, half)) limit = std::min(limit, *next - now);
  return std::max(limit, Duration::zero());
}

bool FaultProxy::may_forward(const Connection& connection, const Half& half) const {
  const bool reachable = half.direction == Direction::Down || !connection.connecting;
  return reachable && !half.finished && !half.blocked && !is_held(half) && !connection.doomed;
}

bool FaultProxy::is_held(const Half& half) const { return half.forgotten || held_[index_of(half.direction)]; }

void FaultProxy::welcome(Instant now) {
  for (;;) {
    const int fd = ::accept4(listener_->fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    if (!refusing_ && connections_.size() < MAX_CONNECTIONS) {
      admit(fd, now);
      continue;
    }
    if (!refusing_) report("a connection was reset: there are " + std::to_string(MAX_CONNECTIONS) + " already; end some");
    ++counts_.refused;
    make_abrupt(fd);
    ::close(fd);
  }
}

void FaultProxy::admit(int fd, Instant now) {
  const int target = ::socket(target_.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  auto& added = connections_.emplace_back(std::make_unique<Connection>(fd, target, ++counts_.accepted, options_, now));
  added->bytes_left = drop_after_;
  bound_buffers(target, options_);
  const int yes = 1;
  for (const int each : {fd, target}) ::setsockopt(each, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (::connect(target, target_.get(), target_.size) != 0 && errno != EINPROGRESS) unreachable(*added, errno);
}

void FaultProxy::unreachable(Connection& connection, int error_number) {
  connection.doomed = true;
  report("connection " + std::to_string(connection.number) + " was reset: the target " + net::format_endpoint(options_.target) +
         " cannot be reached: " + net::error_text(error_number) + "; start what listens there first");
}

void FaultProxy::serve(Connection& connection, short client_events, short target_events, Instant now) {
  if (connection.connecting && (target_events & WRITABLE) != 0) {
    int error_number = 0;
    socklen_t size = sizeof error_number;
    ::getsockopt(connection.target.fd(), SOL_SOCKET, SO_ERROR, &error_number, &size);
    connection.connecting = false;
    if (error_number != 0) unreachable(connection, error_number);
  }
  auto& [up, down] = connection.halves;
  if ((target_events & WRITABLE) != 0) up.blocked = false;
  if ((client_events & WRITABLE) != 0) down.blocked = false;
  if ((client_events & READABLE) != 0) fill(connection, up, now);
  if ((target_events & READABLE) != 0 && !connection.connecting) fill(connection, down, now);
  forward(connection, up, now);
  forward(connection, down, now);
}

void FaultProxy::fill(Connection& connection, Half& half, Instant now) {
  std::array<std::byte, READ_BYTES> bytes;
  const std::size_t room = std::min(bytes.size(), half.pipe.room());
  if (room == 0 || half.source_ended) return;
  const ssize_t count = ::recv(half.from, bytes.data(), room, 0);
  if (count > 0) {
    half.pipe.put(std::span(bytes).first(static_cast<std::size_t>(count)), now);
    counts_.taken[index_of(half.direction)] += static_cast<std::uint64_t>(count);
  } else if (count == 0) {
    half.source_ended = true;
    half.pipe.put_end(StreamEnd::Closed, now);
  } else if (!would_block(errno)) {
    connection.broke(half.from, now);
  }
}

void FaultProxy::forward(Connection& connection, Half& half, Instant now) {
  while (may_forward(connection, half)) {
    auto bytes = half.pipe.ready(now);
    if (bytes.empty()) break;
    if (connection.bytes_left) bytes = bytes.first(std::min<std::size_t>(bytes.size(), *connection.bytes_left));
    const ssize_t count = ::send(half.to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && would_block(errno)) half.blocked = true;
    else if (count < 0) connection.broke(half.to, now);
    else sent(connection, half, static_cast<std::size_t>(count), now);
  }
  const auto end = may_forward(connection, half) ? half.pipe.end(now) : std::nullopt;
  if (end == StreamEnd::Reset) connection.doomed = true;
  if (end != StreamEnd::Closed) return;
  ::shutdown(half.to, SHUT_WR);
  half.finished = true;
}

void FaultProxy::sent(Connection& connection, Half& half, std::size_t count, Instant now) {
  half.pipe.take(count, now);
  counts_.forwarded[index_of(half.direction)] += count;
  if (!connection.bytes_left) return;
  *connection.bytes_left -= count;
  connection.doomed = *connection.bytes_left == 0;
}

bool FaultProxy::bury(Connection& connection) {
  if (!connection.over()) return false;
  if (connection.doomed) {
    make_abrupt(connection.client.fd());
    make_abrupt(connection.target.fd());
  }
  return true;
}

void FaultProxy::report(const std::string& what) const {
  if (options_.report) options_.report(what);
}

}  // namespace prime::faults
