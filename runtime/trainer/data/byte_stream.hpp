// Owns reading a file from its beginning to its end, unpacked where it is gzip or zstd: what it is packed with is seen in its first bytes,
// never in its name. Memory is bounded by the two buffers and by what zstd's window may take.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "messages/result.hpp"

namespace prime::data {

/// "gzip" or "zstd" by the first bytes of a file; empty for anything else.
std::string_view packing_of(std::string_view head);

class ByteStream {
 public:
  /// DataUnreadable where it cannot be opened, or is a directory.
  static Result<ByteStream> open(const std::string& path);
  ByteStream(ByteStream&&) noexcept;
  ByteStream& operator=(ByteStream&&) noexcept;
  ~ByteStream();

  /// Fills the beginning of `into`; 0 only at the end. DataUnreadable with the path where the file breaks off, or is damaged.
  Result<std::size_t> read(std::span<char> into);
  [[nodiscard]] const std::string& path() const;
  [[nodiscard]] bool packed() const;

 private:
  struct Impl;
  explicit ByteStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Reads a packed file to its end, unless it is told to stop: DataUnreadable where what packs it is damaged. A file that is not packed is
/// not read.
Result<void> check_packing(const std::string& path, const std::atomic<bool>* stop = nullptr);

}  // namespace prime::data
