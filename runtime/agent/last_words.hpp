// Owns what is left of a process that has ended: the end of its log, and whether the kernel killed for memory meanwhile.
#pragma once

#include <cstdint>
#include <string>

namespace prime {

/// The last lines of a file from `begin` on, on one line and fit for a terminal; at most three, and 400 bytes. Empty when there are none.
std::string tail_of(const std::string& path, std::uint64_t begin);

/// How many processes the kernel has killed to get memory.
struct MemoryKills {
  std::uint64_t in_group = 0;  ///< in the cgroup of this process, which its children share
  std::uint64_t on_machine = 0;
  static MemoryKills now();
};

}  // namespace prime
