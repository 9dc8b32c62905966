// Owns finding files: every file below a path whose name matches a glob, in an order that does not depend on the disk; and saying
// what was passed over.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "messages/ids.hpp"
#include "messages/result.hpp"

namespace prime::data {

struct FoundFile {
  std::string path;  ///< relative to the root, with '/' between its parts
  std::uint64_t size_bytes = 0;
  std::int64_t changed_ns = 0;  ///< when it was last written, as its file system says
  Digest head;                  ///< of its first HEAD_BYTES
};

/// Files that were passed over for one reason.
struct Skipped {
  std::uint64_t count = 0;
  std::string first;  ///< one of them, for people
};

struct FoundFiles {
  std::string root;                        ///< what stands before each path, its last '/' included
  std::vector<FoundFile> files;            ///< sorted by path, byte by byte
  std::map<std::string, Skipped> skipped;  ///< of those with matching names: "gzip", "cannot be opened", "reached twice"
  std::map<std::string, Skipped> skipped_folders;
  std::uint64_t other_names = 0;  ///< files that do not match
  [[nodiscard]] std::uint64_t skipped_files() const;
};

/// So much of each file is looked at for what it holds.
inline constexpr std::size_t HEAD_BYTES = 512;

/// What a file holds that is no plain text, by its first bytes: "Parquet", "xz", "binary"; empty for text, and for what ByteStream unpacks.
std::string binary_kind(std::string_view head);

/// With `any`, a file may hold anything; else what is no text is passed over, or refused where `path` is one file.
/// Links below `path` are followed after all that lies there itself, in the order of their paths: what was reached before counts once, so
/// that a walk does not run in circles. `path` itself may be one.
/// DataUnreadable when `path` cannot be opened or is no text, when nothing that matches in it can be read, or when there are more than
/// `limit` files.
Result<FoundFiles> find_files(const std::string& path, const std::string& glob, std::size_t limit, bool any = false);

}  // namespace prime::data
