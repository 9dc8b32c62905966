// Owns SharedRegion: memory of this process that others on the machine may map, and the check of a memory file that one of them sends.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <sys/types.h>

#include "messages/result.hpp"
#include "runtime/net/socket.hpp"

namespace prime::net {

/// A memory file of fixed size, mapped here for writing; its descriptor lets others read only. Who got it keeps a mapping for as long as it
/// likes, but not the pages: they go with the region, and who reads there afterwards reads zeros.
class SharedRegion {
 public:
  /// Zeros; fails with MemoryUnavailable. The address is that of a page.
  static Result<std::shared_ptr<SharedRegion>> make(std::size_t bytes);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
  [[nodiscard]] int descriptor() const { return file_.fd(); }

 private:
  SharedRegion(int readable, std::span<std::byte> bytes);

  Socket file_;
  std::span<std::byte> bytes_;
  pid_t maker_;  ///< a forked child has this object, too, and must leave the pages to its parent
};

/// What another process has sent, mapped for reading; it may change at any time. Empty when the descriptor is no memory file, or one whose
/// size may change: to touch what was cut off would end this process.
struct MappedRegion {
  std::shared_ptr<const std::byte[]> bytes;
  std::size_t size = 0;
  static MappedRegion map(int descriptor, std::size_t most);
};

/// The size of a memory file that nobody can change; 0 for anything else.
std::size_t sealed_size(int descriptor);
/// Whether the descriptor is now a memory file of so many bytes that cannot change.
bool seal_with_size(int descriptor, std::size_t bytes);

}  // namespace prime::net
