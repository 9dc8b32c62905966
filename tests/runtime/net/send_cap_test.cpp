// Owns the proof that a process sends no more than its cap, by a clock of its own, that nobody starves, and that what waits is not lost.
#include "runtime/net/send_cap.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <rapidcheck.h>
#include <sys/socket.h>

#include "runtime/net/plain_channel.hpp"
#include "tests/runtime/net/support.hpp"

BOOST_AUTO_TEST_SUITE(send_cap)

using namespace prime;
using namespace prime::net;
using namespace prime::net::test;

namespace {

constexpr std::uint64_t RATE = 1'000'000;  // bytes per second: one in a microsecond

Instant at(Duration since_start) { return Instant{} + 60min + since_start; }

/// A clock that stands still until it is told.
struct Clock {
  Instant now = at(0s);
  std::shared_ptr<SendCap> cap(std::uint64_t bytes_per_s) {
    return std::make_shared<SendCap>(bytes_per_s, [this] { return now; });
  }
};

/// Two ends of a socket; `near` is under the cap, and what it says is read at `far`.
struct Link {
  explicit Link(const std::shared_ptr<SendCap>& cap) {
    std::array<int, 2> ends{};
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
    near = capped(std::make_unique<PlainChannel>(std::make_shared<Socket>(ends[0]), PeerId{1}), cap);
    far = std::make_unique<PlainChannel>(std::make_shared<Socket>(ends[1]), PeerId{2});
  }
  /// Sends as much as may go now, of a text that goes on for ever, and reads it.
  std::size_t pump() {
    std::array<std::byte, 65536> bytes{};
    std::size_t sent = 0;
    for (;;) {
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>((total + sent + i) % 251);
      const auto io = near->write(bytes);
      sent += io.bytes;
      drain();
      if (io.state == Channel::State::Capped) break;
      BOOST_REQUIRE((io.state == Channel::State::Ok || io.state == Channel::State::WantWrite));
    }
    total += sent;
    return sent;
  }
  void drain() {
    std::array<std::byte, 65536> bin{};
    for (auto io = far->read(bin); io.state == Channel::State::Ok; io = far->read(bin))
      for (std::size_t i = 0; i < io.bytes; ++i, ++read)
        if (bin[i] != static_cast<std::byte>(read % 251)) BOOST_FAIL("byte " << read << " is another one");
  }
  ChannelPtr near, far;
  std::size_t total = 0;
  std::size_t read = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_booked_goes_when_what_was_booked_before_has_gone) {
  TokenBucket bucket{RATE};
  BOOST_TEST((bucket.book(50'000, at(0ms)) == at(-20ms)), "what a moment of silence has left goes at once");
  BOOST_TEST((bucket.book(1'000, at(0ms)) == at(30ms)));
  BOOST_TEST((bucket.book(1'000, at(0ms)) == at(31ms)));
  bucket.give_back(1'000);
  BOOST_TEST((bucket.book(1'000, at(1ms)) == at(31ms)));
  BOOST_TEST((bucket.book(1'000, at(10s)) == at(10s - CAP_BURST)), "silence is not saved up");
}

BOOST_AUTO_TEST_CASE(in_no_stretch_of_time_more_goes_than_the_rate_a_burst_and_a_portion) {
  rc::check([] {
    const auto rate = *rc::gen::inRange<std::uint64_t>(12'500, 2'000'000'000);
    TokenBucket bucket{rate};
    struct Sent {
      Instant at;
      std::size_t bytes;
    };
    std::vector<Sent> sent;
    auto now = at(0s);
    for (int i = 0; i < 60; ++i) {
      now += Duration{*rc::gen::inRange<std::int64_t>(0, 30'000'000)};
      const auto bytes = *rc::gen::inRange<std::size_t>(1, bucket.portion() + 1);
      const auto from = bucket.book(bytes, now);
      now = std::max(now, from);
      sent.push_back({now, bytes});
    }
    for (std::size_t first = 0; first < sent.size(); ++first) {
      std::uint64_t bytes = 0;
      for (std::size_t last = first; last < sent.size(); ++last) {
        bytes += sent[last].bytes;
        const auto seconds = std::chrono::duration<double>(sent[last].at - sent[first].at + CAP_BURST).count();
        RC_ASSERT(static_cast<double>(bytes) <= static_cast<double>(rate) * seconds + static_cast<double>(bucket.portion()) + 1);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(portions_are_worth_a_call_and_make_nobody_wait_for_long) {
  BOOST_TEST(TokenBucket{12'500}.portion() == 4 * KIB);
  BOOST_TEST(TokenBucket{5'000'000}.portion() == 25'000U);
  BOOST_TEST(TokenBucket{1'250'000'000}.portion() == 256 * KIB);
}

BOOST_AUTO_TEST_CASE(through_sockets_so_much_goes_as_the_clock_allows_and_every_byte_arrives) {
  Clock clock;
  Link link{clock.cap(RATE)};
  link.pump();
  const auto before = link.total;
  for (int ms = 0; ms < 2'000; ms += 10) {
    clock.now += 10ms;
    link.pump();
  }
  const auto portion = TokenBucket{RATE}.portion();
  BOOST_TEST(link.total - before <= 2 * RATE + portion);
  BOOST_TEST(link.total - before >= 2 * RATE - portion);
  BOOST_TEST(link.read == link.total);
}

BOOST_AUTO_TEST_CASE(channels_of_a_process_share_the_cap_evenly_whoever_asks_first) {
  Clock clock;
  const auto cap = clock.cap(RATE);
  Link first{cap}, second{cap}, third{cap};
  for (int ms = 0; ms < 3'000; ms += 1) {
    clock.now += 1ms;
    first.pump();  // always before the others
    second.pump();
    third.pump();
  }
  const auto all = first.total + second.total + third.total;
  BOOST_TEST(all <= 3 * RATE + 4 * TokenBucket{RATE}.portion() + 20'000);
  for (const auto* each : {&first, &second, &third}) BOOST_TEST(each->total > all * 3 / 10);
}

BOOST_AUTO_TEST_CASE(a_capped_write_says_when_it_may_go_on_and_goes_on_then) {
  Clock clock;
  Link link{clock.cap(RATE)};
  link.pump();
  const auto until = link.near->capped_until();
  BOOST_TEST((until > clock.now));
  clock.now = until - Duration{1000};
  BOOST_TEST(link.pump() == 0U);
  clock.now = until;
  BOOST_TEST(link.pump() > 0U);
}

BOOST_AUTO_TEST_CASE(who_goes_gives_back_what_it_had_booked) {
  Clock clock;
  const auto cap = clock.cap(RATE);
  Link stays{cap};
  stays.pump();
  {
    Link goes{cap};
    goes.pump();
  }
  const auto until = stays.near->capped_until();
  clock.now = until;
  stays.pump();
  BOOST_TEST((stays.near->capped_until() - until == Duration{static_cast<std::int64_t>(TokenBucket{RATE}.portion() * 1000)}),
             "nobody stands between");
}

BOOST_AUTO_TEST_CASE(reading_is_not_capped_nor_is_who_has_no_cap) {
  Clock clock;
  Link link{clock.cap(RATE)};
  link.pump();
  std::array<std::byte, 4096> bytes{};
  BOOST_TEST(link.far->write(bytes).bytes == bytes.size());
  BOOST_TEST(link.near->read(bytes).bytes == bytes.size());
  std::array<int, 2> ends{};
  BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
  auto plain = std::make_unique<PlainChannel>(std::make_shared<Socket>(ends[0]), PeerId{1});
  const Channel* const as_it_was = plain.get();
  BOOST_TEST(capped(std::move(plain), nullptr).get() == as_it_was);
  ::close(ends[1]);
}

/// What is encrypted and has not gone must be offered again as it was.
BOOST_AUTO_TEST_CASE(under_tls_every_byte_arrives_in_order) {
  const RunKey key = RunKey::generate();
  Host host(credentials(key, PeerId{2}));
  Clock clock;
  auto dialed = dial(host.address(), Protocol::Lane, credentials(key, PeerId{1}), Expectation::peer(PeerId{2}), PATIENCE);
  BOOST_REQUIRE(dialed);
  const auto near = capped(*std::move(dialed), clock.cap(RATE));
  auto arrival = host.take();
  std::vector<std::byte> text(600'000);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::byte>(i % 251);
  std::vector<std::byte> heard;
  std::size_t sent = 0;
  std::vector<std::byte> bin(65536);
  const auto until = monotonic_now() + PATIENCE;
  while (heard.size() < text.size() && monotonic_now() < until) {
    if (sent < text.size()) {
      const auto io = near->gather(std::span{text}.subspan(sent, std::min<std::size_t>(48, text.size() - sent)),
                                   std::span{text}.subspan(std::min(sent + 48, text.size())));
      sent += io.bytes;
      if (io.state == Channel::State::Capped) clock.now = near->capped_until();
    }
    const auto io = arrival.channel->read(bin);
    heard.insert(heard.end(), bin.begin(), bin.begin() + static_cast<std::ptrdiff_t>(io.bytes));
  }
  BOOST_TEST((heard == text));
  BOOST_TEST(
      (clock.now - at(0s) >= Duration{static_cast<std::int64_t>((text.size() - 2 * TokenBucket{RATE}.portion()) * 1'000)} - CAP_BURST));
}

BOOST_AUTO_TEST_SUITE_END()
