// Owns what the network tests share: a host that collects accepted channels, raw guests that misbehave, and reading until something comes.
#pragma once

#include <arpa/inet.h>
#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "runtime/net/acceptor.hpp"
#include "runtime/net/dial.hpp"
#include "runtime/net/run_key.hpp"
#include "runtime/net/socket.hpp"

namespace prime::net::test {

/// A guard against hangs; nothing is expected to take that long.
inline constexpr Duration PATIENCE = 60s;

inline Credentials credentials(const RunKey& key, PeerId id, Role role = Role::Peer, const std::string& run = "run") {
  auto made = Credentials::make(key, run, {role, id});
  BOOST_REQUIRE(made);
  return std::move(*made);
}

inline std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

/// An acceptor on loopback; what it accepts waits in `take`.
class Host {
 public:
  explicit Host(Credentials own, AcceptorOptions options = {}) {
    if (options.listen.host.empty()) options.listen.host = "127.0.0.1";
    auto opened = Acceptor::open(options, std::move(own), [this](Protocol protocol, ChannelPtr channel, const std::string& host) {
      const std::lock_guard lock(mutex_);
      arrived_.push_back({protocol, std::move(channel), host});
      changed_.notify_all();
    });
    BOOST_REQUIRE(opened);
    acceptor_ = std::move(*opened);
  }

  struct Arrival {
    Protocol protocol;
    ChannelPtr channel;
    std::string host;
  };
  Arrival take() {
    std::unique_lock lock(mutex_);
    BOOST_REQUIRE(changed_.wait_for(lock, PATIENCE, [&] { return !arrived_.empty(); }));
    Arrival first = std::move(arrived_.front());
    arrived_.pop_front();
    return first;
  }

  Acceptor& operator*() { return *acceptor_; }
  Acceptor* operator->() { return acceptor_.get(); }
  [[nodiscard]] const Endpoint& address() const { return acceptor_->address(); }
  void close() { acceptor_.reset(); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Arrival> arrived_;
  std::unique_ptr<Acceptor> acceptor_;  ///< last: its thread uses all of the above
};

/// Takes connections, and never says a word.
class Mute {
 public:
  explicit Mute(std::uint16_t port = 0) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int yes = 1;
    ::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof where;
    BOOST_REQUIRE(::bind(fd_, reinterpret_cast<const sockaddr*>(&where), size) == 0 && ::listen(fd_, 16) == 0);
    BOOST_REQUIRE(::getsockname(fd_, reinterpret_cast<sockaddr*>(&where), &size) == 0);
    address_ = {"127.0.0.1", ntohs(where.sin_port)};
  }
  Mute(const Mute&) = delete;
  Mute& operator=(const Mute&) = delete;
  ~Mute() { ::close(fd_); }
  [[nodiscard]] const Endpoint& address() const { return address_; }

 private:
  int fd_;
  Endpoint address_;
};

/// A blocking TCP client that speaks no protocol of ours.
class Guest {
 public:
  explicit Guest(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    BOOST_REQUIRE(::connect(fd_, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0);
  }
  Guest(Guest&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Guest& operator=(Guest&&) = delete;
  ~Guest() {
    if (fd_ >= 0) ::close(fd_);
  }
  void say(const std::string& bytes) { BOOST_REQUIRE(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) >= 0); }
  /// Reads whatever comes until the other end hangs up; false when it does not.
  bool hung_up_on() {
    char bin[512];
    while (wait_ready(fd_, POLLIN, monotonic_now() + PATIENCE))
      if (::recv(fd_, bin, sizeof bin, 0) <= 0) return true;
    return false;
  }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

/// The beginning of a ClientHello: a TLS record of 512 bytes is announced, and little of it comes.
inline std::string half_a_client_hello() { return std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(20, 'r'); }

/// Waits as the channel asks; false when nothing happened for too long.
inline bool wait_as_asked(const Channel& channel, Channel::State state) {
  return wait_ready(channel.fd(), state == Channel::State::WantWrite ? POLLOUT : POLLIN, monotonic_now() + PATIENCE);
}

/// Reads until the stream ends or fails, and says how it did; Ok when it does not within the limit.
inline Channel::State end_of(Channel& channel) {
  std::byte bin[512];
  for (;;) {
    const auto io = channel.read(bin);
    if (io.state == Channel::State::Closed || io.state == Channel::State::Failed) return io.state;
    if (io.state != Channel::State::Ok && !wait_as_asked(channel, io.state)) return Channel::State::Ok;
  }
}
inline bool ends(Channel& channel) { return end_of(channel) != Channel::State::Ok; }

inline bool write_all(Channel& channel, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto io = channel.write(bytes);
    if (io.state == Channel::State::Ok) bytes = bytes.subspan(io.bytes);
    else if (io.state == Channel::State::Closed || io.state == Channel::State::Failed || !wait_as_asked(channel, io.state)) return false;
  }
  return true;
}

inline bool read_all(Channel& channel, std::span<std::byte> into) {
  while (!into.empty()) {
    const auto io = channel.read(into);
    if (io.state == Channel::State::Ok) into = into.subspan(io.bytes);
    else if (io.state == Channel::State::Closed || io.state == Channel::State::Failed || !wait_as_asked(channel, io.state)) return false;
  }
  return true;
}

/// True when one byte comes through.
inline bool carries(Channel& from, Channel& to) {
  const std::byte sent{42};
  std::byte got{};
  return write_all(from, {&sent, 1}) && read_all(to, {&got, 1}) && got == sent;
}

inline void check_error(const Result<ChannelPtr>& result, ErrorName name, const std::string& cause = {}) {
  BOOST_REQUIRE(!result);
  BOOST_TEST(info(result.error().name).name == info(name).name);
  BOOST_TEST(result.error().detail.find(cause) != std::string::npos, result.error().detail);
}

}  // namespace prime::net::test
