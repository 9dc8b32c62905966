// Owns where a directory is while a process works in it: somebody may move it, with all that lies there, and open files go along.
#pragma once

#include <filesystem>
#include <optional>

#include "runtime/store/file_io.hpp"

namespace prime::store {

class KeptPlace {
 public:
  /// From now on; of one that is not there nothing is known.
  explicit KeptPlace(std::filesystem::path directory);
  /// Where it was, if it is there still or nowhere; else where it is now.
  [[nodiscard]] std::filesystem::path now() const;
  /// StorageFailed, with both places, where it is another one now; not where it was removed.
  [[nodiscard]] std::optional<Error> moved() const;
  /// It was removed and is nowhere; false of one that is moved back while it is asked.
  [[nodiscard]] bool removed() const;

 private:
  std::filesystem::path directory_;
  Descriptor opened_;
};

}  // namespace prime::store
