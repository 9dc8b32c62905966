#include "runtime/agent/end_signal.hpp"

#include <array>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace prime {
namespace {

sigset_t end_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGQUIT);
  return set;
}

int milliseconds(Duration duration) { return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(duration).count()); }

}  // namespace

EndSignal::EndSignal() {
  auto blocked = end_signals();
  sigaddset(&blocked, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  const auto wanted = end_signals();
  signals_ = ::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

EndSignal::~EndSignal() {
  ::close(signals_);
  ::close(wake_);
}

void EndSignal::wake() {
  const std::uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof one);
}

void EndSignal::end(std::optional<Error> cause) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
    cause_ = std::move(cause);
  }
  wake();
}

void EndSignal::release() {
  {
    const std::lock_guard lock(mutex_);
    released_ = true;
  }
  wake();
}

bool EndSignal::signalled_within(Duration limit) const {
  pollfd entry{signals_, POLLIN, 0};
  return ::poll(&entry, 1, milliseconds(limit)) > 0;
}

std::optional<Error> EndSignal::wait(const std::function<void(int)>& on_signal, const std::function<void()>& on_idle) {
  int signals = 0;
  for (;;) {
    std::array<pollfd, 2> entries{pollfd{wake_, POLLIN, 0}, pollfd{signals_, POLLIN, 0}};
    if (::poll(entries.data(), entries.size(), 250) == 0) on_idle();
    signalfd_siginfo signal{};
    while (::read(signals_, &signal, sizeof signal) == sizeof signal) on_signal(++signals);
    std::uint64_t count = 0;
    (void)!::read(wake_, &count, sizeof count);
    const std::lock_guard lock(mutex_);
    if (ended_) return cause_;
  }
}

bool EndSignal::wait_for_release(Duration limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (released_) return true;
    }
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= Duration{}) return false;
    pollfd entry{wake_, POLLIN, 0};
    if (::poll(&entry, 1, milliseconds(left) + 1) > 0) {
      std::uint64_t count = 0;
      (void)!::read(wake_, &count, sizeof count);
    }
  }
}

}  // namespace prime
