// Owns the rings and the bell.
#include "runtime/net/memory_channel.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "runtime/net/crypto.hpp"
#include "runtime/net/socket.hpp"

namespace prime::net {

/// Lies in shared memory. Each field on a line of its own, so that the two ends do not fight for them.
struct MemoryChannel::Ring {
  alignas(64) std::atomic<std::uint64_t> written;
  alignas(64) std::atomic<std::uint64_t> read;
  alignas(64) std::atomic<std::uint32_t> reader_waits;
  alignas(64) std::atomic<std::uint32_t> writer_waits;
  alignas(4096) std::byte bytes[RING_BYTES];
};

namespace {

/// The other end starts to read while the rest is copied.
constexpr std::size_t PIECE_BYTES = 128 * 1024;
/// A writer that waits is woken when there is room worth waking for.
constexpr std::size_t ROOM_BYTES = MemoryChannel::RING_BYTES / 4;
constexpr int SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

bool send_descriptor(int socket, int descriptor) {
  std::byte word{'M'};
  iovec part{&word, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

/// −1: nothing yet; −2: the other end is gone or sent something else.
int receive_descriptor(int socket) {
  std::byte word{};
  iovec part{&word, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  const ssize_t count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (count < 0) return errno == EAGAIN || errno == EINTR ? -1 : -2;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (count == 0 || header == nullptr || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(int))) return -2;
  int descriptor = -2;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

}  // namespace

Result<ChannelPtr> MemoryChannel::offer(ChannelPtr bell) {
  const Socket memory(::memfd_create("prime-lane", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory.fd() < 0 || ::ftruncate(memory.fd(), 2 * sizeof(Ring)) != 0 || ::fcntl(memory.fd(), F_ADD_SEALS, SEALS) != 0)
    return fail(ErrorName::RunUnreachable, "no memory to share: " + error_text(errno));
  auto channel = std::unique_ptr<MemoryChannel>(new MemoryChannel(std::move(bell)));
  if (!channel->map(memory.fd(), true)) return fail(ErrorName::RunUnreachable, "memory could not be mapped: " + error_text(errno));
  if (!send_descriptor(channel->fd(), memory.fd()))
    return fail(ErrorName::RunUnreachable, "memory could not be handed over: " + error_text(errno));
  return ChannelPtr(std::move(channel));
}

ChannelPtr MemoryChannel::accept(ChannelPtr bell) { return ChannelPtr(new MemoryChannel(std::move(bell))); }

MemoryChannel::~MemoryChannel() {
  bell_->shutdown();
  if (memory_ != nullptr) ::munmap(memory_, 2 * sizeof(Ring));
}

bool MemoryChannel::map(int descriptor, bool offered) {
  void* const memory = ::mmap(nullptr, 2 * sizeof(Ring), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
  if (memory == MAP_FAILED) return false;
  memory_ = memory;
  auto* const rings = static_cast<Ring*>(memory);
  out_ = offered ? rings : rings + 1;
  in_ = offered ? rings + 1 : rings;
  return true;
}

bool MemoryChannel::attach() {
  const int descriptor = receive_descriptor(bell_->fd());
  if (descriptor == -1) return true;
  if (descriptor < 0) return false;
  const Socket memory(descriptor);
  struct stat status {};
  // Sealed, so that it cannot be cut off under our feet.
  const bool sound = (::fcntl(memory.fd(), F_GET_SEALS) & SEALS) == SEALS && ::fstat(memory.fd(), &status) == 0 &&
                     status.st_size == static_cast<off_t>(2 * sizeof(Ring));
  return sound && map(memory.fd(), false);
}

MemoryChannel::Bell MemoryChannel::listen() {
  std::array<std::byte, 64> bells;
  const Io io = bell_->read(bells);
  switch (io.state) {
    case State::Ok: rung_ = true; return Bell::Rung;
    case State::WantRead:
    case State::WantWrite: return Bell::Silent;
    case State::Closed:
    case State::Failed: closed_ = true; return Bell::Closed;
  }
  return Bell::Closed;
}

void MemoryChannel::ring_if(std::atomic<std::uint32_t>& waits) {
  // A full socket holds bells enough.
  if (waits.load() != 0 && waits.exchange(0) != 0) (void)bell_->write(std::array{std::byte{'!'}});
}

Channel::Io MemoryChannel::read(std::span<std::byte> into) {
  if (memory_ == nullptr) {
    if (!attach()) return {State::Failed, 0};
    if (memory_ == nullptr) return {State::WantRead, 0};
    rung_ = true;  // writing can begin, too
  }
  for (;;) {
    const std::uint64_t there = in_->written.load() - read_;
    if (there > RING_BYTES) return {State::Failed, 0};  // the other end does not keep the rules
    if (there > 0) {
      const std::size_t at = read_ % RING_BYTES;
      const std::size_t count = std::min({into.size(), static_cast<std::size_t>(there), RING_BYTES - at, PIECE_BYTES});
      std::memcpy(into.data(), in_->bytes + at, count);
      read_ += count;
      in_->read.store(read_);
      if (there - count <= RING_BYTES - ROOM_BYTES) ring_if(in_->writer_waits);
      return {State::Ok, count};
    }
    if (closed_) return {State::Closed, 0};
    in_->reader_waits.store(1);
    if (in_->written.load() != read_) continue;
    if (listen() == Bell::Silent) return {State::WantRead, 0};
  }
}

Channel::Io MemoryChannel::write(std::span<const std::byte> from) {
  if (memory_ == nullptr) return {State::WantRead, 0};
  for (;;) {
    if (closed_) return {State::Closed, 0};
    const std::uint64_t waiting = written_ - out_->read.load();
    if (waiting > RING_BYTES) return {State::Failed, 0};
    if (waiting < RING_BYTES) {
      const std::size_t at = written_ % RING_BYTES;
      const std::size_t count = std::min({from.size(), static_cast<std::size_t>(RING_BYTES - waiting), RING_BYTES - at, PIECE_BYTES});
      std::memcpy(out_->bytes + at, from.data(), count);
      written_ += count;
      out_->written.store(written_);
      ring_if(out_->reader_waits);
      return {State::Ok, count};
    }
    out_->writer_waits.store(1);
    if (written_ - out_->read.load() < RING_BYTES) continue;
    if (listen() == Bell::Silent) return {State::WantRead, 0};
  }
}

std::string local_name(const Credentials& credentials, PeerId owner) {
  const std::string said = "local lanes of peer " + to_string(owner);
  const auto code = hmac_sha256(credentials.proof_key(), {reinterpret_cast<const std::uint8_t*>(said.data()), said.size()});
  std::string name = "prime-";
  for (std::size_t i = 0; i < 16; ++i) {
    name += "0123456789abcdef"[code[i] >> 4U];
    name += "0123456789abcdef"[code[i] & 15U];
  }
  return name;
}

}  // namespace prime::net
