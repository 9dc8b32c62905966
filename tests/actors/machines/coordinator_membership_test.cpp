// Owns the tests of who takes part: refusals, seats, fetches, admission, silence.
#include <boost/test/unit_test.hpp>

#include "tests/actors/machines/coordinator_bench.hpp"

using namespace prime;
using namespace prime::coordinator;

BOOST_AUTO_TEST_CASE(the_first_step_begins_when_the_quorum_is_caught_up_and_not_before) {
  Bench bench{2, 3};
  bench.seat(1);
  bench.seat(2);
  BOOST_TEST(bench.state.view.members.empty());
  bench.seat(3);
  BOOST_TEST(bench.state.view.epoch.value == 1U);
  BOOST_TEST(bench.sent<BeginStep>().size() == 3U);
}

BOOST_AUTO_TEST_CASE(strangers_are_refused_by_name_and_cost_no_resident_its_place) {
  Bench bench;
  for (std::uint64_t peer = 1; peer <= 4; ++peer) bench.seat(peer);
  const auto refused = [&](const Hello& hello, std::uint64_t from) {
    bench.hear(from, hello);
    return bench.dismissed(from);
  };
  auto other_version = Bench::hello_of(9);
  other_version.protocol = PROTOCOL_VERSION + 1;
  auto other_run = Bench::hello_of(9);
  other_run.run = "another";
  BOOST_CHECK(refused(other_version, 9) == ErrorName::VersionMismatch);
  BOOST_CHECK(refused(other_run, 9) == ErrorName::WrongRun);
  BOOST_CHECK(refused(Bench::hello_of(9), 9) == ErrorName::RunFull);
  BOOST_CHECK(refused(Bench::hello_of(1), 9) == ErrorName::ProtocolViolation);
  BOOST_TEST(bench.state.peers.size() == 4U);
}

BOOST_AUTO_TEST_CASE(an_evicted_id_is_refused_for_good) {
  Bench bench;
  bench.seat(1);
  bench.seat(2);
  bench.lose(2);
  bench.greet(2);
  BOOST_CHECK(bench.dismissed(2) == ErrorName::Evicted);
}

