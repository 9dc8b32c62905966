// Owns Socket: a connected, non-blocking TCP socket that several parts of a process know of.
#pragma once

#include <atomic>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/socket.h>

#include "messages/result.hpp"
#include "messages/units.hpp"
#include "runtime/clock.hpp"
#include "runtime/net/stop_signal.hpp"

namespace prime::net {

/// Closed when its last owner goes. A channel owns it; who may have to cut it holds a weak pointer, so that nobody is ever cut who
/// merely got the same descriptor number later.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  /// Any thread, any number of times.
  void shutdown() noexcept;
  /// Whether `shutdown` was called. A kernel that encrypts takes what is written then, and keeps it.
  [[nodiscard]] bool is_shut_down() const { return shut_down_; }
  /// Of what was written, the bytes that the other end's machine has not confirmed.
  [[nodiscard]] std::size_t unconfirmed() const;
  /// Ends sending and throws away what has come in: closing with unread bytes would reset the connection, and the other end might
  /// lose the last words that tell it why.
  void end_politely() noexcept;

 private:
  const int fd_;
  std::atomic<bool> shut_down_ = false;
};

using SocketPtr = std::shared_ptr<Socket>;

/// Small messages leave at once; a dead host is noticed some day even by an idle connection.
void set_connection_options(int fd);
/// Waits until the descriptor is ready, or the instant has come, or `stop` has; true when it is ready.
bool wait_ready(int fd, short events, Instant until, const StopSignal* stop = nullptr);
/// Milliseconds for poll(2) until that instant, rounded up; 0 when it has passed.
int poll_timeout_ms(Instant until);
/// The text of an errno, in lower case as our details are.
std::string error_text(int error_number);

}  // namespace prime::net
