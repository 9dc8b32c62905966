#include "runtime/launch/stop_processes.hpp"

#include <poll.h>
extern "C" {
#include <sys/pidfd.h>  // glibc 2.36 forgets to say that these are C functions
}
#include <algorithm>
#include <csignal>
#include <sys/wait.h>
#include <vector>

#include "runtime/store/file_io.hpp"

namespace prime::launch {
namespace {

/// A descriptor of just this process: what is opened first and compared afterwards cannot be somebody else any more.
store::Descriptor open_process(const telemetry::ProcessIdentity& process) {
  store::Descriptor descriptor{process.pid > 0 ? ::pidfd_open(process.pid, 0) : -1};
  if (descriptor.open() && !telemetry::is_alive(process)) return {};
  return descriptor;
}

bool has_ended(const store::Descriptor& process) {
  pollfd watched{process.get(), POLLIN, 0};
  return ::poll(&watched, 1, 0) > 0;
}

/// Until all have ended (true), the limit has passed, or the interrupt comes.
bool wait_for_all(const std::vector<store::Descriptor>& processes, Duration limit, int interrupt) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    std::vector<pollfd> watched{pollfd{interrupt, POLLIN, 0}};
    for (const auto& process : processes)
      if (!has_ended(process)) watched.push_back(pollfd{process.get(), POLLIN, 0});
    if (watched.size() == 1) return true;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    ::poll(watched.data(), watched.size(), static_cast<int>(left.count()));
    if (watched.front().revents != 0) return false;
  }
}

}  // namespace

std::size_t stop_processes(std::span<const telemetry::ProcessIdentity> processes, const StopLimits& limits) {
  std::vector<store::Descriptor> open;
  for (const auto& process : processes)
    if (auto descriptor = open_process(process); descriptor.open()) open.push_back(std::move(descriptor));
  for (const auto& process : open) ::pidfd_send_signal(process.get(), SIGTERM, nullptr, 0);
  if (wait_for_all(open, limits.patience, limits.interrupt)) return 0;
  std::size_t stubborn = 0;
  for (const auto& process : open) {
    if (has_ended(process)) continue;
    ++stubborn;
    if (limits.kill) ::pidfd_send_signal(process.get(), SIGKILL, nullptr, 0);
  }
  // A killed process ends as soon as the kernel comes to it; the limit is for one that hangs in the kernel.
  if (limits.kill) wait_for_all(open, Duration{5s}, -1);
  return stubborn;
}

}  // namespace prime::launch
