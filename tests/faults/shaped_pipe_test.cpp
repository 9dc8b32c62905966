// Owns the tests of delay and rate on virtual time: what leaves, and at which nanosecond.
#include "tests/faults/shaped_pipe.hpp"

#include <boost/test/unit_test.hpp>
#include <numeric>

namespace prime::faults {
namespace {

constexpr Instant START{Duration{1'000'000'000'000}};

std::vector<std::byte> bytes(std::size_t count) {
  std::vector<std::byte> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<std::byte>((i * 31 + i / 251) & 0xff);
  return all;
}

/// Takes all that may leave now.
std::vector<std::byte> drain(ShapedPipe& pipe, Instant now) {
  std::vector<std::byte> all;
  for (auto ready = pipe.ready(now); !ready.empty(); ready = pipe.ready(now)) {
    all.insert(all.end(), ready.begin(), ready.end());
    pipe.take(ready.size(), now);
  }
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(shaped_pipe)

BOOST_AUTO_TEST_CASE(without_rate_and_delay_bytes_leave_at_once_and_in_order) {
  ShapedPipe pipe({}, START);
  const auto sent = bytes(1000);
  pipe.put(std::span(sent).first(300), START);
  pipe.put(std::span(sent).subspan(300), START);
  BOOST_TEST(drain(pipe, START) == sent);
  BOOST_TEST(!pipe.next());
}

BOOST_AUTO_TEST_CASE(delayed_bytes_leave_when_the_delay_has_passed_and_not_a_nanosecond_before) {
  ShapedPipe pipe({.delay = 50ms}, START);
  pipe.put(bytes(10), START);
  pipe.put(bytes(20), START + 5ms);
  BOOST_TEST(drain(pipe, START + 50ms - Duration{1}).size() == 0U);
  BOOST_TEST((pipe.next() == START + 50ms));
  BOOST_TEST(drain(pipe, START + 50ms).size() == 10U);
  BOOST_TEST(drain(pipe, START + 55ms).size() == 20U);
}

BOOST_AUTO_TEST_CASE(the_rate_holds_over_every_stretch_of_time) {
  constexpr std::uint64_t RATE = 1'000'003;  // no divisor of a second
  ShapedPipe pipe({.rate_bytes_per_s = RATE, .buffer_bytes = 4 * MIB}, START);
  const auto sent = bytes(2'000'000);
  for (std::size_t at = 0; at < sent.size(); at += 50'000) pipe.put(std::span(sent).subspan(at, 50'000), START);
  std::vector<std::byte> got;
  Instant now = START;
  for (std::int64_t turn = 0; got.size() < sent.size(); ++turn) {
    const auto some = drain(pipe, now);
    got.insert(got.end(), some.begin(), some.end());
    const auto may = static_cast<std::uint64_t>((now - START).count()) * RATE / 1'000'000'000;
    BOOST_TEST_REQUIRE(got.size() <= may + pipe.burst_bytes());
    if (got.size() < sent.size()) BOOST_TEST_REQUIRE(got.size() + pipe.burst_bytes() >= may);
    now += Duration{turn % 7 * 1'000'003};  // at uneven moments
  }
  BOOST_TEST(got == sent);
}

BOOST_AUTO_TEST_CASE(an_idle_link_saves_no_more_than_one_burst) {
  ShapedPipe pipe({.rate_bytes_per_s = 1'000'000, .buffer_bytes = 4 * MIB}, START);
  pipe.put(bytes(1'000'000), START + 3600s);
  BOOST_TEST(drain(pipe, START + 3600s).size() == pipe.burst_bytes());
}

BOOST_AUTO_TEST_CASE(even_one_byte_in_a_second_gets_through) {
  ShapedPipe pipe({.rate_bytes_per_s = 1, .buffer_bytes = 64 * KIB}, START);
  pipe.put(bytes(3000), START);
  BOOST_TEST(drain(pipe, START).size() == 1500U);
  BOOST_TEST_REQUIRE(pipe.next().has_value());
  BOOST_TEST(drain(pipe, *pipe.next()).size() == 375U);
}

BOOST_AUTO_TEST_CASE(what_it_holds_is_bounded_by_rate_times_delay_and_the_buffer) {
  ShapedPipe pipe({.rate_bytes_per_s = 1'000'000, .delay = 100ms, .buffer_bytes = 64 * KIB}, START);
  const std::size_t bound = 100'000 + 64 * KIB;
  BOOST_TEST(pipe.room() <= bound);
  BOOST_TEST(pipe.room() > bound - 100);
  pipe.put(bytes(pipe.room()), START);
  BOOST_TEST(pipe.room() == 0U);
  while (pipe.room() == 0) {
    BOOST_TEST_REQUIRE(pipe.next().has_value());
    drain(pipe, *pipe.next());
  }
  BOOST_TEST(pipe.room() > bound - 100);
}

BOOST_AUTO_TEST_CASE(many_tiny_pieces_count_with_the_memory_that_they_take) {
  ShapedPipe pipe({.delay = 1s, .buffer_bytes = 65'000}, START);
  std::size_t pieces = 0;
  for (; pipe.room() > 0; ++pieces) pipe.put(bytes(1), START);
  BOOST_TEST(pieces <= 1000U);
}

BOOST_AUTO_TEST_CASE(the_end_comes_after_every_byte_and_after_the_delay) {
  ShapedPipe pipe({.delay = 50ms}, START);
  pipe.put(bytes(10), START);
  pipe.put_end(StreamEnd::Closed, START + 1ms);
  BOOST_TEST(!pipe.end(START + 60ms));  // bytes are before it
  drain(pipe, START + 50ms);
  BOOST_TEST(!pipe.end(START + 51ms - Duration{1}));
  BOOST_TEST((pipe.next() == START + 51ms));
  BOOST_TEST((pipe.end(START + 51ms) == StreamEnd::Closed));
  pipe.put_end(StreamEnd::Reset, START + 2ms);
  BOOST_TEST((pipe.end(START + 52ms) == StreamEnd::Reset));
}

BOOST_AUTO_TEST_CASE(next_is_the_first_moment_at_which_something_leaves) {
  ShapedPipe pipe({.rate_bytes_per_s = 333'333, .delay = 7ms, .buffer_bytes = 4 * MIB}, START);
  for (int i = 0; i < 20; ++i) pipe.put(bytes(10'007), START + i * 1ms);
  pipe.put_end(StreamEnd::Closed, START + 30ms);
  std::size_t got = 0;
  while (!pipe.end(*pipe.next())) {
    const Instant next = *pipe.next();
    BOOST_TEST_REQUIRE(!pipe.ready(next).empty());
    const auto ready = pipe.ready(next);
    got += ready.size();
    pipe.take(ready.size(), next);
    if (pipe.next() > next) BOOST_TEST_REQUIRE(pipe.ready(*pipe.next() - Duration{1}).empty());
  }
  BOOST_TEST(got == 200'140U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace prime::faults
