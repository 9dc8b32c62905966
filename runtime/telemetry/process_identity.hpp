// Owns who a process is: its number and its start time, so that a number that was used again fools nobody.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <sys/types.h>

namespace prime::telemetry {

struct ProcessIdentity {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  ///< field 22 of /proc/PID/stat
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// Empty when there is no such process, or only what its parent has not reaped yet.
std::optional<std::uint64_t> start_ticks(pid_t pid);
bool is_alive(const ProcessIdentity& process);
/// Who holds the lock of a journal; empty when nobody writes it.
std::optional<ProcessIdentity> writer_of(const std::filesystem::path& journal);

}  // namespace prime::telemetry
