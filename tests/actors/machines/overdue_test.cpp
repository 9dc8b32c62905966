// Owns the tests of whom a missed deadline is blamed on where there is no vote.
#include "actors/reduce_worker/overdue.hpp"

#include <array>
#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(overdue)

using namespace prime;

namespace {

Instant at(int ns) { return Instant(Duration(ns)); }

constexpr Awaited SELF{true, false, false, true, {}};
Awaited done(int heard) { return {true, false, false, true, at(heard)}; }
Awaited full(int heard) { return {true, false, false, false, at(heard)}; }
Awaited owes(int heard) { return {true, false, true, true, at(heard)}; }
Awaited holds_up(int heard) { return {true, true, true, true, at(heard)}; }
Awaited absent() { return {false, true, true, false, at(0)}; }

std::optional<std::uint32_t> blamed(std::array<Awaited, 4> all, Schedule schedule = Schedule::Direct) {
  return most_overdue(schedule, all);
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_reason_comes_before_the_next_whoever_was_heard_last) {
  BOOST_TEST(blamed({SELF, absent(), holds_up(1), owes(1)}).value() == 1U);
  BOOST_TEST(blamed({SELF, owes(1), holds_up(9), full(1)}).value() == 2U);
  BOOST_TEST(blamed({SELF, full(1), done(1), owes(9)}).value() == 3U);
  BOOST_TEST(blamed({SELF, done(1), full(9), done(2)}).value() == 2U);
}

BOOST_AUTO_TEST_CASE(of_those_with_one_reason_the_one_that_has_been_silent_for_longest) {
  BOOST_TEST(blamed({SELF, holds_up(3), holds_up(2), holds_up(4)}).value() == 2U);
  BOOST_TEST(blamed({SELF, full(4), full(3), full(2)}).value() == 3U);
}

BOOST_AUTO_TEST_CASE(nobody_that_owes_nothing_and_has_all) { BOOST_TEST(!blamed({SELF, done(1), done(2), done(3)}).has_value()); }

BOOST_AUTO_TEST_CASE(in_a_ring_only_one_that_has_not_begun) {
  BOOST_TEST(!blamed({SELF, holds_up(1), full(2), owes(3)}, Schedule::Ring).has_value());
  BOOST_TEST(blamed({SELF, holds_up(1), full(2), absent()}, Schedule::Ring).value() == 3U);
}

BOOST_AUTO_TEST_SUITE_END()
