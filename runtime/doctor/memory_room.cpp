#include "runtime/doctor/memory_room.hpp"

#include <algorithm>
#include <fstream>

namespace prime::doctor {
namespace fs = std::filesystem;
namespace {

/// The figure behind a name: "MemFree: 12 kB", "inactive_file 4096".
std::optional<std::uint64_t> figure(const fs::path& path, const std::string& wanted) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(wanted)) continue;
    const auto digits = line.find_first_of("0123456789", wanted.size());
    if (digits != std::string::npos) return std::stoull(line.substr(digits, 19));
  }
  return std::nullopt;
}

/// One number; nothing for "max", or where there is no such file.
std::optional<std::uint64_t> number(const fs::path& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? std::optional{value} : std::nullopt;
}

/// Names of the files of one version of cgroups.
struct Version {
  const char* folder;
  const char* limit;
  const char* used;
  const char* cache;  ///< in memory.stat: what is given up first
};
constexpr Version SECOND{"sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
constexpr Version FIRST{"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};

void narrow(std::optional<MemoryRoom::Group>& narrowest, const fs::path& group, const Version& version) {
  const auto limit = number(group / version.limit);
  const auto used = number(group / version.used);
  if (!limit || !used) return;
  const auto bound = *used - std::min(*used, figure(group / "memory.stat", version.cache).value_or(0));
  const MemoryRoom::Group found{(group / version.limit).string(), *limit, *limit - std::min(*limit, bound)};
  if (!narrowest || found.free_bytes < narrowest->free_bytes) narrowest = found;
}

/// "0::/x" of version 2, "4:memory:/x" of version 1. A container sees its own group as the root, whatever the path says.
std::optional<MemoryRoom::Group> narrowest_group(const fs::path& root) {
  std::optional<MemoryRoom::Group> narrowest;
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto names = line.find(':');
    const auto path = line.find(':', names + 1);
    if (path == std::string::npos) continue;
    const auto controllers = "," + line.substr(names + 1, path - names - 1) + ",";
    const bool first = controllers.find(",memory,") != std::string::npos;
    if (!first && !line.starts_with("0::")) continue;
    const auto& version = first ? FIRST : SECOND;
    const auto top = root / version.folder;
    for (auto group = fs::path{line.substr(path + 1)}.relative_path(); !group.empty(); group = group.parent_path())
      narrow(narrowest, top / group, version);
    narrow(narrowest, top, version);
  }
  return narrowest;
}

}  // namespace

std::uint64_t MemoryRoom::can_be_had() const { return group ? std::min(group->free_bytes, free_bytes) : free_bytes; }

std::optional<MemoryRoom> memory_room(const fs::path& root) {
  constexpr std::uint64_t KIB_OF_PROC = 1024;
  const auto all = figure(root / "proc/meminfo", "MemTotal:");
  const auto free = figure(root / "proc/meminfo", "MemAvailable:");
  if (!all || !free) return std::nullopt;
  MemoryRoom room{*all * KIB_OF_PROC, *free * KIB_OF_PROC, narrowest_group(root)};
  // "No limit" is a very large number in the first version.
  if (room.group && room.group->limit_bytes >= room.machine_bytes) room.group.reset();
  return room;
}

}  // namespace prime::doctor
