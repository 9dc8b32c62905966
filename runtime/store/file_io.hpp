// Owns plain file access with errors as values: descriptors, whole reads, and an output file that digests what it writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "messages/ids.hpp"
#include "messages/result.hpp"

namespace prime::store {

/// An owned file descriptor; closed when it goes.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool open() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// StorageFailed with what was tried, the path and the text of `error_number`; MemoryUnavailable where there are no more descriptors.
Error storage_error(std::string_view attempt, const std::filesystem::path& path, int error_number);

/// Writes all bytes or fails; the file may then hold a part of them.
Result<void> write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path);
/// Makes names in `directory` durable: a rename counts only after this.
Result<void> sync_directory(const std::filesystem::path& directory);
/// Of a regular file only: whoever opens a FIFO waits for its other end, and reads of it never end.
Result<Descriptor> open_to_read(const std::filesystem::path& path);
/// The whole file as text. Fails when it holds more than `limit_bytes`, so that a damaged file cannot fill the memory.
Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t limit_bytes);

/// As read_file, of a pipe, too: for what a person names, who may have it made by another program. Waits for its end.
Result<std::string> read_input(const std::filesystem::path& path, std::uint64_t limit_bytes);

/// What a finished file holds: `digest` is that of kernels/digest, over chunks.
struct FileSummary {
  std::uint64_t bytes = 0;
  Digest digest;
  friend bool operator==(const FileSummary&, const FileSummary&) = default;
};

/// Reads a file once and digests it.
Result<FileSummary> summarize_file(const std::filesystem::path& path);

/// A new file written front to back. Its digest is that of the bytes given, not of what the disk made of them.
class OutputFile {
 public:
  /// Fails when `path` exists already.
  static Result<OutputFile> create(std::filesystem::path path);
  Result<void> write(std::span<const std::byte> bytes);
  Result<void> write(std::string_view text) { return write(std::as_bytes(std::span{text})); }
  /// Flushes to the disk and closes. Nothing may be written afterwards.
  Result<FileSummary> finish();

 private:
  OutputFile(std::filesystem::path path, Descriptor file);
  Result<void> flush_chunk();

  std::filesystem::path path_;
  Descriptor file_;
  std::vector<std::byte> chunk_;  ///< not yet written; at most one digest chunk
  std::vector<Digest> digests_;
  std::uint64_t bytes_ = 0;
};

}  // namespace prime::store
