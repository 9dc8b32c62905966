#include "runtime/net/probe.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <span>
#include <system_error>

#include "runtime/clock.hpp"
#include "runtime/net/acceptor.hpp"
#include "runtime/net/address_race.hpp"
#include "runtime/net/crypto.hpp"
#include "runtime/net/dial.hpp"
#include "runtime/net/handshake.hpp"
#include "runtime/net/resolve.hpp"
#include "runtime/net/run_key.hpp"

namespace prime::net {
namespace {

/// A text is believed up to here.
constexpr std::size_t TEXT_BYTES_MAX = 4096;
constexpr std::size_t PROBE_NONCE_BYTES = 16;
constexpr Duration DIAL_BACK_LIMIT = 1500ms;

tl::unexpected<Error> stalled(std::string what) { return fail(ErrorName::RunUnreachable, std::move(what)); }

/// Reads or writes all of it, or says why not.
template <class Move>
Result<void> move_all(Channel& channel, std::size_t size, Instant until, const Move& move) {
  for (std::size_t done = 0; done < size;) {
    const auto io = move(done);
    done += io.bytes;
    if (io.state == Channel::State::Ok) continue;
    if (io.state != Channel::State::WantRead && io.state != Channel::State::WantWrite) return stalled("the connection ended");
    if (!wait_ready(channel.fd(), io.state == Channel::State::WantRead ? POLLIN : POLLOUT, until))
      return stalled(std::to_string(done) + " of " + std::to_string(size) + " bytes passed in time");
  }
  return {};
}
Result<void> write_all(Channel& channel, std::span<const std::byte> bytes, Instant until) {
  return move_all(channel, bytes.size(), until, [&](std::size_t done) { return channel.write(bytes.subspan(done)); });
}
Result<void> read_all(Channel& channel, std::span<std::byte> bytes, Instant until) {
  return move_all(channel, bytes.size(), until, [&](std::size_t done) { return channel.read(bytes.subspan(done)); });
}

Result<void> write_text(Channel& channel, const std::string& text, Instant until) {
  const std::array<std::byte, 2> size{static_cast<std::byte>(text.size() & 0xffU), static_cast<std::byte>(text.size() >> 8U)};
  PRIME_CHECK(write_all(channel, size, until));
  return write_all(channel, std::as_bytes(std::span{text}), until);
}
Result<std::string> read_text(Channel& channel, Instant until) {
  std::array<std::byte, 2> size{};
  PRIME_CHECK(read_all(channel, size, until));
  std::string text(std::to_integer<std::size_t>(size[0]) | std::to_integer<std::size_t>(size[1]) << 8U, '\0');
  if (text.size() > TEXT_BYTES_MAX) return fail(ErrorName::ProtocolViolation, "a text of " + std::to_string(text.size()) + " bytes");
  PRIME_CHECK(read_all(channel, std::as_writable_bytes(std::span{text}), until));
  return text;
}

std::vector<std::string> split(const std::string& text, char by) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == by) parts.emplace_back();
    else parts.back() += c;
  return parts;
}

std::int64_t wall_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Empty when `nonce` is said there.
std::string look_at(const Endpoint& address, const std::string& nonce, const StopSignal& ends) {
  const auto until = monotonic_now() + DIAL_BACK_LIMIT;
  const auto socket = connect_to(address, until, &ends);
  if (!socket) return socket.error().detail;
  std::string heard(nonce.size(), '\0');
  for (std::size_t got = 0; got < heard.size();) {
    if (!wait_ready((*socket)->fd(), POLLIN, until, &ends)) return "connected, but no answer in time";
    const auto count = ::recv((*socket)->fd(), heard.data() + got, heard.size() - got, 0);
    if (count <= 0) return "somebody else answers";
    got += static_cast<std::size_t>(count);
  }
  return heard == nonce ? "" : "somebody else answers";
}

/// All at once: each may take its whole limit.
std::string look_back(const Addresses& told, const std::string& nonce, const StopSignal& ends) {
  std::vector<std::string> found(told.list.size());
  {
    std::vector<std::jthread> looks;
    for (std::size_t i = 0; i < found.size(); ++i) looks.emplace_back([&, i] { found[i] = look_at(told.list[i], nonce, ends); });
  }
  std::string text;
  for (auto& each : found) {
    std::ranges::replace(each, '\n', ' ');
    text += (&each == &found.front() ? "" : "\n") + each.substr(0, 300);
  }
  return text;
}

Result<void> answer(Channel& channel, const std::string& seen_as, const StopSignal& ends) {
  PRIME_TRY(const auto request, read_text(channel, monotonic_now() + PROBE_STEP_LIMIT));
  const auto parts = split(request, '\n');
  if (parts.size() != 2 || parts[0].size() != PROBE_NONCE_BYTES) return fail(ErrorName::ProtocolViolation, "no probe");
  PRIME_TRY(const auto told, parse_addresses(parts[1]));
  PRIME_CHECK(write_text(channel, std::to_string(wall_ms()) + "\n" + seen_as, monotonic_now() + PROBE_STEP_LIMIT));
  std::vector<std::byte> bulk(PROBE_BULK_BYTES);
  PRIME_CHECK(read_all(channel, bulk, monotonic_now() + 2 * PROBE_STEP_LIMIT));
  PRIME_CHECK(write_text(channel, "came", monotonic_now() + PROBE_STEP_LIMIT));
  PRIME_CHECK(write_text(channel, look_back(told, parts[0], ends), monotonic_now() + PROBE_STEP_LIMIT));
  PRIME_CHECK(write_all(channel, bulk, monotonic_now() + PROBE_STEP_LIMIT));
  std::byte end{};
  return read_all(channel, {&end, 1}, monotonic_now() + 2 * PROBE_STEP_LIMIT);  // the asker hangs up
}

