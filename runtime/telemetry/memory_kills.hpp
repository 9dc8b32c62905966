// Owns how it shows that the kernel has killed for want of memory: it says so to nobody but its counters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "messages/units.hpp"

namespace prime::telemetry {

/// How many processes the kernel has killed to get memory.
struct MemoryKills {
  std::string group;           ///< the file that counts those of this process's cgroup, which its children share; empty: none is found
  std::uint64_t in_group = 0;  ///< of that group and those below it
  std::uint64_t on_machine = 0;
  static MemoryKills now();
};

/// For who starts a process and waits for its end: remembers what was counted just before. Only so is the kernel's hand told from any other
/// SIGKILL, since the counters name nobody.
class MemoryKillWatch {
 public:
  static constexpr Duration LOOK_EVERY{2s};
  static constexpr Duration JUST_BEFORE{10s};  ///< a large process takes a while to go after the kernel has killed it

  explicit MemoryKillWatch(Instant now, MemoryKills first = MemoryKills::now()) : before_(first), last_{std::move(first)}, looked_(now) {}
  /// To be called every LOOK_EVERY while the process lives.
  void look(Instant now);
  /// Why one that has been found killed by SIGKILL was killed: "for want of memory: its cgroup is at its limit". Empty when nobody was
  /// killed for that just before.
  [[nodiscard]] std::string want_of_memory() const;

 private:
  MemoryKills before_;  ///< JUST_BEFORE ago at most, and half of it at least, once that long has passed
  MemoryKills last_;
  Instant looked_;
};

/// All that can be said of a process that is gone without a word, by who has not watched it: "the kernel has killed processes of its cgroup
/// for want of memory since it began". Empty when it has not.
std::string kills_since_it_began(const MemoryKills& began);

/// Of the first event of a process; none where an older version told it, or on another start of a machine.
template <class Started>
std::optional<MemoryKills> memory_kills_of(const Started& event, const std::string& boot) {
  if (!event.machine_kills || event.boot_id != boot) return std::nullopt;
  return MemoryKills{event.memory_group.value_or(""), event.group_kills.value_or(0), *event.machine_kills};
}

}  // namespace prime::telemetry
