// Owns StopSignal: what ends the waits of other threads on sockets.
#pragma once

#include <atomic>

namespace prime::net {

/// Once for all waits that look at it, now and later. It must outlive them.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// Any thread, any number of times.
  void stop() noexcept;
  [[nodiscard]] bool stopped() const { return stopped_; }
  /// Readable once it has stopped. Negative where descriptors ran out: poll passes over it, and waits end at their own limits.
  [[nodiscard]] int fd() const { return fd_; }

 private:
  std::atomic<bool> stopped_ = false;
  const int fd_;
};

}  // namespace prime::net
