// Owns how it shows that the kernel has killed for want of memory: it says so to nobody but its counters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace prime::telemetry {

/// How many processes the kernel has killed to get memory.
struct MemoryKills {
  std::string group;           ///< the file that counts those of this process's cgroup, which its children share; empty: none is found
  std::uint64_t in_group = 0;  ///< of that group and those below it
  std::uint64_t on_machine = 0;
  static MemoryKills now();
};

/// Why a process that was there at `since`, and was killed just now, was killed: "for want of memory: its cgroup is at its limit". Empty
/// when nobody was killed for that since then.
std::string want_of_memory(const MemoryKills& since);
/// The same for who looks at any later time, when what the whole machine has killed since then proves nothing.
std::string want_of_memory_in_group(const MemoryKills& since);

/// Of the first event of a process; none where an older version told it, or on another start of a machine.
template <class Started>
std::optional<MemoryKills> memory_kills_of(const Started& event, const std::string& boot) {
  if (!event.machine_kills || event.boot_id != boot) return std::nullopt;
  return MemoryKills{event.memory_group.value_or(""), event.group_kills.value_or(0), *event.machine_kills};
}

}  // namespace prime::telemetry
