// Owns the hidden names, their locks, and the renames that make writes appear at once.
#include "runtime/store/atomic_file.hpp"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "runtime/store/file_lock.hpp"

namespace prime::store {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view HIDDEN_SUFFIX = ".writing";
/// How often an entry may vanish between being created and being locked before that is an error.
constexpr int LOCK_ATTEMPTS_MAX = 100;

fs::path parent_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path{"."}; }

/// A rename or a clean-up may have taken the entry away before the lock was granted: the lock is then on something else.
bool still_at(const fs::path& path, int fd) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

/// Where the file system has no locks, a run's directories have one writer each all the same (telemetry/run_lock).
bool locked(int fd, bool wait) {
  const auto answer = lock_whole(fd, wait);
  return answer == LockAnswer::Granted || answer == LockAnswer::Unsupported;
}

Result<Descriptor> lock_hidden_file(const fs::path& hidden) {
  for (int attempt = 0; attempt < LOCK_ATTEMPTS_MAX; ++attempt) {
    Descriptor file{::open(hidden.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)};
    if (!file.open()) return fail(storage_error("create", hidden, errno));
    if (!locked(file.get(), true)) return fail(storage_error("lock", hidden, errno));
    if (still_at(hidden, file.get())) return file;
  }
  return fail(storage_error("lock", hidden, EBUSY));
}

Result<Descriptor> lock_hidden_directory(const fs::path& hidden) {
  for (int attempt = 0; attempt < LOCK_ATTEMPTS_MAX; ++attempt) {
    if (::mkdir(hidden.c_str(), 0755) != 0 && errno != EEXIST) return fail(storage_error("create", hidden, errno));
    Descriptor directory{::open(hidden.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!directory.open() && errno == ENOENT) continue;
    if (!directory.open()) return fail(storage_error("open", hidden, errno));
    if (!locked(directory.get(), false)) return fail(ErrorName::StorageFailed, "another process is writing " + hidden.string());
    if (still_at(hidden, directory.get())) return directory;
  }
  return fail(storage_error("lock", hidden, EBUSY));
}

Result<void> remove_tree(const fs::path& root) {
  std::error_code error;
  fs::remove_all(root, error);
  if (error) return fail(storage_error("remove", root, error.value()));
  return {};
}

/// What a dead writer of the same target left must not become part of the new one.
Result<void> empty_directory(const fs::path& directory) {
  std::error_code error;
  for (fs::directory_iterator entry{directory, error}; !error && entry != fs::directory_iterator{}; entry.increment(error))
    PRIME_CHECK(remove_tree(entry->path()));
  if (error) return fail(storage_error("empty", directory, error.value()));
  return {};
}

/// Removes hidden directories in `parent` whose writers are dead. Best effort: what stays is hidden and harmless.
void remove_leftovers(const fs::path& parent) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator{parent, ignored}) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with('.') || !name.ends_with(HIDDEN_SUFFIX) || !entry.is_directory(ignored)) continue;
    const Descriptor directory{::open(entry.path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
    if (directory.open() && lock_whole(directory.get(), false) == LockAnswer::Granted) fs::remove_all(entry.path(), ignored);
  }
}

Result<void> sync_file(const fs::path& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file.open() || ::fsync(file.get()) != 0) return fail(storage_error("sync", path, errno));
  return {};
}

Result<void> sync_tree(const fs::path& root) {
  std::error_code error;
  fs::recursive_directory_iterator entries{root, error};
  for (; !error && entries != fs::recursive_directory_iterator{}; entries.increment(error)) {
    const bool directory = entries->is_directory(error);
    if (error) break;
    PRIME_CHECK(directory ? sync_directory(entries->path()) : sync_file(entries->path()));
  }
  if (error) return fail(storage_error("sync", root, error.value()));
  return sync_directory(root);
}

/// Where a text goes: a name that becomes that of a new file, or something that is written into as it is.
struct Destination {
  fs::path path;
  bool replaced = true;
};

bool is_open_file(const fs::path& path) {
  std::error_code ignored;
  return fs::canonical(parent_of(path), ignored).string().starts_with("/proc/");
}

Result<Destination> destination_of(fs::path path) {
  constexpr int LINKS_MAX = 40;
  for (int links = 0; links <= LINKS_MAX; ++links) {
    struct stat found {};
    if (::lstat(path.c_str(), &found) != 0) {
      if (errno == ENOENT) return Destination{path};
      return fail(storage_error("write", path, errno));
    }
    if (S_ISREG(found.st_mode)) return Destination{path};
    if (S_ISDIR(found.st_mode)) return fail(storage_error("write", path, EISDIR));
    if (S_ISFIFO(found.st_mode) || S_ISCHR(found.st_mode)) return Destination{path, false};
    if (!S_ISLNK(found.st_mode))
      return fail(ErrorName::StorageFailed, "write " + path.string() + ": neither a file, a FIFO nor a character device");
    // /dev/stdout and /dev/fd/3 lead to what a process has open, and that need not have a name.
    if (is_open_file(path)) return Destination{path, false};
    std::error_code error;
    const auto target = fs::read_symlink(path, error);
    if (error) return fail(storage_error("read", path, error.value()));
    path = target.is_absolute() ? target : parent_of(path) / target;
  }
  return fail(storage_error("write", path, ELOOP));
}

}  // namespace

