// Owns the tests of memory that two ends share: what is lent of it, regions that one end reads in the other, and an end that keeps no
// rules.
#include "runtime/net/memory_channel.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <numeric>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "runtime/ancillary.hpp"
#include "runtime/net/plain_channel.hpp"
#include "runtime/net/shared_region.hpp"

BOOST_AUTO_TEST_SUITE(memory_channel)

using namespace prime;
using namespace prime::net;

namespace {

using State = Channel::State;
constexpr std::size_t RING = MemoryChannel::RING_BYTES;

/// Two ends of a local connection.
std::pair<SocketPtr, SocketPtr> bells() {
  int fds[2];
  BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
  return {std::make_shared<Socket>(fds[0]), std::make_shared<Socket>(fds[1])};
}

ChannelPtr offer(SocketPtr bell) {
  auto offered = MemoryChannel::offer(std::make_unique<PlainChannel>(std::move(bell), PeerId{2}));
  BOOST_REQUIRE(offered.has_value());
  return std::move(*offered);
}

struct Pair {
  Pair() {
    auto [near, far] = bells();
    writer = offer(std::move(near));
    reader = MemoryChannel::accept(std::make_unique<PlainChannel>(std::move(far), PeerId{1}));
    std::byte none{};
    BOOST_TEST((reader->read({&none, 1}).state == State::WantRead));  // the memory has come
  }
  /// As many bytes as there is room for, each different from those around it.
  std::size_t write(std::size_t count) {
    std::vector<std::byte> bytes(count);
    for (std::size_t i = 0; i < count; ++i) bytes[i] = byte_at(written + i);
    std::size_t done = 0;
    while (done < count) {
      const auto io = writer->write(std::span{bytes}.subspan(done));
      if (io.state != State::Ok) break;
      done += io.bytes;
    }
    written += done;
    return done;
  }
  void read(std::size_t count) {
    std::vector<std::byte> bytes(count);
    for (std::size_t done = 0; done < count;) {
      const auto io = reader->read(std::span{bytes}.subspan(done));
      BOOST_REQUIRE((io.state == State::Ok));
      done += io.bytes;
    }
    BOOST_TEST(is_right({bytes.data(), bytes.size()}));
    came += count;
  }
  /// What lies there is what was written as the next bytes to come.
  [[nodiscard]] bool is_right(std::span<const std::byte> bytes) const {
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if (bytes[i] != byte_at(came + i)) return false;
    return true;
  }
  static std::byte byte_at(std::size_t index) { return static_cast<std::byte>(index * 2654435761U >> 13U); }

