#include "cli/interrupts.hpp"

#include <csignal>
#include <sys/signalfd.h>
#include <unistd.h>

namespace prime::cli {

namespace {

sigset_t heard() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::sigaddset(&signals, number);
  return signals;
}

}  // namespace

Interrupts::Interrupts() {
  const auto signals = heard();
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  signals_ = store::Descriptor{::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC)};
}

bool Interrupts::take() {
  bool any = false;
  signalfd_siginfo one{};
  while (::read(signals_.get(), &one, sizeof one) == static_cast<ssize_t>(sizeof one)) any = true;
  return any;
}

void Interrupts::let_them_end_it() {
  const auto signals = heard();
  ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
}

}  // namespace prime::cli