fs::path hidden_name(const fs::path& path) { return parent_of(path) / ("." + path.filename().string() + std::string{HIDDEN_SUFFIX}); }

FileTransaction::FileTransaction(fs::path path, fs::path hidden, Descriptor file)
    : path_(std::move(path)), hidden_(std::move(hidden)), file_(std::move(file)) {}

Result<FileTransaction> FileTransaction::begin(const fs::path& place) {
  PRIME_TRY(auto destination, destination_of(place));
  auto& path = destination.path;
  if (!destination.replaced) {
    Descriptor file{::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)};
    if (!file.open()) return fail(storage_error("open", path, errno));
    return FileTransaction{std::move(path), {}, std::move(file)};
  }
  auto hidden = hidden_name(path);
  PRIME_TRY(Descriptor file, lock_hidden_file(hidden));
  FileTransaction transaction{std::move(path), std::move(hidden), std::move(file)};
  if (::ftruncate(transaction.file_.get(), 0) != 0) return fail(storage_error("truncate", transaction.hidden_, errno));
  struct stat before {};
  struct stat made {};
  const bool replaces = ::stat(transaction.path_.c_str(), &before) == 0 && ::fstat(transaction.file_.get(), &made) == 0;
  // Where a file system has one mode for all, it is not asked for another.
  if (replaces && before.st_mode != made.st_mode && ::fchmod(transaction.file_.get(), before.st_mode & 0777U) != 0)
    return fail(storage_error("set the mode of", transaction.hidden_, errno));
  return transaction;
}

Result<void> FileTransaction::write(std::string_view content) {
  return write_all(file_.get(), std::as_bytes(std::span{content}), hidden_.empty() ? path_ : hidden_);
}

Result<void> FileTransaction::commit() {
  if (hidden_.empty()) return {};
  if (::fsync(file_.get()) != 0) return fail(storage_error("sync", hidden_, errno));
  if (::rename(hidden_.c_str(), path_.c_str()) != 0) return fail(storage_error("rename to", path_, errno));
  file_ = Descriptor{};
  return sync_directory(parent_of(path_));
}

FileTransaction::~FileTransaction() {
  if (file_.open() && !hidden_.empty()) ::unlink(hidden_.c_str());
}

Result<void> write_file_atomically(const fs::path& path, std::string_view content) {
  PRIME_TRY(auto file, FileTransaction::begin(path));
  PRIME_CHECK(file.write(content));
  return file.commit();
}

bool same_file(const fs::path& one, const fs::path& other) {
  struct stat first {};
  struct stat second {};
  return ::stat(one.c_str(), &first) == 0 && ::stat(other.c_str(), &second) == 0 && S_ISREG(first.st_mode) &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

Result<void> check_writable(const fs::path& place) {
  PRIME_TRY(const auto destination, destination_of(place));
  if (!destination.replaced) {
    if (::access(destination.path.c_str(), W_OK) != 0) return fail(storage_error("write", destination.path, errno));
    return {};
  }
  const auto hidden = hidden_name(destination.path);
  PRIME_TRY(const Descriptor file, lock_hidden_file(hidden));
  ::unlink(hidden.c_str());
  return {};
}

Result<void> make_directory(const fs::path& path) {
  std::error_code error;
  fs::create_directory(path, error);
  if (error) return fail(storage_error("create", path, error.value()));
  return {};
}

DirectoryTransaction::DirectoryTransaction(fs::path target, fs::path staging, Descriptor lock)
    : target_(std::move(target)), staging_(std::move(staging)), lock_(std::move(lock)) {}

Result<DirectoryTransaction> DirectoryTransaction::begin(fs::path target) {
  const auto parent = parent_of(target);
  PRIME_CHECK(make_directory(parent));
  remove_leftovers(parent);
  auto staging = hidden_name(target);
  PRIME_TRY(Descriptor lock, lock_hidden_directory(staging));
  PRIME_CHECK(empty_directory(staging));
  return DirectoryTransaction{std::move(target), std::move(staging), std::move(lock)};
}

Result<void> DirectoryTransaction::commit() {
  PRIME_CHECK(sync_tree(staging_));
  if (::rename(staging_.c_str(), target_.c_str()) != 0) {
    if (errno != ENOTEMPTY && errno != EEXIST) return fail(storage_error("rename to", target_, errno));
    // An older directory is in the place: the two swap names at once, and the older one is removed under the hidden name.
    if (::renameat2(AT_FDCWD, staging_.c_str(), AT_FDCWD, target_.c_str(), RENAME_EXCHANGE) != 0)
      return fail(storage_error("replace", target_, errno));
    PRIME_CHECK(remove_tree(staging_));
  }
  lock_ = Descriptor{};
  return sync_directory(parent_of(target_));
}

DirectoryTransaction::~DirectoryTransaction() {
  std::error_code ignored;
  if (lock_.open()) fs::remove_all(staging_, ignored);
}

Result<void> remove_directory_atomically(const fs::path& directory) {
  const auto hidden = hidden_name(directory);
  PRIME_CHECK(remove_tree(hidden));
  if (::rename(directory.c_str(), hidden.c_str()) == 0) return remove_tree(hidden);
  if (errno == ENOENT) return {};
  return fail(storage_error("remove", directory, errno));
}

}  // namespace prime::store