BOOST_AUTO_TEST_CASE(a_peer_is_silent_for_ten_seconds_before_it_is_evicted) {
  Bench bench;
  bench.seat(1);
  bench.seat(2);
  bench.pass(10s, 2);
  BOOST_TEST(bench.state.peers.contains(PeerId{2}));
  bench.pass(1ms, 2);
  BOOST_CHECK(bench.dismissed(2) == ErrorName::Evicted);
  BOOST_TEST(!bench.state.peers.contains(PeerId{2}));
  BOOST_TEST(bench.state.view.epoch.value == 2U);
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_was_frozen_itself_evicts_nobody_for_it) {
  Bench bench;
  bench.seat(1);
  bench.seat(2);
  bench.freeze(60min);
  BOOST_TEST(bench.state.peers.size() == 2U);
  bench.pass(10s, 2);
  BOOST_TEST(bench.state.peers.size() == 2U);
  bench.pass(1ms, 2);
  BOOST_TEST(bench.state.peers.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_trainer_that_never_binds_costs_the_seat_after_its_limit) {
  Bench bench;
  bench.greet(1);
  bench.pass(5min);
  BOOST_TEST(bench.state.peers.contains(PeerId{1}));
  bench.pass(1ms);
  BOOST_CHECK(bench.dismissed(1) == ErrorName::DeadlineExceeded);
}

BOOST_AUTO_TEST_CASE(another_layout_is_refused) {
  Bench bench;
  bench.seat(1);
  bench.greet(2);
  bench.hear(2, Seated{Revision{}, INITIAL, Digest{8, 8}, 3, 1});
  BOOST_CHECK(bench.dismissed(2) == ErrorName::LayoutMismatch);
}

BOOST_AUTO_TEST_CASE(who_was_born_with_other_values_fetches_those_of_the_founder) {
  Bench bench;
  bench.seat(1);
  bench.seat(2, Digest{2, 2});
  const auto fetches = bench.sent<FetchState>();
  BOOST_REQUIRE(fetches.size() == 1U);
  BOOST_TEST(fetches[0].first == 2U);
  BOOST_TEST(fetches[0].second.donor.value == 1U);
  bench.hear(2, Fetched{Revision{}, INITIAL});
  BOOST_TEST(bench.sent<BeginStep>().size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_fetch_that_brought_other_bits_costs_the_seat) {
  Bench bench;
  bench.seat(1);
  bench.seat(2, Digest{2, 2});
  bench.hear(2, Fetched{Revision{}, Digest{3, 3}});
  BOOST_CHECK(bench.dismissed(2) == ErrorName::ParityBroken);
}

BOOST_AUTO_TEST_CASE(when_the_founder_goes_the_one_that_fetched_from_it_founds_with_what_it_holds) {
  Bench bench;
  bench.seat(1);
  bench.seat(2, Digest{2, 2});
  bench.lose(1);  // the answer of peer 2 is on its way: nobody knows what it holds
  BOOST_TEST(!bench.state.digest.has_value());
  bench.hear(2, Fetched{Revision{}, INITIAL});
  BOOST_CHECK(bench.state.digest == INITIAL);
}

BOOST_AUTO_TEST_CASE(when_another_one_founds_meanwhile_the_late_fetch_is_repeated_and_punishes_nobody) {
  Bench bench;
  bench.seat(1);
  bench.seat(2, Digest{2, 2});
  bench.lose(1);
  bench.seat(3, Digest{3, 3});
  BOOST_CHECK(bench.state.digest == (Digest{3, 3}));
  bench.hear(2, Fetched{Revision{}, INITIAL});
  const auto fetches = bench.sent<FetchState>();
  BOOST_REQUIRE(fetches.size() == 1U);
  BOOST_TEST(fetches[0].second.donor.value == 3U);
}

BOOST_AUTO_TEST_CASE(a_failed_fetch_is_tried_again_at_once_then_ever_later_and_given_up_after_eight) {
  Bench bench;
  bench.seat(1);
  bench.seat(2, Digest{2, 2});
  const auto fail_once = [&] { bench.hear(2, FetchFailed{PeerId{1}, Revision{}, Error{ErrorName::FetchFailed}}); };
  fail_once();
  BOOST_TEST(bench.sent<FetchState>().size() == 1U);
  for (std::uint32_t attempt = 2; attempt < MAX_FETCH_ATTEMPTS; ++attempt) {
    fail_once();
    BOOST_TEST(bench.sent<FetchState>().empty());
    bench.now += 250ms * (attempt - 1) - 1ms;
    bench.tick();
    BOOST_TEST(bench.sent<FetchState>().empty());
    bench.now += 1ms;
    bench.tick();
    BOOST_TEST(bench.sent<FetchState>().size() == 1U);
  }
  fail_once();
  BOOST_CHECK(bench.dismissed(2) == ErrorName::FetchFailed);
}

BOOST_AUTO_TEST_CASE(ranks_follow_the_order_of_arrival_and_not_the_ids) {
  Bench bench{2, 3};
  for (const std::uint64_t peer : {30U, 10U, 20U}) bench.seat(peer);
  const auto begun = bench.sent<BeginStep>();
  BOOST_REQUIRE(begun.size() == 3U);
  for (const auto& [to, begin] : begun) BOOST_TEST(begin.view.members[begin.rank].id.value == to);
  BOOST_TEST(begun[0].first == 30U);
  BOOST_TEST(begun[1].first == 10U);
}

BOOST_AUTO_TEST_CASE(a_run_that_nobody_joins_fails_by_name_after_the_wait_limit) {
  Bench bench;
  bench.seat(1);
  bench.pass(10min);
  BOOST_TEST(bench.finished() == nullptr);
  bench.pass(1ms);
  BOOST_REQUIRE(bench.finished() != nullptr);
  BOOST_CHECK(bench.finished()->cause->name == ErrorName::TooFewPeers);
}
