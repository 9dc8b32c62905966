// Owns the tests of how a state comes from a donor: only the fragments that are asked for, from where a broken connection stopped, and
// nothing of another revision.
#include "runtime/agent/state_transfer.hpp"

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <limits>
#include <numeric>
#include <sys/socket.h>

#include "kernels/digest/digest.hpp"
#include "runtime/net/plain_channel.hpp"

BOOST_AUTO_TEST_SUITE(state_transfer)

using namespace prime;

namespace {

constexpr std::uint32_t FRAGMENTS = 4;
/// Of each tensor; a fragment has two, so that its parameters and its momentum have two chunks each.
constexpr std::int64_t ELEMENTS = static_cast<std::int64_t>(kernels::DIGEST_CHUNK_BYTES / sizeof(float) * 3 / 4);
constexpr std::uint64_t FRAGMENT_BYTES = 2 * 2 * ELEMENTS * sizeof(float);

struct Donor {
  Donor() {
    for (std::uint32_t fragment = 0; fragment < FRAGMENTS; ++fragment) {
      auto& of = memory.emplace_back(4 * ELEMENTS);
      std::iota(of.begin(), of.end(), 1000.0F * static_cast<float>(fragment));
      const std::span<const float> values{of};
      snapshot->fragments.push_back({OuterStep{fragment + 7}, {}, values.first(2 * ELEMENTS), values.subspan(2 * ELEMENTS)});
    }
    snapshot->counters.revision = Revision{30};
  }

  std::vector<std::vector<float>> memory;
  std::shared_ptr<Snapshot> snapshot = std::make_shared<Snapshot>();
  /// Each over one of its own: what is left of a broken session takes nobody's place.
  std::deque<StateServer> servers;
  StateServer& server() {
    return servers.emplace_back([this] { return snapshot; });
  }
};

/// A way to the donor that does something else to what comes back: from the byte `cut` on it is closed, and the byte `spoilt` is another
/// one.
class Spoiling final : public net::Channel {
 public:
  Spoiling(net::ChannelPtr way, std::uint64_t cut, std::uint64_t spoilt) : way_(std::move(way)), cut_(cut), spoilt_(spoilt) {}

  Io read(std::span<std::byte> into) override {
    if (at_ == cut_) return {State::Closed};
    const auto io = way_->read(into.first(std::min<std::uint64_t>(into.size(), cut_ - at_)));
    if (spoilt_ >= at_ && spoilt_ < at_ + io.bytes) into[spoilt_ - at_] ^= std::byte{1};
    at_ += io.bytes;
    return io;
  }
  Io write(std::span<const std::byte> from) override { return way_->write(from); }
  [[nodiscard]] std::size_t buffered() const override { return way_->buffered(); }
  [[nodiscard]] int fd() const override { return way_->fd(); }
  [[nodiscard]] PeerId peer() const override { return way_->peer(); }
  void shutdown() noexcept override { way_->shutdown(); }

 private:
  net::ChannelPtr way_;
  std::uint64_t cut_, spoilt_;
  std::uint64_t at_ = 0;
};

constexpr auto NEVER = std::numeric_limits<std::uint64_t>::max();

/// What a joiner has room for.
struct Joiner {
  explicit Joiner(std::vector<std::uint32_t> wanted) {
    for (const auto fragment : wanted) {
      const std::span<float> values{memory.emplace_back(4 * ELEMENTS)};
      incoming.push_back({fragment, {}, values.first(2 * ELEMENTS), values.subspan(2 * ELEMENTS)});
    }
  }

  Result<net::ChannelPtr> dial(Donor& donor) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
      return fail(ErrorName::LaneBroken, "socketpair");
    ++dialled;
    donor.server().serve(std::make_unique<net::PlainChannel>(std::make_shared<net::Socket>(ends[0]), PeerId{2}));
    auto way = std::make_unique<net::PlainChannel>(std::make_shared<net::Socket>(ends[1]), PeerId{1});
    if (faults == 0) return way;
    --faults;
    return std::make_unique<Spoiling>(std::move(way), cut, spoilt);
  }
  Result<void> fetch(Donor& donor, Revision revision = Revision{30}) {
    return fetch_state(
        revision, incoming, copied, [&] { return dial(donor); }, [](net::Channel*) {}, moved);
  }

  std::vector<std::vector<float>> memory;
  std::vector<OuterState::Incoming> incoming;
  std::vector<std::byte> copied;
  std::atomic<std::uint64_t> moved{0};
  int dialled = 0;
  int faults = 0;  ///< so many of the first ways are faulty, like this:
  std::uint64_t cut = NEVER, spoilt = NEVER;
};

}  // namespace

