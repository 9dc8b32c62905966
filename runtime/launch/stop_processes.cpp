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

struct Open {
  telemetry::ProcessIdentity identity;
  store::Descriptor descriptor;
};

enum class Waited { Ended, TimedOut, Interrupted };

Waited wait_for_all(const std::vector<Open>& processes, Duration limit, int interrupt) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    std::vector<pollfd> watched{pollfd{interrupt, POLLIN, 0}};
    for (const auto& process : processes)
      if (!has_ended(process.descriptor)) watched.push_back(pollfd{process.descriptor.get(), POLLIN, 0});
    if (watched.size() == 1) return Waited::Ended;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return Waited::TimedOut;
    ::poll(watched.data(), watched.size(), static_cast<int>(left.count()));
    if (watched.front().revents != 0) return Waited::Interrupted;
  }
}

}  // namespace

std::size_t stop_processes(std::span<const telemetry::ProcessIdentity> processes, const StopLimits& limits) {
  std::vector<Open> open;
  for (const auto& process : processes)
    if (auto descriptor = open_process(process); descriptor.open()) open.push_back({process, std::move(descriptor)});
  for (const int signal : {SIGTERM, SIGCONT})
    for (const auto& process : open) ::pidfd_send_signal(process.descriptor.get(), signal, nullptr, 0);
  if (wait_for_all(open, limits.patience, limits.interrupt) == Waited::Ended) return 0;
  for (;;) {
    std::erase_if(open, [](const Open& process) { return has_ended(process.descriptor); });
    if (!limits.saves || std::ranges::none_of(open, [&](const Open& process) { return limits.saves(process.identity); })) break;
    if (wait_for_all(open, Duration{1s}, limits.interrupt) == Waited::Interrupted) break;
  }
  for (const auto& process : open)
    if (limits.kill) ::pidfd_send_signal(process.descriptor.get(), SIGKILL, nullptr, 0);
  // A killed process ends as soon as the kernel comes to it; the limit is for one that hangs in the kernel.
  if (limits.kill) wait_for_all(open, Duration{5s}, -1);
  return open.size();
}

}  // namespace prime::launch
