// Owns the rings and the bell.
#include "runtime/net/memory_channel.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kernels/copy.hpp"
#include "runtime/ancillary.hpp"
#include "runtime/net/crypto.hpp"
#include "runtime/net/socket.hpp"

namespace prime::net {

/// The largest pages that kernels are built with: the bytes of a ring begin with a page, since they are mapped once more on their own.
constexpr std::size_t PAGE_BYTES = 64 * 1024;

/// Lies in shared memory. Each field on a line of its own, so that the two ends do not fight for them.
struct MemoryChannel::Ring {
  alignas(64) std::atomic<std::uint64_t> written;
  alignas(64) std::atomic<std::uint64_t> read;
  alignas(64) std::atomic<std::uint32_t> reader_waits;
  alignas(64) std::atomic<std::uint32_t> writer_waits;
  alignas(64) std::byte rest_of_page[PAGE_BYTES - 4 * 64];
  std::byte bytes[RING_BYTES];
};

namespace {

/// The other end starts to read while the rest is copied.
constexpr std::size_t PIECE_BYTES = 128 * 1024;
/// A writer that waits is woken when there is room worth waking for.
constexpr std::size_t ROOM_BYTES = MemoryChannel::RING_BYTES / 4;
// The words on the bell. With a descriptor: RINGS, or the number of a region.
constexpr std::byte RINGS{'M'};
constexpr std::byte RING{'n'};
constexpr std::byte ANSWERS{0xC0};  ///< these bits make a word an answer; the others are the number
constexpr std::byte MAPPED{0x80};
constexpr std::byte REFUSED{0xC0};
static_assert(MemoryChannel::MAX_REGIONS == 64 && (RINGS & ANSWERS) == std::byte{0x40} && (RING & ANSWERS) == std::byte{0x40});
/// Who rings more often in a row only wants to keep us busy.
constexpr int MAX_BELLS = 1024;

/// As much is lent at most: who waits for all of it has left room enough to have rung for the writer.
constexpr std::size_t LENT_BYTES = MemoryChannel::RING_BYTES / 2;
static_assert(LENT_BYTES <= MemoryChannel::RING_BYTES - ROOM_BYTES);
/// Of what is lent: it is read as elements, the largest have eight bytes.
constexpr std::size_t LENT_ALIGNMENT = 8;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

/// With a byte that says what it is.
bool send_descriptor(int socket, int descriptor, std::byte word) {
  return send_descriptors(socket, {&word, 1}, {&descriptor, 1}, MSG_DONTWAIT) == 1;
}

/// What has come over the bell.
struct Heard {
  Channel::State state = Channel::State::WantRead;
  std::array<std::byte, 256> words;
  std::size_t count = 0;
  SocketPtr descriptor = {};  ///< came with the last word: the kernel ends a read behind it
};

void hear(int socket, std::size_t most, Heard& heard) {
  iovec part{heard.words.data(), std::min(most, heard.words.size())};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = CMSG_LEN(sizeof(int));  // no room for a second one: the kernel closes it
  ssize_t count = 0;
  do count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  while (count < 0 && errno == EINTR);
  heard.state = count > 0         ? Channel::State::Ok
                : count == 0      ? Channel::State::Closed
                : errno == EAGAIN ? Channel::State::WantRead
                                  : Channel::State::Failed;
  heard.count = count > 0 ? static_cast<std::size_t>(count) : 0;
  const cmsghdr* const header = count > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(int))) return;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  heard.descriptor = std::make_shared<Socket>(descriptor);
}

}  // namespace

