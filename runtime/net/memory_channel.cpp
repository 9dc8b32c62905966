// Owns the rings and the bell.
#include "runtime/net/memory_channel.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
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
  alignas(64) std::atomic<std::uint64_t> reader_waits_for;  ///< so many bytes written; 0: it does not wait
  alignas(64) std::atomic<std::uint32_t> writer_waits;
};

namespace {

/// Of the fields of a ring, which stand before its bytes; whole pages on every machine.
constexpr std::size_t HEAD_BYTES = std::size_t{1} << 16;
constexpr std::size_t FILE_BYTES = 2 * (HEAD_BYTES + MemoryChannel::RING_BYTES);
constexpr std::size_t RING_SPACE = HEAD_BYTES + 2 * MemoryChannel::RING_BYTES;
/// The other end starts to read while the rest is copied.
constexpr std::size_t PIECE_BYTES = 128 * 1024;
/// A writer that waits is woken when there is room worth waking for; loans leave so much, too.
constexpr std::size_t ROOM_BYTES = MemoryChannel::RING_BYTES / 4;
constexpr int SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

void ring(Channel& bell) {
  // A full socket holds bells enough.
  (void)bell.write(std::array{std::byte{'!'}});
}

}  // namespace

/// The rings as this process sees them. The bytes of each are there twice, one after the other, so that no piece is cut by the end.
class MemoryChannel::Memory {
 public:
  static std::shared_ptr<Memory> map(int descriptor) {
    void* const space = ::mmap(nullptr, 2 * RING_SPACE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) return nullptr;
    auto memory = std::shared_ptr<Memory>(new Memory(static_cast<std::byte*>(space)));
    for (std::size_t which = 0; which < 2; ++which) {
      std::byte* const at = memory->space_ + which * RING_SPACE;
      const std::size_t offset = which * (HEAD_BYTES + RING_BYTES);
      if (!place(at, HEAD_BYTES + RING_BYTES, descriptor, offset)) return nullptr;
      if (!place(at + HEAD_BYTES + RING_BYTES, RING_BYTES, descriptor, offset + HEAD_BYTES)) return nullptr;
    }
    return memory;
  }
  ~Memory() { ::munmap(space_, 2 * RING_SPACE); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] Ring& ring(std::size_t which) const { return *reinterpret_cast<Ring*>(space_ + which * RING_SPACE); }
  [[nodiscard]] std::byte* bytes(std::size_t which) const { return space_ + which * RING_SPACE + HEAD_BYTES; }

 private:
  explicit Memory(std::byte* space) : space_(space) {}
  static bool place(std::byte* at, std::size_t size, int descriptor, std::size_t offset) {
    return ::mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, descriptor, static_cast<off_t>(offset)) !=
           MAP_FAILED;
  }

  std::byte* space_;
};

/// A piece of the ring that is not free for the other end yet, or its copy.
class MemoryChannel::RingLoan final : public Loan {
 public:
  RingLoan(std::shared_ptr<Inbox> inbox, std::uint64_t begin, std::size_t count) : inbox_(std::move(inbox)), begin_(begin), count_(count) {}
  ~RingLoan() override;
  [[nodiscard]] const std::byte* bytes() const override;
  [[nodiscard]] std::uint64_t begin() const { return begin_; }
  void move_out();

 private:
  std::shared_ptr<Inbox> inbox_;
  std::uint64_t begin_;
  std::size_t count_;
  std::unique_ptr<std::byte[]> moved_;
};

/// The ring that is read here. It outlives the channel while something of it is lent.
class MemoryChannel::Inbox {
 public:
  Inbox(std::shared_ptr<Memory> memory, std::size_t which, std::shared_ptr<Channel> bell)
      : memory_(std::move(memory)), ring_(memory_->ring(which)), bytes_(memory_->bytes(which)), bell_(std::move(bell)) {}

  [[nodiscard]] Ring& ring() { return ring_; }
  [[nodiscard]] std::uint64_t position() const { return read_; }
  [[nodiscard]] const std::byte* at(std::uint64_t position) const { return bytes_ + position % RING_BYTES; }
  [[nodiscard]] std::uint64_t there() const { return ring_.written.load() - read_; }

  void skip(std::size_t count) {
    read_ += count;
    publish();
  }
  LoanPtr lend(const std::shared_ptr<Inbox>& self, std::size_t count) {
    auto loan = std::make_unique<RingLoan>(self, read_, count);
    lent_.push_back(loan.get());
    skip(count);
    return loan;
  }
  void take_back(const RingLoan* loan) {
    std::erase(lent_, loan);
    publish();
  }
  /// Moves out what is lent until so many bytes at least can come.
  void make_room(std::size_t count) {
    while (read_ - begin() + count > RING_BYTES) {
      lent_.front()->move_out();
      take_back(lent_.front());
    }
  }

 private:
  /// Before it all is free.
  [[nodiscard]] std::uint64_t begin() const { return lent_.empty() ? read_ : lent_.front()->begin(); }
  void publish() {
    const std::uint64_t from = begin();
    ring_.read.store(from);
    if (ring_.written.load() - from <= RING_BYTES - ROOM_BYTES && ring_.writer_waits.load() != 0 && ring_.writer_waits.exchange(0) != 0)
      net::ring(*bell_);
  }

