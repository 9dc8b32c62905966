// Owns the bare exchange.
#include "runtime/bench/bare_sockets.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "runtime/net/congestion.hpp"

namespace prime::bench {
namespace {

constexpr std::size_t CALL_BYTES = 512 * 1024;

int listener(std::uint16_t& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  net::begin_unpaced(fd);
  if (fd < 0 || ::bind(fd, raw, size) != 0 || ::listen(fd, 1) != 0 || ::getsockname(fd, raw, &size) != 0) return -1;
  port = ntohs(address.sin_port);
  return fd;
}

void prepare(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool connect_pair(int& near, int& far) {
  std::uint16_t port = 0;
  const int listening = listener(port);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  near = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  net::begin_unpaced(near);
  const bool good = listening >= 0 && near >= 0 && ::connect(near, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  far = good ? ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC) : -1;
  if (listening >= 0) ::close(listening);
  if (far < 0) return false;
  prepare(near);
  prepare(far);
  return true;
}

}  // namespace

std::vector<BareSockets> BareSockets::mesh(std::uint32_t ranks) {
  std::vector<BareSockets> all;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) all.push_back(BareSockets());
  for (std::uint32_t a = 0; a < ranks; ++a)
    for (std::uint32_t b = a + 1; b < ranks; ++b) {
      int near = -1;
      int far = -1;
      if (!connect_pair(near, far)) return {};
      all[a].others_.push_back(near);
      all[b].others_.push_back(far);
    }
  return all;
}

BareSockets::BareSockets(BareSockets&& other) noexcept
    : others_(std::exchange(other.others_, {})), sent_(std::move(other.sent_)), received_(std::move(other.received_)) {}

BareSockets::~BareSockets() {
  for (const int fd : others_) ::close(fd);
}

void BareSockets::exchange(std::uint64_t bytes) {
  const std::uint64_t each = 2 * bytes / (others_.size() + 1);
  sent_.resize(CALL_BYTES);
  received_.resize(CALL_BYTES);
  std::vector<std::uint64_t> to_send(others_.size(), each);
  std::vector<std::uint64_t> to_receive(others_.size(), each);
  std::vector<pollfd> polled(others_.size());
  while (true) {
    bool done = true;
    bool moved = false;
    for (std::size_t at = 0; at < others_.size(); ++at) {
      if (to_send[at] > 0) {
        const auto count = ::send(others_[at], sent_.data(), std::min<std::uint64_t>(CALL_BYTES, to_send[at]), MSG_NOSIGNAL);
        if (count > 0) to_send[at] -= static_cast<std::uint64_t>(count);
        moved = moved || count > 0;
      }
      if (to_receive[at] > 0) {
        const auto count = ::recv(others_[at], received_.data(), std::min<std::uint64_t>(CALL_BYTES, to_receive[at]), 0);
        if (count == 0) return;  // the other one died: its own process tells why
        if (count > 0) to_receive[at] -= static_cast<std::uint64_t>(count);
        moved = moved || count > 0;
      }
      done = done && to_send[at] == 0 && to_receive[at] == 0;
      const int events = (to_send[at] > 0 ? POLLOUT : 0) | (to_receive[at] > 0 ? POLLIN : 0);
      polled[at] = pollfd{events == 0 ? -1 : others_[at], static_cast<short>(events), 0};
    }
    if (done) return;
    if (!moved) (void)::poll(polled.data(), polled.size(), 1000);
  }
}

std::uint16_t free_port(std::vector<int>& held) {
  std::uint16_t port = 0;
  held.push_back(listener(port));
  return port;
}

}  // namespace prime::bench
