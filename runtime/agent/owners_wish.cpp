#include "runtime/agent/owners_wish.hpp"

#include <sys/signalfd.h>
#include <unistd.h>
extern "C" {
#include <sys/pidfd.h>  // glibc 2.36 forgets to say that these are C functions
}
#include <charconv>
#include <csignal>
#include <fstream>
#include <string>

namespace prime {
namespace {

int signal_of(Wish wish) { return wish == Wish::Pause ? SIGUSR1 : SIGUSR2; }

/// Whether its main thread blocks the signal, as who reads it from a descriptor does.
bool listens_for(pid_t pid, int number) {
  constexpr std::string_view BLOCKED = "SigBlk:\t";
  std::ifstream status{"/proc/" + std::to_string(pid) + "/status"};
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(BLOCKED)) continue;
    std::uint64_t mask = 0;
    std::from_chars(line.data() + BLOCKED.size(), line.data() + line.size(), mask, 16);
    return (mask >> (number - 1) & 1U) != 0;
  }
  return false;
}

}  // namespace

OwnersWish::OwnersWish() {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (const auto wish : {Wish::Pause, Wish::Resume}) ::sigaddset(&wanted, signal_of(wish));
  ::pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
  signals_ = store::Descriptor{::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK)};
}

std::optional<Wish> OwnersWish::take() {
  std::optional<Wish> newest;
  signalfd_siginfo signal{};
  while (::read(signals_.get(), &signal, sizeof signal) == sizeof signal)
    newest = static_cast<int>(signal.ssi_signo) == signal_of(Wish::Pause) ? Wish::Pause : Wish::Resume;
  return newest;
}

bool ask(const telemetry::ProcessIdentity& coordinator, Wish wish) {
  const store::Descriptor process{coordinator.pid > 0 ? ::pidfd_open(coordinator.pid, 0) : -1};
  // What was opened first and compared afterwards cannot be somebody else any more.
  if (!process.open() || !telemetry::is_alive(coordinator) || !listens_for(coordinator.pid, signal_of(wish))) return false;
  return ::pidfd_send_signal(process.get(), signal_of(wish), nullptr, 0) == 0;
}

}  // namespace prime
