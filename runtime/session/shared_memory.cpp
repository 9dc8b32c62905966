#include "runtime/session/shared_memory.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "runtime/shortage.hpp"

namespace prime {

std::string system_error_text(const std::string& what) { return what + ": " + std::generic_category().message(errno); }

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    number_ = std::exchange(other.number_, -1);
  }
  return *this;
}

Descriptor::~Descriptor() { close(); }

void Descriptor::close() {
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

SharedFloats& SharedFloats::operator=(SharedFloats&& other) noexcept {
  std::swap(values_, other.values_);
  return *this;
}

SharedFloats::~SharedFloats() {
  if (!values_.empty()) ::munmap(values_.data(), values_.size_bytes());
}

Result<SharedFloats> SharedFloats::map(int descriptor, std::uint64_t elements, Access access) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return fail(ErrorName::ProcessFailed, system_error_text("shared memory cannot be examined"));
  const std::uint64_t bytes = elements * sizeof(float);
  if (elements == 0 || !S_ISREG(status.st_mode) || static_cast<std::uint64_t>(status.st_size) < bytes) {
    return fail(ErrorName::ProcessFailed, "shared memory is smaller than the tensors");
  }
  const int protection = access == Access::ReadWrite ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const address = ::mmap(nullptr, bytes, protection, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) return fail(refused(ErrorName::ProcessFailed, "shared memory cannot be mapped", errno));
  SharedFloats mapping;
  mapping.values_ = {static_cast<float*>(address), elements};
  return mapping;
}

Result<Descriptor> create_memory_file(const std::string& name, std::uint64_t bytes) {
  Descriptor file(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return fail(refused(ErrorName::ProcessFailed, "no shared memory for " + name, errno));
  if (::ftruncate(file.number(), static_cast<off_t>(bytes)) != 0 || ::fcntl(file.number(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return fail(ErrorName::ProcessFailed, system_error_text("no shared memory for " + name));
  }
  return file;
}

Result<void> seal_against_new_writers(const Descriptor& file) {
  if (::fcntl(file.number(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    return fail(ErrorName::ProcessFailed, system_error_text("shared memory cannot be sealed"));
  }
  return {};
}

Result<Descriptor> memory_file_of(const std::string& name, std::string_view content) {
  PRIME_TRY(auto file, create_memory_file(name, content.size()));
  std::size_t written = 0;
  while (written < content.size()) {
    const auto count = ::pwrite(file.number(), content.data() + written, content.size() - written, static_cast<off_t>(written));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return fail(ErrorName::ProcessFailed, system_error_text("shared memory cannot be written"));
    written += static_cast<std::size_t>(count);
  }
  return file;
}

Result<std::string> read_memory_file(const Descriptor& file, std::uint64_t max_bytes) {
  struct stat status {};
  if (::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode))
    return fail(ErrorName::TrainerProtocol, "a descriptor is not a file");
  if (static_cast<std::uint64_t>(status.st_size) > max_bytes) return fail(ErrorName::TrainerProtocol, "a file is too large");
  std::string content(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t read = 0;
  while (read < content.size()) {
    const auto count = ::pread(file.number(), content.data() + read, content.size() - read, static_cast<off_t>(read));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return fail(ErrorName::TrainerProtocol, "a file cannot be read or shrank");
    read += static_cast<std::size_t>(count);
  }
  return content;
}

}  // namespace prime
