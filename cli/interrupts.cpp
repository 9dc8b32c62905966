#include "cli/interrupts.hpp"

#include <csignal>
#include <sys/signalfd.h>
#include <unistd.h>

namespace prime::cli {

Interrupts::Interrupts() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::sigaddset(&signals, number);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  signals_ = store::Descriptor{::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC)};
}

bool Interrupts::take() {
  bool any = false;
  signalfd_siginfo one{};
  while (::read(signals_.get(), &one, sizeof one) == static_cast<ssize_t>(sizeof one)) any = true;
  return any;
}

}  // namespace prime::cli
