// Owns law 9 on a file system: a file or a directory is complete at its name, or it is not there.
//
// Both kinds are written under a hidden name, ".NAME.writing", beside their place, flushed, and renamed. The writer holds a file
// lock on the hidden entry; the kernel drops it when the writer dies, so leftovers are recognised without comparing process ids.
#pragma once

#include <filesystem>
#include <string_view>

#include "runtime/store/file_io.hpp"

namespace prime::store {

/// A file in the making; concurrent writers take turns. Unless `commit` succeeds, what was at `path` stays, and nothing else is left.
/// A symbolic link stays and what it leads to is replaced. A FIFO or a character device is written into, as a shell would: nothing replaces
/// it. StorageFailed for a directory, a block device and a socket.
class FileTransaction {
 public:
  static Result<FileTransaction> begin(const std::filesystem::path& path);
  FileTransaction(FileTransaction&&) noexcept = default;
  FileTransaction& operator=(FileTransaction&&) = delete;
  ~FileTransaction();

  Result<void> write(std::string_view content);
  Result<void> commit();

 private:
  FileTransaction(std::filesystem::path path, std::filesystem::path hidden, Descriptor file);

  std::filesystem::path path_;
  std::filesystem::path hidden_;  ///< empty: what is at `path` is written into
  Descriptor file_;
};

/// The whole of it at once.
Result<void> write_file_atomically(const std::filesystem::path& path, std::string_view content);
/// Whether that could be done now, for whoever computes for an hour before it is. Leaves nothing.
Result<void> check_writable(const std::filesystem::path& path);

/// Where it is not there yet, and only it is absent: whoever removed or moved what it lies in gets no part of it back.
Result<void> make_directory(const std::filesystem::path& path);

/// A directory in the making. Removed again unless `commit` succeeds.
class DirectoryTransaction {
 public:
  /// Makes the directory that `target` is to lie in (see make_directory), and removes what dead writers left beside `target`.
  /// Fails when another process is writing the same target.
  static Result<DirectoryTransaction> begin(std::filesystem::path target);
  DirectoryTransaction(DirectoryTransaction&&) noexcept = default;
  DirectoryTransaction& operator=(DirectoryTransaction&&) = delete;
  ~DirectoryTransaction();

  /// Where to write; subdirectories are welcome. Files written through OutputFile are already flushed.
  [[nodiscard]] const std::filesystem::path& staging() const { return staging_; }
  /// Flushes every file and directory, then puts the directory at its target in one step. An older one there is replaced.
  Result<void> commit();

 private:
  DirectoryTransaction(std::filesystem::path target, std::filesystem::path staging, Descriptor lock);

  std::filesystem::path target_;
  std::filesystem::path staging_;
  Descriptor lock_;  ///< open until the end: holding it is what tells a living writer from a dead one
};

/// Under which it is written until it is whole: what is there already is taken for what a dead writer left.
std::filesystem::path hidden_name(const std::filesystem::path& path);

/// Whether both names lead to one regular file, through links of any kind.
bool same_file(const std::filesystem::path& one, const std::filesystem::path& other);

/// Removes a directory so that it is never seen half there. A missing one is no error.
Result<void> remove_directory_atomically(const std::filesystem::path& directory);

}  // namespace prime::store
