// Owns the question whether a test that takes much memory has room on this machine.
#pragma once

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>

namespace prime::test {

inline constexpr std::uint64_t GIB = 1ULL << 30U;

/// Whether this machine has less memory to give; then it says so, as the reason of a test that ends without having judged anything.
inline bool lacks_memory(std::uint64_t bytes) {
  std::ifstream file{"/proc/meminfo"};
  std::uint64_t available = 0;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("MemAvailable:")) available = std::stoull(line.substr(13)) * 1024;
  if (available >= bytes) return false;
  std::printf("not tried: it takes %llu GiB of memory, and this machine has %llu to give\n", static_cast<unsigned long long>(bytes / GIB),
              static_cast<unsigned long long>(available / GIB));
  return true;
}

}  // namespace prime::test