Result<ChannelPtr> MemoryChannel::offer(ChannelPtr bell) {
  const Socket memory(::memfd_create("prime-lane", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory.fd() < 0 || !seal_with_size(memory.fd(), 2 * sizeof(Ring)))
    return fail(ErrorName::RunUnreachable, "no memory to share: " + error_text(errno));
  auto channel = std::unique_ptr<MemoryChannel>(new MemoryChannel(std::move(bell)));
  if (!channel->map(memory.fd(), true)) return fail(ErrorName::RunUnreachable, "memory could not be mapped: " + error_text(errno));
  if (!send_descriptor(channel->fd(), memory.fd(), RINGS))
    return fail(ErrorName::RunUnreachable, "memory could not be handed over: " + error_text(errno));
  return ChannelPtr(std::move(channel));
}

ChannelPtr MemoryChannel::accept(ChannelPtr bell) { return ChannelPtr(new MemoryChannel(std::move(bell))); }

MemoryChannel::~MemoryChannel() { bell_->shutdown(); }

/// The bytes of a ring follow themselves in the address space: what wraps around lies in one piece.
bool MemoryChannel::map(int descriptor, bool offered) {
  static_assert(offsetof(Ring, bytes) == PAGE_BYTES && sizeof(Ring) == PAGE_BYTES + RING_BYTES);
  constexpr std::size_t STRIDE = sizeof(Ring) + RING_BYTES;
  void* const space = ::mmap(nullptr, 2 * STRIDE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (space == MAP_FAILED) return false;
  std::shared_ptr<void> memory(space, [](void* mapped) { ::munmap(mapped, 2 * STRIDE); });
  std::array<Ring*, 2> rings{};
  for (std::size_t i = 0; i < rings.size(); ++i) {
    auto* const at = static_cast<std::byte*>(space) + i * STRIDE;
    const auto put = [&](std::byte* to, std::size_t bytes, std::size_t from) {
      constexpr int FLAGS = MAP_SHARED | MAP_FIXED | MAP_POPULATE;
      return ::mmap(to, bytes, PROT_READ | PROT_WRITE, FLAGS, descriptor, static_cast<off_t>(i * sizeof(Ring) + from)) == to;
    };
    if (!put(at, sizeof(Ring), 0) || !put(at + sizeof(Ring), RING_BYTES, offsetof(Ring, bytes))) return false;
    rings[i] = reinterpret_cast<Ring*>(at);
  }
  memory_ = std::move(memory);
  out_ = offered ? rings[0] : rings[1];
  in_ = offered ? rings[1] : rings[0];
  return true;
}

bool MemoryChannel::attach() {
  Heard heard;
  hear(bell_->fd(), 1, heard);
  if (heard.state == State::WantRead) return true;
  // Sealed, so that it cannot be cut off under our feet.
  return heard.state == State::Ok && heard.descriptor && sealed_size(heard.descriptor->fd()) == 2 * sizeof(Ring) &&
         map(heard.descriptor->fd(), false);
}

MemoryChannel::Bell MemoryChannel::listen() {
  Heard heard;
  hear(bell_->fd(), SIZE_MAX, heard);
  switch (heard.state) {
    case State::Ok: break;
    case State::WantRead:
    case State::WantWrite:
    case State::Capped: return Bell::Silent;
    case State::Closed:
    case State::Failed: closed_ = true; return Bell::Closed;
  }
  rung_ = true;
  for (std::size_t at = 0; at < heard.count; ++at) take_word(heard.words[at], at + 1 == heard.count ? heard.descriptor : nullptr);
  answer();
  return Bell::Rung;
}

void MemoryChannel::take_word(std::byte word, const SocketPtr& descriptor) {
  const std::size_t number = std::to_integer<std::size_t>(word) % MAX_REGIONS;
  if (word == std::byte{static_cast<std::uint8_t>(number)}) return take_region(number, descriptor);
  const bool mapped = (word & ANSWERS) == MAPPED;
  if (!mapped && (word & ANSWERS) != REFUSED) return;
  Ours& ours = ours_[number];
  if (ours.answer == Ours::Answer::Awaited) ours.answer = mapped ? Ours::Answer::Mapped : Ours::Answer::Refused;
}

/// A number without its descriptor counts as well: the region that had it is gone.
void MemoryChannel::take_region(std::size_t number, const SocketPtr& descriptor) {
  Theirs& theirs = theirs_[number];
  mapped_bytes_ -= theirs.region.size;
  theirs.region = descriptor ? MappedRegion::map(descriptor->fd(), MAX_MAPPED_BYTES - mapped_bytes_) : MappedRegion{};
  mapped_bytes_ += theirs.region.size;
  ++theirs.times;
  theirs.owes_answer = true;
}

/// What finds no room on the bell is answered when something more comes over it.
void MemoryChannel::answer() {
  for (std::size_t number = 0; number < MAX_REGIONS; ++number) {
    Theirs& theirs = theirs_[number];
    if (!theirs.owes_answer) continue;
    const auto word = (theirs.region.bytes ? MAPPED : REFUSED) | std::byte{static_cast<std::uint8_t>(number)};
    theirs.owes_answer = bell_->write(std::array{word}).state != State::Ok;
  }
}

void MemoryChannel::hand_over(const std::shared_ptr<const SharedRegion>& region) {
  const auto free =
      std::ranges::find_if(ours_, [](const Ours& each) { return each.region.expired() && each.answer != Ours::Answer::Awaited; });
  if (free == ours_.end()) return;
  if (!send_descriptor(fd(), region->descriptor(), std::byte{static_cast<std::uint8_t>(free - ours_.begin())})) return;
  *free = Ours{region, free->times + 1, Ours::Answer::Awaited};
}

std::optional<Channel::RegionPlace> MemoryChannel::share(const std::shared_ptr<const SharedRegion>& region,
                                                         std::span<const std::byte> bytes) {
  const auto offset = static_cast<std::size_t>(bytes.data() - region->bytes().data());
  if (!memory_ || offset % LENT_ALIGNMENT != 0) return std::nullopt;
  const auto same = [&](const Ours& each) { return !each.region.owner_before(region) && !region.owner_before(each.region); };
  const auto known = std::ranges::find_if(ours_, same);
  if (known == ours_.end()) {
    hand_over(region);
    return std::nullopt;
  }
  if (known->answer != Ours::Answer::Mapped) return std::nullopt;
  return RegionPlace{known->times * MAX_REGIONS + static_cast<std::size_t>(known - ours_.begin()), offset};
}

Channel::Shared MemoryChannel::shared(const RegionPlace& place, std::size_t count) {
  // Its number may have another region by now.
  for (int bells = 0; bells < MAX_BELLS && listen() == Bell::Rung; ++bells) {
  }
  const Theirs& theirs = theirs_[place.region % MAX_REGIONS];
  const std::uint64_t times = place.region / MAX_REGIONS;
  if (times < theirs.times) return {nullptr, true};
  const MappedRegion& region = theirs.region;
  const bool lies = count > 0 && count <= region.size && place.offset <= region.size - count && place.offset % LENT_ALIGNMENT == 0;
  if (times > theirs.times || !lies) return {};
  return {{region.bytes, region.bytes.get() + place.offset}};
}

void MemoryChannel::ring_if(std::atomic<std::uint32_t>& waits) {
  // A full socket holds bells enough.
  if (waits.load() != 0 && waits.exchange(0) != 0) (void)bell_->write(std::array{RING});
}

void MemoryChannel::release(std::size_t count) {
  read_ += count;
  in_->read.store(read_);
  if (in_->written.load() - read_ <= RING_BYTES - ROOM_BYTES) ring_if(in_->writer_waits);
}

Channel::Io MemoryChannel::come(std::size_t wanted) {
  if (!memory_) {
    if (!attach()) return {State::Failed, 0};
    if (!memory_) return {State::WantRead, 0};
    rung_ = true;  // writing can begin, too
  }
  if (lent_ > 0) release(std::exchange(lent_, 0));
  for (int bells = 0; bells < MAX_BELLS;) {
    const std::uint64_t there = in_->written.load() - read_;
    if (there > RING_BYTES) return {State::Failed, 0};  // the other end does not keep the rules
    if (there >= wanted) return {State::Ok, there};
    if (closed_) return {State::Closed, 0};
    in_->reader_waits.store(1);
    if (in_->written.load() - read_ != there) continue;
    if (listen() == Bell::Silent) return {State::WantRead, 0};
    ++bells;
  }
  return {State::Failed, 0};
}

Channel::Io MemoryChannel::read(std::span<std::byte> into) {
  const Io there = come(1);
  if (there.state != State::Ok) return there;
  const std::size_t count = std::min({into.size(), there.bytes, PIECE_BYTES});
  kernels::copy({in_->bytes + read_ % RING_BYTES, count}, into.data());
  release(count);
  return {State::Ok, count};
}

bool MemoryChannel::lends(std::size_t count) const { return memory_ && count > 0 && count <= LENT_BYTES && read_ % LENT_ALIGNMENT == 0; }

Channel::Lent MemoryChannel::lend(std::size_t count) {
  const Io there = come(count);
  if (there.state != State::Ok) return {there.state, nullptr};
  lent_ = count;
  return {State::Ok, {in_->bytes + read_ % RING_BYTES, [kept = memory_](std::byte*) {}}};
}

Channel::Io MemoryChannel::write(std::span<const std::byte> from) {
  if (!memory_) return {State::WantRead, 0};
  for (int bells = 0; bells < MAX_BELLS;) {
    if (closed_) return {State::Closed, 0};
    const std::uint64_t waiting = written_ - out_->read.load();
    if (waiting > RING_BYTES) return {State::Failed, 0};
    if (waiting < RING_BYTES) {
      const std::size_t at = written_ % RING_BYTES;
      const std::size_t count = std::min({from.size(), static_cast<std::size_t>(RING_BYTES - waiting), PIECE_BYTES});
      kernels::copy(from.first(count), out_->bytes + at);
      written_ += count;
      out_->written.store(written_);
      ring_if(out_->reader_waits);
      return {State::Ok, count};
    }
    out_->writer_waits.store(1);
    if (written_ - out_->read.load() < RING_BYTES) continue;
    if (listen() == Bell::Silent) return {State::WantRead, 0};
    ++bells;
  }
  return {State::Failed, 0};
}

std::string local_name(const Credentials& credentials, PeerId owner) {
  // The number changes with what lies in the memory, so that programs that understand it otherwise meet over the network.
  const std::string said = "local lanes, 3, of peer " + to_string(owner);
  const auto code = hmac_sha256(credentials.proof_key(), {reinterpret_cast<const std::uint8_t*>(said.data()), said.size()});
  std::string name = "prime-";
  for (std::size_t i = 0; i < 16; ++i) {
    name += "0123456789abcdef"[code[i] >> 4U];
    name += "0123456789abcdef"[code[i] & 15U];
  }
  return name;
}

}  // namespace prime::net
