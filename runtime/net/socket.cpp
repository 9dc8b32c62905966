// Owns the calls on connected sockets.
#include "runtime/net/socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <system_error>
#include <unistd.h>

namespace prime::net {

Socket::~Socket() { ::close(fd_); }

void Socket::shutdown() noexcept {
  shut_down_ = true;
  ::shutdown(fd_, SHUT_RDWR);
}

std::size_t Socket::unconfirmed() const {
  int bytes = 0;
  return ::ioctl(fd_, SIOCOUTQ, &bytes) == 0 && bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

void Socket::end_politely() noexcept {
  // Bounded, because the other end may be one that never stops sending.
  constexpr int MAX_READS = 16;
  ::shutdown(fd_, SHUT_WR);
  std::array<std::byte, 4096> bin;
  for (int reads = 0; reads<MAX_READS&& ::recv(fd_, bin.data(), bin.size(), MSG_DONTWAIT)> 0; ++reads) continue;
}

void set_connection_options(int fd) {
  const auto set = [fd](int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

bool wait_ready(int fd, short events, Instant until, const StopSignal* stop) {
  for (;;) {
    std::array<pollfd, 2> watched{pollfd{fd, events, 0}, pollfd{stop != nullptr ? stop->fd() : -1, POLLIN, 0}};
    const int ready = ::poll(watched.data(), watched.size(), poll_timeout_ms(until));
    if (stop != nullptr && stop->stopped()) return false;
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (monotonic_now() >= until) return false;
  }
}

int poll_timeout_ms(Instant until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - monotonic_now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, std::numeric_limits<int>::max()));
}

std::string error_text(int error_number) {
  std::string text = std::generic_category().message(error_number);
  if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return text;
}

}  // namespace prime::net