  ChannelPtr writer;
  ChannelPtr reader;
  std::size_t written = 0;
  std::size_t came = 0;
};

/// An end that writes what it likes into the memory that was offered to it.
class Rogue {
 public:
  explicit Rogue(const SocketPtr& bell) {
    std::byte word{};
    iovec part{&word, 1};
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    BOOST_REQUIRE(::recvmsg(bell->fd(), &message, MSG_CMSG_CLOEXEC) == 1);
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
    const Socket memory(descriptor);
    struct stat status {};
    BOOST_REQUIRE(::fstat(memory.fd(), &status) == 0);
    bytes_ = static_cast<std::size_t>(status.st_size);
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd(), 0);
    BOOST_REQUIRE(memory_ != MAP_FAILED);
  }
  ~Rogue() { ::munmap(memory_, bytes_); }
  Rogue(const Rogue&) = delete;
  Rogue& operator=(const Rogue&) = delete;
  /// How much it says to have written: the first word of the ring that is its own.
  void claim(std::uint64_t written) {
    auto* const ring = static_cast<std::byte*>(memory_) + bytes_ / 2;
    reinterpret_cast<std::atomic<std::uint64_t>*>(ring)->store(written);
  }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(what_is_lent_across_the_end_of_the_ring_lies_in_one_piece, Pair) {
  constexpr std::size_t PAYLOAD = RING / 4;
  BOOST_REQUIRE(write(RING - PAYLOAD / 2) == RING - PAYLOAD / 2);
  read(RING - PAYLOAD / 2);
  BOOST_REQUIRE(write(PAYLOAD) == PAYLOAD);
  BOOST_TEST(reader->lends(PAYLOAD));
  const auto lent = reader->lend(PAYLOAD);
  BOOST_REQUIRE((lent.state == State::Ok));
  BOOST_TEST(is_right({lent.bytes.get(), PAYLOAD}));
}

BOOST_FIXTURE_TEST_CASE(what_is_lent_is_not_overwritten_until_the_next_read, Pair) {
  BOOST_REQUIRE(write(2 * RING) == RING);  // there is no room for more
  auto lent = reader->lend(RING / 2);
  BOOST_REQUIRE((lent.state == State::Ok));
  BOOST_TEST(write(1) == 0U);
  BOOST_TEST(is_right({lent.bytes.get(), RING / 2}));
  came += RING / 2;
  read(8);
  BOOST_TEST(write(RING) == RING / 2 + 8);
  read(RING);
}

BOOST_FIXTURE_TEST_CASE(nothing_is_lent_before_all_of_it_has_come, Pair) {
  BOOST_REQUIRE(write(64) == 64U);
  BOOST_TEST((reader->lend(72).state == State::WantRead));
  BOOST_REQUIRE(write(8) == 8U);
  const auto lent = reader->lend(72);
  BOOST_REQUIRE((lent.state == State::Ok));
  BOOST_TEST(is_right({lent.bytes.get(), 72}));
}

BOOST_FIXTURE_TEST_CASE(of_a_payload_whose_writer_dies_on_the_way_nothing_is_lent, Pair) {
  BOOST_REQUIRE(write(64) == 64U);
  writer.reset();
  BOOST_TEST((reader->lend(72).state == State::Closed));
  read(64);
}

BOOST_FIXTURE_TEST_CASE(what_is_lent_outlives_both_ends, Pair) {
  BOOST_REQUIRE(write(4096) == 4096U);
  const auto lent = reader->lend(4096);
  BOOST_REQUIRE((lent.state == State::Ok));
  writer.reset();
  reader.reset();
  BOOST_TEST(is_right({lent.bytes.get(), 4096}));
}

BOOST_FIXTURE_TEST_CASE(only_what_elements_can_lie_in_is_lent, Pair) {
  BOOST_TEST(reader->lends(RING / 2));
  BOOST_TEST(!reader->lends(RING / 2 + 1));
  BOOST_TEST(!reader->lends(0));
  BOOST_REQUIRE(write(8) == 8U);
  read(4);
  BOOST_TEST(!reader->lends(64));
  read(4);
  BOOST_TEST(reader->lends(64));
}

BOOST_AUTO_TEST_CASE(who_claims_more_than_the_ring_holds_is_not_believed) {
  auto [near, far] = bells();
  const auto reader = offer(std::move(near));
  Rogue rogue(far);
  for (const std::uint64_t claimed : {std::uint64_t{RING} + 1, ~std::uint64_t{0}, std::uint64_t{1} << 63U}) {
    rogue.claim(claimed);
    std::byte byte{};
    BOOST_TEST((reader->read({&byte, 1}).state == State::Failed));
    BOOST_TEST((reader->lend(64).state == State::Failed));
  }
}

BOOST_AUTO_TEST_CASE(who_takes_its_claim_back_while_something_is_lent_is_not_believed) {
  auto [near, far] = bells();
  const auto reader = offer(std::move(near));
  Rogue rogue(far);
  rogue.claim(128);
  BOOST_REQUIRE((reader->lend(64).state == State::Ok));
  rogue.claim(0);
  BOOST_TEST((reader->lend(64).state == State::Failed));
}

// --- regions ---------------------------------------------------------------------------------------------------------

namespace {

std::shared_ptr<SharedRegion> region_of(std::byte content, std::size_t bytes = 8192) {
  auto region = SharedRegion::make(bytes).value();
  std::ranges::fill(region->bytes(), content);
  return region;
}

void send_descriptors(const Socket& bell, std::span<const int> descriptors, std::uint8_t number) {
  BOOST_REQUIRE(prime::send_descriptors(bell.fd(), std::as_bytes(std::span{&number, 1}), descriptors) == 1);
}

}  // namespace

namespace {

/// Each end hears what has come over the bell.
void hear(Channel& end) { (void)end.shared({0, 0}, 0).bytes; }

/// The place of `bytes` in a region, once the other end has said that it can read there, if it does.
std::optional<Channel::RegionPlace> place_of(Channel& from, Channel& to, const std::shared_ptr<SharedRegion>& region,
                                             std::span<const std::byte> bytes) {
  BOOST_TEST_REQUIRE(!from.share(region, bytes).has_value());
  hear(to);
  hear(from);
  return from.share(region, bytes);
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_region_is_read_where_it_lies_between_bytes_that_are_moved, Pair) {
  const auto region = region_of(std::byte{1});
  BOOST_REQUIRE(write(100) == 100U);
  const auto place = place_of(*writer, *reader, region, region->bytes().subspan(4096, 64));
  BOOST_REQUIRE(place.has_value());
  BOOST_REQUIRE(write(100) == 100U);
  read(200);
  const auto there = reader->shared(*place, 64).bytes;
  BOOST_REQUIRE(there);
  BOOST_TEST((there[0] == std::byte{1} && there[63] == std::byte{1}));
  region->bytes()[4096] = std::byte{2};
  BOOST_TEST((there[0] == std::byte{2}));
  writer.reset();
  reader.reset();
  BOOST_TEST((there[63] == std::byte{1}));
}

BOOST_FIXTURE_TEST_CASE(what_does_not_lie_in_a_region_that_was_shared_is_not_found, Pair) {
  const auto region = region_of(std::byte{1});
  const auto first = place_of(*writer, *reader, region, region->bytes());
  BOOST_REQUIRE((first && first->offset == 0));
  const std::uint64_t number = first->region;
  for (const auto& [place, count] : {std::pair{Channel::RegionPlace{number + 1, 0}, std::size_t{8}},
                                     {{number + MemoryChannel::MAX_REGIONS, 0}, 8},
                                     {{~std::uint64_t{0}, 0}, 8},
                                     {{number, 0}, 8193},
                                     {{number, 8}, 8192},
                                     {{number, 8192}, 8},
                                     {{number, ~std::uint64_t{7}}, 16},
                                     {{number, 4}, 8},
                                     {{number, 0}, 0}}) {
    const auto found = reader->shared(place, count);
    BOOST_TEST((!found.bytes && !found.gone));
  }
  BOOST_TEST(reader->shared({number, 8184}, 8).bytes);
  BOOST_TEST(!writer->share(region, region->bytes().subspan(4)).has_value());  // elements do not lie there
}

BOOST_FIXTURE_TEST_CASE(a_region_that_is_gone_leaves_its_number_and_no_page, Pair) {
  std::vector<std::shared_ptr<SharedRegion>> all;
  std::vector<Channel::RegionPlace> places;
  for (std::size_t i = 0; i < MemoryChannel::MAX_REGIONS; ++i) {
    all.push_back(region_of(static_cast<std::byte>(i + 1)));
    places.push_back(place_of(*writer, *reader, all.back(), all.back()->bytes()).value());
  }
  const auto one_more = region_of(std::byte{100}, 4096);
  BOOST_TEST(!place_of(*writer, *reader, one_more, one_more->bytes()).has_value());
  const auto old = reader->shared(places[5], 8).bytes;
  BOOST_REQUIRE((old && old[0] == std::byte{6}));
  const Socket file(::dup(all[5]->descriptor()));
  all[5].reset();
  struct stat status {};
  BOOST_REQUIRE(::fstat(file.fd(), &status) == 0);
  BOOST_TEST(status.st_blocks == 0);
  BOOST_TEST((old[0] == std::byte{0}));  // and may be touched
  const auto place = place_of(*writer, *reader, one_more, one_more->bytes());
  BOOST_REQUIRE(place.has_value());
  const auto fresh = reader->shared(*place, 8).bytes;
  BOOST_REQUIRE(fresh);
  BOOST_TEST((fresh[0] == std::byte{100}));
  // What was said of the old one before it went is not looked for in the new one.
  for (const std::size_t offset : {0U, 8000U}) {
    const auto found = reader->shared({places[5].region, offset}, 8);
    BOOST_TEST((found.gone && !found.bytes));
  }
}

/// As when a process has as many files open as it may: the kernel drops what it cannot put anywhere.
BOOST_FIXTURE_TEST_CASE(a_descriptor_that_is_lost_on_its_way_leaves_its_region_unread, Pair) {
  auto region = region_of(std::byte{1});
  const auto old = place_of(*writer, *reader, region, region->bytes()).value();
  region = region_of(std::byte{2});
  BOOST_REQUIRE(!writer->share(region, region->bytes()).has_value());
  rlimit files{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &files) == 0);
  const rlimit none{0, files.rlim_max};
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  hear(*reader);
  BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &files) == 0);
  hear(*writer);
  BOOST_TEST(!writer->share(region, region->bytes()).has_value());
  BOOST_TEST(reader->shared(old, 8).gone);
  const auto another = region_of(std::byte{3});
  BOOST_TEST(place_of(*writer, *reader, another, another->bytes()).has_value());
}

