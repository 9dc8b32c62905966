// Owns the tests of the channel through shared memory: its rings, and what is lent of them.
#include "runtime/net/memory_channel.hpp"

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <numeric>
#include <vector>

#include "runtime/net/plain_channel.hpp"

using namespace prime;
using namespace prime::net;

namespace {

using State = Channel::State;
constexpr std::size_t PAYLOAD = MemoryChannel::RING_BYTES / 4;

/// Both ends in one process.
struct Pair {
  Pair() {
    std::array<int, 2> fds{};
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()) == 0);
    const auto bell = [&](std::size_t end) { return std::make_unique<PlainChannel>(std::make_shared<Socket>(fds[end]), PeerId{end + 1}); };
    auto offered = MemoryChannel::offer(bell(0));
    BOOST_REQUIRE(offered.has_value());
    near = std::move(*offered);
    far = MemoryChannel::accept(bell(1));
  }
  ChannelPtr near;
  ChannelPtr far;
};

std::vector<std::byte> bytes_of(std::size_t count, unsigned seed) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>((i * 31 + i / 251 + seed) & 0xFFU);
  return bytes;
}

std::size_t write_some(Channel& channel, std::span<const std::byte> from) {
  std::size_t done = 0;
  while (done < from.size()) {
    const auto io = channel.write(from.subspan(done));
    if (io.state != State::Ok) break;
    done += io.bytes;
  }
  return done;
}

bool holds(const Loan& loan, const std::vector<std::byte>& expected) { return std::equal(expected.begin(), expected.end(), loan.bytes()); }

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_lent_is_what_was_written_also_across_the_end_of_the_ring) {
  Pair pair;
  for (unsigned round = 0; round < 23; ++round) {
    const auto sent = bytes_of(PAYLOAD - 1000, round);
    BOOST_REQUIRE(write_some(*pair.near, sent) == sent.size());
    LoanPtr loan;
    const auto io = pair.far->lend(sent.size(), loan);
    BOOST_REQUIRE((io.state == State::Ok && io.bytes == sent.size()));
    BOOST_TEST(holds(*loan, sent));
  }
}

BOOST_AUTO_TEST_CASE(a_loan_waits_until_all_of_it_is_there) {
  Pair pair;
  const auto sent = bytes_of(1000, 1);
  LoanPtr loan;
  BOOST_TEST((pair.far->lend(1000, loan).state == State::WantRead));
  BOOST_REQUIRE(write_some(*pair.near, std::span{sent}.first(999)) == 999);
  BOOST_TEST((pair.far->lend(1000, loan).state == State::WantRead));
  BOOST_TEST(!loan);
  BOOST_REQUIRE(write_some(*pair.near, std::span{sent}.last(1)) == 1);
  BOOST_TEST((pair.far->lend(1000, loan).state == State::Ok));
  BOOST_TEST(holds(*loan, sent));
}

BOOST_AUTO_TEST_CASE(loans_that_are_kept_stop_neither_end) {
  Pair pair;
  std::deque<std::pair<LoanPtr, std::vector<std::byte>>> kept;
  for (unsigned round = 0; round < 40; ++round) {
    auto sent = bytes_of(PAYLOAD, round);
    std::size_t written = write_some(*pair.near, sent);
    LoanPtr loan;
    while (pair.far->lend(sent.size(), loan).state == State::WantRead) {
      const std::size_t more = write_some(*pair.near, std::span{sent}.subspan(written));
      BOOST_REQUIRE(more > 0);  // whoever waits for the rest finds that there is room for it
      written += more;
    }
    BOOST_REQUIRE(loan);
    kept.emplace_back(std::move(loan), std::move(sent));
    // What is not lent passes, too.
    const auto word = bytes_of(64, round);
    std::vector<std::byte> read(word.size());
    BOOST_REQUIRE(write_some(*pair.near, word) == word.size());
    BOOST_REQUIRE((pair.far->read(read).state == State::Ok));
    BOOST_TEST((read == word));
  }
  for (const auto& [loan, sent] : kept) BOOST_TEST(holds(*loan, sent));
}

BOOST_AUTO_TEST_CASE(loans_may_end_in_any_order) {
  Pair pair;
  constexpr std::size_t COUNT = MemoryChannel::RING_BYTES / 16;
  for (unsigned round = 0; round < 200; ++round) {
    std::vector<LoanPtr> loans(3);
    for (unsigned at = 0; at < 3; ++at) {
      const auto sent = bytes_of(COUNT, round + at);
      BOOST_REQUIRE(write_some(*pair.near, sent) == sent.size());
      BOOST_REQUIRE((pair.far->lend(sent.size(), loans[at]).state == State::Ok));
    }
    for (const unsigned first : {round % 3, (round + 1) % 3, (round + 2) % 3}) {
      BOOST_TEST(holds(*loans[first], bytes_of(COUNT, round + first)));
      loans[first].reset();
    }
  }
}

BOOST_AUTO_TEST_CASE(a_loan_outlives_its_channel_and_its_writer) {
  Pair pair;
  const auto sent = bytes_of(5000, 7);
  BOOST_REQUIRE(write_some(*pair.near, sent) == sent.size());
  LoanPtr loan;
  BOOST_REQUIRE((pair.far->lend(sent.size(), loan).state == State::Ok));
  pair.near.reset();
  pair.far.reset();
  BOOST_TEST(holds(*loan, sent));
}

BOOST_AUTO_TEST_CASE(what_is_too_long_is_not_lent_but_read) {
  Pair pair;
  const auto sent = bytes_of(PAYLOAD + 1, 3);
  BOOST_REQUIRE(write_some(*pair.near, sent) == sent.size());
  LoanPtr loan;
  const auto io = pair.far->lend(sent.size(), loan);
  BOOST_TEST((io.state == State::Ok && io.bytes == 0 && !loan));
  std::vector<std::byte> read(sent.size());
  for (std::size_t done = 0; done < read.size();) done += pair.far->read(std::span{read}.subspan(done)).bytes;
  BOOST_TEST((read == sent));
}

BOOST_AUTO_TEST_CASE(a_writer_that_waits_is_woken_when_a_loan_ends) {
  Pair pair;
  const auto sent = bytes_of(PAYLOAD, 5);
  std::vector<LoanPtr> loans(3);
  for (auto& loan : loans) {
    BOOST_REQUIRE(write_some(*pair.near, sent) == sent.size());
    BOOST_REQUIRE((pair.far->lend(sent.size(), loan).state == State::Ok));
  }
  while (write_some(*pair.near, sent) > 0) {
  }
  pollfd bell{pair.near->fd(), POLLIN, 0};
  BOOST_TEST(::poll(&bell, 1, 0) == 0);
  loans.clear();
  BOOST_TEST(::poll(&bell, 1, 0) == 1);
}