BOOST_AUTO_TEST_CASE(only_the_fragments_that_are_asked_for_go_over_the_wire) {
  Donor donor;
  Joiner joiner{{1, 3}};
  BOOST_REQUIRE(joiner.fetch(donor));
  BOOST_TEST(joiner.moved.load() == 2 * FRAGMENT_BYTES);
  BOOST_TEST((joiner.memory[0] == donor.memory[1]));
  BOOST_TEST((joiner.memory[1] == donor.memory[3]));
  BOOST_TEST(joiner.incoming[0].version.value == 8U);
  BOOST_TEST(joiner.incoming[1].version.value == 10U);
  Joiner whole{{0, 1, 2, 3}};
  BOOST_REQUIRE(whole.fetch(donor));
  BOOST_TEST(whole.moved.load() == FRAGMENTS * FRAGMENT_BYTES);
  BOOST_TEST((whole.memory == donor.memory));
}

BOOST_AUTO_TEST_CASE(copied_tensors_come_behind_the_fragments) {
  Donor donor;
  std::vector<std::byte> values(3 * kernels::DIGEST_CHUNK_BYTES + 5);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::byte>(i % 251);
  donor.snapshot->copied = std::make_shared<const std::vector<std::byte>>(values);
  Joiner joiner{{2}};
  joiner.copied.resize(values.size());
  BOOST_REQUIRE(joiner.fetch(donor));
  BOOST_TEST((joiner.copied == values));
  BOOST_TEST((joiner.memory[0] == donor.memory[2]));
  Joiner without{{2}};
  BOOST_TEST((without.fetch(donor).error().name == ErrorName::LayoutMismatch));
}

BOOST_AUTO_TEST_CASE(a_donor_that_holds_another_revision_or_fewer_fragments_gives_nothing) {
  Donor donor;
  Joiner joiner{{0}};
  BOOST_TEST((joiner.fetch(donor, Revision{29}).error().name == ErrorName::FetchFailed));
  BOOST_TEST(joiner.moved.load() == 0U);
  donor.snapshot->fragments.pop_back();
  Joiner last{{3}};
  BOOST_TEST(!last.fetch(donor));
  BOOST_TEST(last.moved.load() == 0U);
}

BOOST_AUTO_TEST_CASE(a_broken_connection_resumes_at_the_chunk_that_is_missing) {
  Donor donor;
  Joiner joiner{{0, 1}};
  joiner.faults = 2;
  joiner.cut = 2 * kernels::DIGEST_CHUNK_BYTES;  // two chunks have come but for their heads
  BOOST_REQUIRE(joiner.fetch(donor));
  BOOST_TEST(joiner.dialled == 3);
  BOOST_TEST((joiner.memory[0] == donor.memory[0]));
  BOOST_TEST((joiner.memory[1] == donor.memory[1]));
  BOOST_TEST(joiner.moved.load() > 2 * FRAGMENT_BYTES);
  BOOST_TEST(joiner.moved.load() < 2 * FRAGMENT_BYTES + 2 * kernels::DIGEST_CHUNK_BYTES,
             "each time what had come of one chunk comes again");
}

BOOST_AUTO_TEST_CASE(a_connection_that_breaks_again_and_again_without_a_chunk_is_given_up) {
  Donor donor;
  for (const std::uint64_t cut : {std::uint64_t{0}, std::uint64_t{40}, kernels::DIGEST_CHUNK_BYTES / 2}) {
    Joiner joiner{{0}};
    joiner.faults = 1000;
    joiner.cut = cut;
    const auto fetched = joiner.fetch(donor);
    BOOST_REQUIRE(!fetched);
    BOOST_TEST((fetched.error().name == ErrorName::LaneBroken));
    BOOST_TEST(joiner.dialled == 4);
  }
}

BOOST_AUTO_TEST_CASE(a_chunk_that_comes_damaged_comes_again_and_one_that_always_does_ends_the_fetch) {
  Donor donor;
  for (const int times : {1, 3, 1000}) {
    Joiner joiner{{0}};
    joiner.faults = times;
    joiner.spoilt = kernels::DIGEST_CHUNK_BYTES / 2;
    const auto fetched = joiner.fetch(donor);
    BOOST_TEST(fetched.has_value() == (times < 4));
    BOOST_TEST(joiner.dialled == std::min(times, 3) + 1);
    if (fetched) BOOST_TEST((joiner.memory[0] == donor.memory[0]));
    else BOOST_TEST(fetched.error().detail == "chunk 0 arrives damaged");
  }
}

BOOST_AUTO_TEST_CASE(no_byte_of_what_a_donor_says_of_its_chunks_is_believed) {
  Donor donor;
  constexpr std::uint64_t OFFER = 24 + 8;  // its frame, and the version of one fragment, which is the caller's to compare
  for (std::uint64_t spoilt = 0; spoilt < OFFER + 32; ++spoilt) {
    Joiner joiner{{0}};
    joiner.faults = 1000;
    joiner.spoilt = spoilt;
    const auto fetched = joiner.fetch(donor);
    const bool is_pad_or_version = (spoilt >= 4 && spoilt < 8) || (spoilt >= 24 && spoilt < OFFER);
    BOOST_TEST(fetched.has_value() == is_pad_or_version, "byte " << spoilt);
    if (fetched) BOOST_TEST((joiner.memory[0] == donor.memory[0]));
  }
}

BOOST_AUTO_TEST_SUITE_END()