BOOST_FIXTURE_TEST_CASE(a_bell_that_is_full_hands_nothing_over, Pair) {
  const auto region = region_of(std::byte{1});
  const std::vector<std::byte> bells(4096, std::byte{'n'});
  while (::send(writer->fd(), bells.data(), bells.size(), MSG_DONTWAIT) > 0) {
  }
  BOOST_TEST(!writer->share(region, region->bytes()).has_value());
  for (int i = 0; i < 4096; ++i) hear(*reader);
  hear(*writer);
  BOOST_TEST(place_of(*writer, *reader, region, region->bytes()).has_value());
}

/// It rings as often as it can while it is heard: whoever listens to it has other things to do, too.
BOOST_FIXTURE_TEST_CASE(who_never_stops_ringing_is_not_listened_to_for_ever, Pair) {
  std::atomic<bool> ends = false;
  std::jthread ringing([&, fd = writer->fd()] {
    while (!ends) (void)::send(fd, "n", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  });
  std::byte none{};
  State state = State::WantRead;
  for (int i = 0; i < 1000 && state == State::WantRead; ++i) {
    state = reader->read({&none, 1}).state;
    hear(*reader);
  }
  BOOST_TEST((state == State::WantRead || state == State::Failed));  // it came back
  ends = true;
}

BOOST_AUTO_TEST_CASE(memory_whose_size_can_change_is_not_mapped) {
  auto [near, far] = bells();
  const auto reader = offer(std::move(near));
  const Socket loose(::memfd_create("test", MFD_ALLOW_SEALING));
  BOOST_REQUIRE(::ftruncate(loose.fd(), 8192) == 0);
  const Socket half(::memfd_create("test", MFD_ALLOW_SEALING));
  BOOST_REQUIRE((::ftruncate(half.fd(), 8192) == 0 && ::fcntl(half.fd(), F_ADD_SEALS, F_SEAL_GROW) == 0));
  const Socket none(::open("/proc/self/exe", O_RDONLY));
  const Socket device(::open("/dev/null", O_RDONLY));
  const Socket vast(::memfd_create("test", MFD_ALLOW_SEALING));
  BOOST_REQUIRE(seal_with_size(vast.fd(), MemoryChannel::MAX_MAPPED_BYTES + 4096));
  std::uint64_t times = 0;
  for (const int descriptor : {loose.fd(), half.fd(), none.fd(), device.fd(), vast.fd(), far->fd()}) {
    send_descriptors(*far, std::array{descriptor}, 0);
    BOOST_TEST(!reader->shared({++times * MemoryChannel::MAX_REGIONS, 0}, 8).bytes);
  }
  BOOST_REQUIRE(::fcntl(loose.fd(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0);
  send_descriptors(*far, std::array{loose.fd()}, 200);  // no number
  BOOST_TEST(!reader->shared({times * MemoryChannel::MAX_REGIONS, 0}, 8).bytes);
  send_descriptors(*far, std::array{loose.fd()}, 0);
  BOOST_TEST(reader->shared({++times * MemoryChannel::MAX_REGIONS, 0}, 8).bytes);
}

/// Descriptors that nobody has asked for would be open for ever.
BOOST_AUTO_TEST_CASE(of_several_descriptors_at_once_none_is_left_open) {
  auto [near, far] = bells();
  const auto reader = offer(std::move(near));
  const auto open_files = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
  const auto before = open_files();
  const auto region = region_of(std::byte{1});
  for (int i = 0; i < 10; ++i) {
    send_descriptors(*far, std::array{region->descriptor(), region->descriptor(), region->descriptor()}, 0);
    hear(*reader);
  }
  BOOST_TEST(open_files() == before + 1);  // the region's own
}

/// Where files may not be so long, the kernel would end the process.
BOOST_AUTO_TEST_CASE(a_region_that_no_file_may_hold_is_refused) {
  rlimit files{};
  BOOST_REQUIRE(::getrlimit(RLIMIT_FSIZE, &files) == 0);
  const rlimit low{4096, files.rlim_max};
  BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &low) == 0);
  const auto region = SharedRegion::make(8192);
  BOOST_REQUIRE(::setrlimit(RLIMIT_FSIZE, &files) == 0);
  BOOST_REQUIRE(!region.has_value());
  BOOST_TEST((region.error().name == ErrorName::MemoryUnavailable));
}

BOOST_AUTO_TEST_CASE(who_may_read_in_a_region_cannot_write_there) {
  const auto region = region_of(std::byte{1});
  BOOST_TEST(::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, region->descriptor(), 0) == MAP_FAILED);
  BOOST_TEST(::fallocate(region->descriptor(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8192) == -1);
  BOOST_TEST(MappedRegion::map(region->descriptor(), 8192).size == 8192U);
}

/// Programs fork, and a child that ends has their objects.
BOOST_AUTO_TEST_CASE(the_end_of_a_forked_child_leaves_a_region_as_it_is) {
  auto region = region_of(std::byte{3});
  const pid_t child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    region.reset();
    ::_exit(0);
  }
  BOOST_REQUIRE(::waitpid(child, nullptr, 0) == child);
  BOOST_TEST((region->bytes()[0] == std::byte{3}));
}

BOOST_AUTO_TEST_SUITE_END()