  std::shared_ptr<Memory> memory_;
  Ring& ring_;
  std::byte* bytes_;
  std::shared_ptr<Channel> bell_;
  std::uint64_t read_ = 0;      ///< kept here: what stands in the memory is for the other end only
  std::deque<RingLoan*> lent_;  ///< in their order in the ring
};

MemoryChannel::RingLoan::~RingLoan() {
  if (!moved_) inbox_->take_back(this);
}

const std::byte* MemoryChannel::RingLoan::bytes() const { return moved_ ? moved_.get() : inbox_->at(begin_); }

void MemoryChannel::RingLoan::move_out() {
  auto copy = std::unique_ptr<std::byte[]>(new std::byte[count_]);
  std::memcpy(copy.get(), bytes(), count_);
  moved_ = std::move(copy);
}

namespace {

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
  const Socket file(::memfd_create("prime-lane", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.fd() < 0 || ::ftruncate(file.fd(), FILE_BYTES) != 0 || ::fcntl(file.fd(), F_ADD_SEALS, SEALS) != 0)
    return fail(ErrorName::RunUnreachable, "no memory to share: " + error_text(errno));
  auto memory = Memory::map(file.fd());
  if (!memory) return fail(ErrorName::RunUnreachable, "memory could not be mapped: " + error_text(errno));
  auto channel = std::unique_ptr<MemoryChannel>(new MemoryChannel(std::move(bell)));
  channel->use(std::move(memory), true);
  if (!send_descriptor(channel->fd(), file.fd()))
    return fail(ErrorName::RunUnreachable, "memory could not be handed over: " + error_text(errno));
  return ChannelPtr(std::move(channel));
}

ChannelPtr MemoryChannel::accept(ChannelPtr bell) { return ChannelPtr(new MemoryChannel(std::move(bell))); }

MemoryChannel::~MemoryChannel() { bell_->shutdown(); }

void MemoryChannel::use(std::shared_ptr<Memory> memory, bool offered) {
  memory_ = std::move(memory);
  out_ = &memory_->ring(offered ? 0 : 1);
  out_bytes_ = memory_->bytes(offered ? 0 : 1);
  in_ = std::make_shared<Inbox>(memory_, offered ? 1 : 0, bell_);
}

bool MemoryChannel::attach() {
  const int descriptor = receive_descriptor(bell_->fd());
  if (descriptor == -1) return true;
  if (descriptor < 0) return false;
  const Socket file(descriptor);
  struct stat status {};
  // Sealed, so that it cannot be cut off under our feet.
  const bool sound = (::fcntl(file.fd(), F_GET_SEALS) & SEALS) == SEALS && ::fstat(file.fd(), &status) == 0 &&
                     status.st_size == static_cast<off_t>(FILE_BYTES);
  auto memory = sound ? Memory::map(file.fd()) : nullptr;
  if (memory) use(std::move(memory), false);
  return memory_ != nullptr;
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

Channel::Io MemoryChannel::await(std::size_t count) {
  if (memory_ == nullptr) {
    if (!attach()) return {State::Failed, 0};
    if (memory_ == nullptr) return {State::WantRead, 0};
    rung_ = true;  // writing can begin, too
  }
  in_->make_room(std::max(count, ROOM_BYTES));
  for (;;) {
    const std::uint64_t there = in_->there();
    if (there > RING_BYTES) return {State::Failed, 0};  // the other end does not keep the rules
    if (there >= count) return {State::Ok, there};
    if (closed_) return {State::Closed, 0};
    in_->ring().reader_waits_for.store(in_->position() + count);
    if (in_->there() != there) continue;
    if (listen() == Bell::Silent) return {State::WantRead, 0};
  }
}

Channel::Io MemoryChannel::read(std::span<std::byte> into) {
  const Io there = await(1);
  if (there.state != State::Ok) return there;
  const std::size_t count = std::min({into.size(), there.bytes, PIECE_BYTES});
  std::memcpy(into.data(), in_->at(in_->position()), count);
  in_->skip(count);
  return {State::Ok, count};
}

Channel::Io MemoryChannel::lend(std::size_t count, LoanPtr& loan) {
  if (count > ROOM_BYTES) return {State::Ok, 0};
  if (const Io there = await(count); there.state != State::Ok) return there;
  loan = in_->lend(in_, count);
  return {State::Ok, count};
}

Channel::Io MemoryChannel::gather(std::span<const std::byte> first, std::span<const std::byte> second) {
  if (memory_ == nullptr) return {State::WantRead, 0};
  for (;;) {
    if (closed_) return {State::Closed, 0};
    const std::uint64_t waiting = written_ - out_->read.load();
    if (waiting > RING_BYTES) return {State::Failed, 0};
    if (waiting < RING_BYTES) {
      std::size_t room = std::min(static_cast<std::size_t>(RING_BYTES - waiting), PIECE_BYTES);
      std::size_t moved = 0;
      for (const auto part : {first, second}) {
        const std::size_t count = std::min(part.size(), room);
        if (count > 0) std::memcpy(out_bytes_ + (written_ + moved) % RING_BYTES, part.data(), count);
        moved += count;
        room -= count;
      }
      written_ += moved;
      out_->written.store(written_);
      const auto wanted = out_->reader_waits_for.load();
      if (wanted != 0 && written_ >= wanted && out_->reader_waits_for.exchange(0) != 0) ring(*bell_);
      return {State::Ok, moved};
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
