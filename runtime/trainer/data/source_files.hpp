// Owns finding the files of a source: of each path a file, a glob or a directory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/trainer/data/file_walk.hpp"
#include "runtime/trainer/data/source.hpp"

namespace prime::data {

/// More files than this are refused: the index would not be small any more.
inline constexpr std::size_t MAX_SOURCE_FILES = 1'000'000;

struct SourceFile {
  std::string path;  ///< to open it
  std::string name;  ///< below what its path in the manifest leads to
  std::uint64_t size_bytes = 0;
  std::int64_t changed_ns = 0;
  Digest head;
  std::optional<std::string> mate = {};  ///< the path of the file with the second reads
  std::uint64_t mate_bytes = 0;
  std::int64_t mate_changed_ns = 0;
};

struct SourceFiles {
  std::vector<SourceFile> files;
  FoundFiles passed_over;  ///< without its files
  std::string place;       ///< for people: "/data", "3 paths"
};

/// DataUnreadable, DataTooSmall as find_files has them, and where a first file of a pair has no second.
Result<SourceFiles> files_of(const Source& source, const std::string& include);

}  // namespace prime::data
