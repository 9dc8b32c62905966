#include "runtime/store/kept_place.hpp"

#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <utility>

namespace prime::store {
namespace fs = std::filesystem;
namespace {

bool is_there(int opened, const fs::path& path) {
  struct stat one {};
  struct stat other {};
  return ::fstat(opened, &one) == 0 && ::stat(path.c_str(), &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

}  // namespace

KeptPlace::KeptPlace(fs::path directory)
    : directory_(std::move(directory)), opened_(::open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}

fs::path KeptPlace::now() const {
  if (!opened_.open() || is_there(opened_.get(), directory_)) return directory_;
  std::error_code error;
  const auto found = fs::read_symlink("/proc/self/fd/" + std::to_string(opened_.get()), error);
  return !error && is_there(opened_.get(), found) ? found : directory_;
}

std::optional<Error> KeptPlace::moved() const {
  const auto found = now();
  if (found == directory_) return std::nullopt;
  return Error{ErrorName::StorageFailed, directory_.string() + " was moved to " + found.string() +
                                             " while this run worked in it: move it back, and what is at work goes on"};
}

bool KeptPlace::removed() const {
  struct stat self {};
  return opened_.open() && ::fstat(opened_.get(), &self) == 0 && self.st_nlink == 0;
}

}  // namespace prime::store
