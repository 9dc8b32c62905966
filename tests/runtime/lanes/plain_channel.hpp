// Owns the channel of lane tests: plain TCP over loopback that can be cut, slowed and damaged on purpose.
#pragma once

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "runtime/net/channel.hpp"

namespace prime::lanes::test {

/// A descriptor that closes itself.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {
    if (fd < 0) throw std::runtime_error("no socket");
  }
  ~Socket() { ::close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  [[nodiscard]] int fd() const { return fd_; }
  void cut() const { ::shutdown(fd_, SHUT_RDWR); }

 private:
  int fd_;
};
using SocketPtr = std::shared_ptr<Socket>;

/// Two ends of one TCP connection over loopback.
inline std::pair<SocketPtr, SocketPtr> tcp_pair() {
  const Socket listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener.fd(), raw, size) != 0 || ::listen(listener.fd(), 8) != 0 || ::getsockname(listener.fd(), raw, &size) != 0)
    throw std::runtime_error("no listener");
  auto dialed = std::make_shared<Socket>(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(dialed->fd(), raw, size) != 0) throw std::runtime_error("no connection");
  // What is sent is there at once, so that a test knows what comes first of what it sends over two connections.
  const int at_once = 1;
  if (::setsockopt(dialed->fd(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once) != 0) throw std::runtime_error("no TCP_NODELAY");
  sockaddr_in own{};
  if (::getsockname(dialed->fd(), reinterpret_cast<sockaddr*>(&own), &size) != 0) throw std::runtime_error("no address");
  // Whoever else dials what listened at that port before is not the other end.
  while (true) {
    sockaddr_in from{};
    auto accepted = std::make_shared<Socket>(::accept4(listener.fd(), reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC));
    if (from.sin_port == own.sin_port && from.sin_addr.s_addr == own.sin_addr.s_addr) return {std::move(dialed), std::move(accepted)};
  }
}

/// What goes wrong on the way. Shared by the test and the channel.
struct Faults {
  std::atomic<std::int64_t> flip_at = -1;         ///< the byte of the written stream whose lowest bit is flipped
  std::atomic<std::size_t> longest_io = 1 << 30;  ///< bytes that one call moves at most
  std::atomic<std::size_t> unconfirmed = 0;       ///< bytes that lie in the kernel, as it says
};

class PlainChannel final : public net::Channel {
 public:
  PlainChannel(SocketPtr socket, PeerId peer, std::shared_ptr<Faults> faults = std::make_shared<Faults>())
      : socket_(std::move(socket)), peer_(peer), faults_(std::move(faults)) {
    ::fcntl(socket_->fd(), F_SETFL, ::fcntl(socket_->fd(), F_GETFL) | O_NONBLOCK);
  }

  Io read(std::span<std::byte> into) override {
    const auto got = ::recv(socket_->fd(), into.data(), std::min(into.size(), faults_->longest_io.load()), 0);
    return got == 0 ? Io{State::Closed, 0} : io(got, State::WantRead);
  }

  Io write(std::span<const std::byte> from) override {
    std::vector<std::byte> copy;
    from = from.first(std::min(from.size(), faults_->longest_io.load()));
    const auto flip = faults_->flip_at.load() - written_;
    if (flip >= 0 && flip < static_cast<std::int64_t>(from.size())) {
      copy.assign(from.begin(), from.end());
      copy[static_cast<std::size_t>(flip)] ^= std::byte{1};
      from = copy;
    }
    const auto put = ::send(socket_->fd(), from.data(), from.size(), MSG_NOSIGNAL);
    if (put > 0) written_ += put;
    return io(put, State::WantWrite);
  }

  [[nodiscard]] std::size_t buffered() const override { return 0; }
  [[nodiscard]] std::size_t unconfirmed() const override { return faults_->unconfirmed; }
  [[nodiscard]] int fd() const override { return socket_->fd(); }
  [[nodiscard]] PeerId peer() const override { return peer_; }
  void shutdown() noexcept override { socket_->cut(); }

 private:
  static Io io(ssize_t moved, State wanted) {
    if (moved > 0) return {State::Ok, static_cast<std::size_t>(moved)};
    return {errno == EAGAIN || errno == EINTR ? wanted : State::Failed, 0};
  }

  SocketPtr socket_;
  PeerId peer_;
  std::shared_ptr<Faults> faults_;
  std::int64_t written_ = 0;
};

}  // namespace prime::lanes::test
