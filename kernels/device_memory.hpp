// Owns DeviceMemory: memory that is not the host's, as those see it who move bytes out of it and into it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace prime::kernels {

/// Calls return at once, from any thread. Spans named device are of its addresses: nobody but the device reads or writes through them.
class DeviceMemory {
 public:
  /// Hears of the end of a copy, and what went wrong. Called exactly once, on a thread of the memory's own and never from within the call
  /// that began the copy; those of several copies in any order. Must be quick, and may drop the last reference to the memory.
  using Copied = std::function<void(std::optional<std::string> fault)>;

  virtual ~DeviceMemory() = default;
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// For errors: "CUDA device 0".
  [[nodiscard]] virtual std::string name() const = 0;

  /// Begin to copy as many bytes as `from` holds. Both ranges must stay until the copy has ended, well or not.
  virtual void fetch(std::span<const std::byte> from_device, std::byte* to_host, Copied done) = 0;
  virtual void store(std::span<const std::byte> from_host, std::byte* to_device, Copied done) = 0;
  virtual void move(std::span<const std::byte> from_device, std::byte* to_device, Copied done) = 0;

  /// Makes copies from and to this host memory fast, where that can be done; it begins at a page.
  virtual void pin(std::span<std::byte> host) = 0;
  virtual void unpin(std::span<std::byte> host) = 0;

  /// Memory of the device; null when none is left.
  virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void release(std::byte* device) = 0;
};

}  // namespace prime::kernels
