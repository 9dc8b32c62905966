// Owns finding files: every regular file below a path whose name matches a glob, in an order that does not depend on the disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "messages/result.hpp"

namespace prime::trainer {

struct FoundFile {
  std::string path;  ///< relative to the root, with '/' between its parts
  std::uint64_t size_bytes = 0;
};

struct FoundFiles {
  std::string root;              ///< what stands before each path, its last '/' included
  std::vector<FoundFile> files;  ///< sorted by path, byte by byte
  std::size_t unreadable = 0;    ///< matching files, or folders, that could not be opened
};

/// Links below `path` are not followed, so a walk cannot leave the tree or run in circles; `path` itself may be one.
/// DataUnreadable when `path` cannot be opened, when nothing in it could be read, or when there are more than `limit` files.
Result<FoundFiles> find_files(const std::string& path, const std::string& glob, std::size_t limit);

}  // namespace prime::trainer
