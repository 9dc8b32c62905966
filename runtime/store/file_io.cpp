// Owns the system calls behind file_io.hpp; every one of them is retried when a signal interrupts it.
#include "runtime/store/file_io.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "kernels/digest/digest.hpp"
#include "runtime/shortage.hpp"

namespace prime::store {

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Error storage_error(std::string_view attempt, const std::filesystem::path& path, int error_number) {
  const auto what = std::string{attempt} + " " + path.string();
  if (error_number == EMFILE || error_number == ENFILE) return refused(ErrorName::StorageFailed, what, error_number);
  return Error{ErrorName::StorageFailed, what + ": " + std::generic_category().message(error_number)};
}

Result<void> write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const auto written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(storage_error("write", path, errno));
    if (written == 0) return fail(storage_error("write", path, ENOSPC));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Result<void> sync_directory(const std::filesystem::path& directory) {
  const Descriptor opened{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!opened.open() || ::fsync(opened.get()) != 0) return fail(storage_error("sync", directory, errno));
  return {};
}

namespace {

/// Fills `into` as far as the file reaches; fewer bytes mean its end.
Result<std::size_t> read_some(int fd, std::span<std::byte> into, const std::filesystem::path& path) {
  std::size_t filled = 0;
  while (filled < into.size()) {
    const auto got = ::read(fd, into.data() + filled, into.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(storage_error("read", path, errno));
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  return filled;
}

}  // namespace

Result<Descriptor> open_to_read(const std::filesystem::path& path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status {};
  if (!file.open() || ::fstat(file.get(), &status) != 0) return fail(storage_error("open", path, errno));
  if (!S_ISREG(status.st_mode)) return fail(ErrorName::StorageFailed, "open " + path.string() + ": not a regular file");
  return file;
}

Result<std::string> read_file(const std::filesystem::path& path, std::uint64_t limit_bytes) {
  PRIME_TRY(const Descriptor file, open_to_read(path));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return fail(storage_error("read", path, errno));
  const auto size = static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0));
  if (size > limit_bytes) return fail(storage_error("read", path, EFBIG));
  std::string text(size, '\0');
  PRIME_TRY(const std::size_t got, read_some(file.get(), std::as_writable_bytes(std::span{text}), path));
  text.resize(got);
  return text;
}

Result<std::string> read_input(const std::filesystem::path& path, std::uint64_t limit_bytes) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat status {};
  if (!file.open() || ::fstat(file.get(), &status) != 0) return fail(storage_error("open", path, errno));
  if (S_ISREG(status.st_mode)) return read_file(path, limit_bytes);
  constexpr std::size_t PART = std::size_t{1} << 20;
  std::string text;
  for (std::size_t got = PART; got == PART;) {
    const auto begin = text.size();
    text.resize(begin + PART);
    PRIME_TRY(got, read_some(file.get(), std::as_writable_bytes(std::span{text}.subspan(begin)), path));
    text.resize(begin + got);
    if (text.size() > limit_bytes) return fail(storage_error("read", path, EFBIG));
  }
  return text;
}

Result<FileSummary> summarize_file(const std::filesystem::path& path) {
  PRIME_TRY(const Descriptor file, open_to_read(path));
  std::vector<std::byte> chunk(kernels::DIGEST_CHUNK_BYTES);
  std::vector<Digest> digests;
  std::uint64_t bytes = 0;
  for (std::size_t got = chunk.size(); got == chunk.size();) {
    PRIME_TRY(got, read_some(file.get(), chunk, path));
    if (got > 0) digests.push_back(kernels::digest_bytes(std::span{chunk}.first(got)));
    bytes += got;
  }
  return FileSummary{bytes, kernels::combine_digests(digests, bytes)};
}

OutputFile::OutputFile(std::filesystem::path path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {
  chunk_.reserve(kernels::DIGEST_CHUNK_BYTES);
}

Result<OutputFile> OutputFile::create(std::filesystem::path path) {
  Descriptor file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)};
  if (!file.open()) return fail(storage_error("create", path, errno));
  return OutputFile{std::move(path), std::move(file)};
}

Result<void> OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto room = std::min(bytes.size(), kernels::DIGEST_CHUNK_BYTES - chunk_.size());
    chunk_.insert(chunk_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(room));
    bytes = bytes.subspan(room);
    if (chunk_.size() == kernels::DIGEST_CHUNK_BYTES) PRIME_CHECK(flush_chunk());
  }
  return {};
}

Result<void> OutputFile::flush_chunk() {
  digests_.push_back(kernels::digest_bytes(chunk_));
  PRIME_CHECK(write_all(file_.get(), chunk_, path_));
  bytes_ += chunk_.size();
  chunk_.clear();
  return {};
}

Result<FileSummary> OutputFile::finish() {
  if (!chunk_.empty()) PRIME_CHECK(flush_chunk());
  if (::fsync(file_.get()) != 0) return fail(storage_error("sync", path_, errno));
  file_ = Descriptor{};
  return FileSummary{bytes_, kernels::combine_digests(digests_, bytes_)};
}

}  // namespace prime::store
