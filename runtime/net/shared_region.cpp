#include "runtime/net/shared_region.hpp"

#include <cerrno>
#include <fcntl.h>
#include <linux/magic.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace prime::net {
namespace {

constexpr int SIZE_SEALS = F_SEAL_SHRINK | F_SEAL_GROW;

}  // namespace

bool seal_with_size(int descriptor, std::size_t bytes) {
  // To ask for more would end this process by a signal.
  rlimit files{};
  if (::getrlimit(RLIMIT_FSIZE, &files) != 0 || bytes > files.rlim_cur) {
    errno = EFBIG;
    return false;
  }
  return ::ftruncate(descriptor, static_cast<off_t>(bytes)) == 0 && ::fcntl(descriptor, F_ADD_SEALS, SIZE_SEALS | F_SEAL_SEAL) == 0;
}

std::size_t sealed_size(int descriptor) {
  struct stat status {};
  struct statfs system {};
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  // Files on huge pages have seals as well, but touching them may find no page.
  const bool sound = seals >= 0 && (seals & SIZE_SEALS) == SIZE_SEALS && ::fstat(descriptor, &status) == 0 &&
                     ::fstatfs(descriptor, &system) == 0 && system.f_type == TMPFS_MAGIC;
  return sound ? static_cast<std::size_t>(status.st_size) : 0;
}

Result<std::shared_ptr<SharedRegion>> SharedRegion::make(std::size_t bytes) {
  const auto failed = [&] {
    return fail(ErrorName::MemoryUnavailable, "no shared memory of " + std::to_string(bytes) + " bytes: " + error_text(errno));
  };
  const Socket file(::memfd_create("prime-tensor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Who gets a descriptor for reading cannot open the file anew for writing either, but as root.
  if (file.fd() < 0 || !seal_with_size(file.fd(), bytes) || ::fchmod(file.fd(), S_IRUSR) != 0) return failed();
  const int readable = ::open(("/proc/self/fd/" + std::to_string(file.fd())).c_str(), O_RDONLY | O_CLOEXEC);
  if (readable < 0) return failed();
  auto region = std::shared_ptr<SharedRegion>(new SharedRegion(readable, {}));
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
  if (memory == MAP_FAILED) return failed();
  (void)::madvise(memory, bytes, MADV_HUGEPAGE);  // where the machine allows it for shared memory
  region->bytes_ = {static_cast<std::byte*>(memory), bytes};
  return region;
}

SharedRegion::SharedRegion(int readable, std::span<std::byte> bytes) : file_(readable), bytes_(bytes), maker_(::getpid()) {}

SharedRegion::~SharedRegion() {
  if (bytes_.empty()) return;
  if (::getpid() == maker_) (void)::madvise(bytes_.data(), bytes_.size(), MADV_REMOVE);
  ::munmap(bytes_.data(), bytes_.size());
}

MappedRegion MappedRegion::map(int descriptor, std::size_t most) {
  const std::size_t size = sealed_size(descriptor);
  if (size == 0 || size > most) return {};
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) return {};
  return {{static_cast<const std::byte*>(memory), [size](const std::byte* mapped) { ::munmap(const_cast<std::byte*>(mapped), size); }},
          size};
}

}  // namespace prime::net