Result<SocketPtr> connect_with(const SocketAddress& address, int segment, Instant until) {
  const int fd = ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return stalled(error_text(errno));
  auto socket = std::make_shared<Socket>(fd);
  if (segment > 0) ::setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
  if (::connect(fd, address.get(), address.size) != 0 && errno != EINPROGRESS) return stalled(error_text(errno));
  if (!wait_ready(fd, POLLOUT, until)) return stalled("no answer in time");
  PRIME_CHECK(end_connect(socket));
  return socket;
}

Result<SocketPtr> connect_any(const Endpoint& endpoint, int segment) {
  const auto until = monotonic_now() + PROBE_STEP_LIMIT;
  PRIME_TRY(const auto addresses, resolve(endpoint, AddressUse::Dial, until));
  Result<SocketPtr> socket = stalled("no address");
  for (const auto& address : addresses)
    if (socket = connect_with(address, segment, until); socket) break;
  return socket;
}

Result<ChannelPtr> introduced(const SocketPtr& socket, const Credentials& credentials) {
  const auto until = monotonic_now() + PROBE_STEP_LIMIT;
  const auto handshake = dial_tls(socket, credentials, Protocol::Probe, Expectation::coordinator());
  for (;;) {
    const auto step = handshake->advance();
    if (step == Handshake::Step::Done) return handshake->take_channel();
    if (step == Handshake::Step::Failed) return fail(handshake->error());
    if (!wait_ready(socket->fd(), step == Handshake::Step::WantRead ? POLLIN : POLLOUT, until))
      return stalled("connected, but no answer in time");
  }
}

/// Fills the report as far as it comes; what fails is noted where it belongs.
Result<void> ask(Channel& channel, const Addresses& told, const std::string& nonce, ProbeReport& report) {
  const auto asked = wall_ms();
  PRIME_CHECK(write_text(channel, nonce + "\n" + format_addresses(told), monotonic_now() + PROBE_STEP_LIMIT));
  PRIME_TRY(const auto said, read_text(channel, monotonic_now() + PROBE_STEP_LIMIT));
  const auto middle = (asked + wall_ms()) / 2;
  const auto parts = split(said, '\n');
  std::int64_t theirs = 0;
  const auto read = std::from_chars(parts[0].data(), parts[0].data() + parts[0].size(), theirs);
  if (read.ec != std::errc{} || read.ptr != parts[0].data() + parts[0].size() || theirs < 0)
    return fail(ErrorName::ProtocolViolation, "no clock in its answer");
  report.clock_ahead = std::chrono::milliseconds(theirs - middle);
  report.seen_as = parts.size() > 1 ? parts[1] : "";
  std::vector<std::byte> bulk(PROBE_BULK_BYTES);
  auto up = write_all(channel, bulk, monotonic_now() + PROBE_STEP_LIMIT);
  if (up) {
    const auto came = read_text(channel, monotonic_now() + PROBE_STEP_LIMIT);
    if (!came) up = fail(came.error());
  }
  if (!up) report.upwards = up.error();
  if (!up) return {};
  PRIME_TRY(const auto back, read_text(channel, monotonic_now() + DIAL_BACK_LIMIT + PROBE_STEP_LIMIT));
  const auto found = split(back, '\n');
  for (std::size_t i = 0; i < std::min(found.size(), told.list.size()); ++i) report.back.push_back({told.list[i], found[i]});
  if (const auto down = read_all(channel, bulk, monotonic_now() + PROBE_STEP_LIMIT); !down) report.downwards = down.error();
  return {};
}

}  // namespace

void ProbeServer::serve(ChannelPtr channel, std::string remote_host) {
  // What fails, or is one too many, is the asker's to notice.
  (void)sessions_.serve(channel, [this, host = std::move(remote_host)](Channel& asker) { (void)answer(asker, host, ends_); });
}

Result<std::unique_ptr<ProbeListener>> ProbeListener::open(const Endpoint& listen) {
  std::unique_ptr<ProbeListener> self{new ProbeListener};
  PRIME_TRY(self->socket_, listen_at(listen));
  SocketAddress bound;
  bound.size = sizeof bound.storage;
  ::getsockname(self->socket_->fd(), bound.get(), &bound.size);
  self->port_ = bound.port();
  std::array<std::uint8_t, PROBE_NONCE_BYTES> random{};
  fill_random(random);
  for (const auto byte : random) self->nonce_ += static_cast<char>('a' + byte % 26);
  self->thread_ = std::jthread{[raw = self.get()](const std::stop_token& stop) { raw->run(stop); }};
  return self;
}

ProbeListener::~ProbeListener() {
  thread_.request_stop();
  if (socket_) socket_->shutdown();  // ends its wait
}

void ProbeListener::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (!wait_ready(socket_->fd(), POLLIN, monotonic_now() + 1s)) continue;
    const int fd = ::accept4(socket_->fd(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) continue;
    const Socket caller{fd};
    (void)::send(fd, nonce_.data(), nonce_.size(), MSG_NOSIGNAL);
  }
}

ProbeReport probe(const Endpoint& coordinator, const Credentials& credentials, const Addresses& told, const std::string& nonce,
                  int segment) {
  ProbeReport report;
  const auto socket = connect_any(coordinator, segment);
  if (!socket) {
    report.unreached = socket.error();
    return report;
  }
  report.connected = true;
  const auto channel = introduced(*socket, credentials);
  if (!channel) {
    report.unreached = channel.error();
    return report;
  }
  if (const auto asked = ask(**channel, told, nonce, report); !asked) report.unreached = asked.error();
  (*channel)->shutdown();
  return report;
}

}  // namespace prime::net
