// Owns BareSockets: what the kernel's sockets reach when nobody frames, checks or adds: the yardstick of the lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace prime::bench {

/// One rank's connections to all others of this machine. Made before the processes are, and moved into them.
class BareSockets {
 public:
  /// One for each rank; empty when the kernel refuses.
  static std::vector<BareSockets> mesh(std::uint32_t ranks);
  BareSockets(BareSockets&& other) noexcept;
  BareSockets& operator=(BareSockets&&) = delete;
  ~BareSockets();

  /// Sends to and receives from each other rank what a direct all-reduce of `bytes` exchanges with it.
  void exchange(std::uint64_t bytes);

 private:
  BareSockets() = default;
  std::vector<int> others_;
  std::vector<std::byte> sent_;
  std::vector<std::byte> received_;
};

/// A port of 127.0.0.1 that is free; the descriptor that holds it is appended to `held`.
std::uint16_t free_port(std::vector<int>& held);

}  // namespace prime::bench
