// Owns the walk through a directory tree.
#include "runtime/trainer/file_walk.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fnmatch.h>
#include <optional>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace prime::trainer {
namespace {

namespace fs = std::filesystem;

/// The size of a regular file that can really be opened: a permission bit alone promises nothing.
std::optional<std::uint64_t> readable_size(const std::string& path, int flags) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
  if (file < 0) return std::nullopt;
  struct stat status = {};
  const bool usable = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  ::close(file);
  if (!usable) return std::nullopt;
  return static_cast<std::uint64_t>(status.st_size);
}

class Walk {
 public:
  Walk(const std::string& root, const std::string& glob, std::size_t limit) : glob_(glob), limit_(limit) { found_.root = root; }

  /// Visits one folder; the folders in it wait on `pending_`, so depth costs memory and not stack.
  Result<void> visit(const std::string& folder) {
    std::error_code error;
    fs::directory_iterator entry(found_.root + folder, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      const std::string path = folder + entry->path().filename().string();
      std::error_code unknown;
      const fs::file_type type = entry->symlink_status(unknown).type();
      if (type == fs::file_type::directory) pending_.push_back(path + '/');
      if (type == fs::file_type::regular) PRIME_CHECK(consider(path, entry->path().filename().string()));
    }
    if (error) ++found_.unreadable;
    return {};
  }

  Result<FoundFiles> run() && {
    pending_.emplace_back();
    while (!pending_.empty()) {
      const std::string folder = std::move(pending_.back());
      pending_.pop_back();
      PRIME_CHECK(visit(folder));
    }
    std::ranges::sort(found_.files, {}, &FoundFile::path);
    return std::move(found_);
  }

 private:
  Result<void> consider(const std::string& path, const std::string& name) {
    if (::fnmatch(glob_.c_str(), name.c_str(), 0) != 0) return {};
    const auto size = readable_size(found_.root + path, O_NOFOLLOW);
    if (!size) {
      ++found_.unreadable;
      return {};
    }
    if (found_.files.size() == limit_) {
      return fail(ErrorName::DataUnreadable, found_.root + ": more than " + std::to_string(limit_) + " files match " + glob_);
    }
    found_.files.push_back({path, *size});
    return {};
  }

  const std::string& glob_;
  std::size_t limit_;
  FoundFiles found_;
  std::vector<std::string> pending_;
};

}  // namespace

Result<FoundFiles> find_files(const std::string& path, const std::string& glob, std::size_t limit) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_regular_file(status)) {
    const auto size = readable_size(path, 0);
    if (!size) return fail(ErrorName::DataUnreadable, path + ": " + std::strerror(errno));
    const fs::path file(path);
    const std::string folder = file.has_parent_path() ? (file.parent_path() / "").string() : std::string();
    return FoundFiles{folder, {{file.filename().string(), *size}}, 0};
  }
  if (!fs::is_directory(status)) {
    return fail(ErrorName::DataUnreadable, path + ": " + (error ? error.message() : "neither a file nor a directory"));
  }
  PRIME_TRY(auto found, Walk((fs::path(path) / "").string(), glob, limit).run());
  if (found.files.empty() && found.unreadable > 0) {
    return fail(ErrorName::DataUnreadable, path + ": none of its files that match " + glob + " can be opened");
  }
  return found;
}

}  // namespace prime::trainer
