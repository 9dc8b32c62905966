#include "runtime/store/file_lock.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>

namespace prime::store {
namespace {

/// Beyond what a lock file holds: servers of SMB let nobody read or write a range that another machine has locked.
constexpr off_t LIFE_BYTE = 1 << 30;

LockAnswer answer_of(int result) {
  if (result == 0) return LockAnswer::Granted;
  switch (errno) {
    case EACCES:
    case EAGAIN: return LockAnswer::Held;
    case ENOLCK:  // also of NFS, when nothing answers for the server's locks
    case ENOSYS:
    case EOPNOTSUPP: return LockAnswer::Unsupported;
    default: return LockAnswer::Failed;
  }
}

LockAnswer flocked(int fd, int operation) {
  int result = 0;
  do result = ::flock(fd, operation);
  while (result != 0 && errno == EINTR);
  return answer_of(result);
}

struct flock life() {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = LIFE_BYTE;
  range.l_len = 1;
  return range;
}

}  // namespace

LockAnswer lock_whole(int fd, bool wait) { return flocked(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB); }

LockAnswer share_whole(int fd) { return flocked(fd, LOCK_SH | LOCK_NB); }

LockAnswer lock_life(int fd) {
  auto range = life();
  return answer_of(::fcntl(fd, F_OFD_SETLK, &range));
}

LockAnswer ask_life(int fd) {
  auto range = life();
  const auto answer = answer_of(::fcntl(fd, F_OFD_GETLK, &range));
  return answer == LockAnswer::Granted && range.l_type != F_UNLCK ? LockAnswer::Held : answer;
}

}  // namespace prime::store
