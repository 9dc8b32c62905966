#include "runtime/telemetry/memory_kills.hpp"

#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

namespace prime::telemetry {
namespace {

/// The figure behind a name in a file of "name figure" lines; 0 when it is not there.
std::uint64_t figure(const std::string& path, std::string_view wanted) {
  std::ifstream file(path);
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value)
    if (name == wanted) return value;
  return 0;
}

/// "0::/x" of version 2, "4:memory:/x" of version 1, which rules where its memory controller is in use. A container sees its own group as
/// the root, whatever the path says.
std::string counter_of_own_group() {
  std::ifstream file("/proc/self/cgroup");
  std::string found;
  for (std::string line; std::getline(file, line);) {
    const auto names = line.find(':');
    const auto path = line.find(':', names + 1);
    if (path == std::string::npos) continue;
    const auto controllers = "," + line.substr(names + 1, path - names - 1) + ",";
    const bool first_version = controllers.find(",memory,") != std::string::npos;
    if (!first_version && line.substr(0, 3) != "0::") continue;
    const std::string root = first_version ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
    const std::string name = first_version ? "/memory.oom_control" : "/memory.events";
    std::error_code ignored;
    for (const auto& candidate : {root + line.substr(path + 1) + name, root + name})
      if (std::filesystem::exists(candidate, ignored)) {
        found = candidate;
        break;
      }
    if (first_version && !found.empty()) return found;
  }
  return found;
}

MemoryKills count(std::string group) {
  const auto in_group = group.empty() ? 0 : figure(group, "oom_kill");
  return {std::move(group), in_group, figure("/proc/vmstat", "oom_kill")};
}

}  // namespace

MemoryKills MemoryKills::now() { return count(counter_of_own_group()); }

void MemoryKillWatch::look(Instant now) {
  if (now - looked_ < JUST_BEFORE / 2) return;
  looked_ = now;
  before_ = std::exchange(last_, count(last_.group));
}

std::string MemoryKillWatch::want_of_memory() const {
  const auto now = count(before_.group);
  if (now.in_group > before_.in_group) return "for want of memory: its cgroup is at its limit";
  if (now.on_machine > before_.on_machine) return "probably for want of memory: the kernel has killed a process of this machine for that";
  return {};
}

std::string kills_since_it_began(const MemoryKills& began) {
  if (count(began.group).in_group <= began.in_group) return {};
  return "the kernel has killed processes of its cgroup for want of memory since it began";
}

}  // namespace prime::telemetry
