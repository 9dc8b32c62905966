// Owns how much memory a process of this machine can still get: of the machine, and within the limits of its cgroup.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace prime::doctor {

struct MemoryRoom {
  std::uint64_t machine_bytes = 0;
  std::uint64_t free_bytes = 0;  ///< that can be had without swapping, page cache that would be given up included
  /// The narrowest limit of its cgroup and those above it.
  struct Group {
    std::string limit_file;
    std::uint64_t limit_bytes = 0;
    std::uint64_t free_bytes = 0;  ///< within it
    friend bool operator==(const Group&, const Group&) = default;
  };
  std::optional<Group> group;
  friend bool operator==(const MemoryRoom&, const MemoryRoom&) = default;

  [[nodiscard]] std::uint64_t can_be_had() const;
};

/// `root`: where /proc and /sys are, for tests. Empty where the kernel does not tell.
std::optional<MemoryRoom> memory_room(const std::filesystem::path& root = "/");

}  // namespace prime::doctor
