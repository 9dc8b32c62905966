#include "runtime/net/stop_signal.hpp"

#include <cstdint>
#include <sys/eventfd.h>
#include <unistd.h>

namespace prime::net {

StopSignal::StopSignal() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

StopSignal::~StopSignal() {
  if (fd_ >= 0) ::close(fd_);
}

void StopSignal::stop() noexcept {
  stopped_ = true;
  const std::uint64_t one = 1;
  (void)!::write(fd_, &one, sizeof one);
}

}  // namespace prime::net
