// Owns the tests of a run that its owner pauses between two outer steps, and lets go on.
#include <boost/test/unit_test.hpp>

#include "coordinator_bench.hpp"

BOOST_AUTO_TEST_SUITE(owner_pause)

using namespace prime;
using namespace prime::coordinator;

namespace {

const std::vector<std::uint64_t> BOTH{1, 2};

Digest digest_of(std::uint64_t step) { return {10 + step, 10 + step}; }

/// Two members at work on their second outer step.
Bench at_work() {
  Bench bench;
  for (const auto peer : BOTH) bench.seat(peer);
  bench.commit(BOTH, digest_of(1));
  return bench;
}

Bench held() {
  auto bench = at_work();
  bench.on(PauseRequested{});
  bench.commit(BOTH, digest_of(2));
  return bench;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_under_way_ends_and_no_step_begins) {
  auto bench = at_work();
  bench.on(PauseRequested{});
  BOOST_TEST(bench.journaled<events::RunPaused>().size() == 1U);
  BOOST_TEST(bench.decided.has_value(), "it is kept before anybody hears of it");
  BOOST_TEST(bench.decided->paused_by_owner);
  bench.commit(BOTH, digest_of(2));
  BOOST_TEST(bench.journaled<events::OuterStepCommitted>().size() == 1U);
  BOOST_TEST(bench.told<Commit>() == BOTH, boost::test_tools::per_element());
  BOOST_TEST(bench.told<BeginStep>().empty());
  BOOST_TEST(bench.state.is_held());
  BOOST_TEST((bench.probes == std::vector{Probe::HeldByOwner}));
  const auto waits = bench.journaled<events::Waiting>();
  BOOST_REQUIRE(!waits.empty());
  BOOST_TEST(waits.back().what == "`primectl resume`: paused by `primectl pause`");
  BOOST_TEST(!waits.back().left_s.has_value());
}

BOOST_AUTO_TEST_CASE(nobody_loses_a_seat_however_long_it_lasts_and_the_next_step_follows) {
  auto bench = held();
  bench.pass(180min);
  BOOST_TEST(bench.told<Dismissed>().empty());
  BOOST_TEST(bench.told<BeginStep>().empty());
  BOOST_TEST(bench.finished() == nullptr);
  bench.on(ResumeRequested{});
  BOOST_TEST(bench.journaled<events::RunResumed>().size() == 1U);
  BOOST_TEST(bench.told<BeginStep>() == BOTH, boost::test_tools::per_element());
  const auto begun = bench.told<BeginStep>(1);
  BOOST_TEST(begun.step.value == 3U);
  BOOST_TEST(begun.first_sample == 40U, "as without the pause");
}

BOOST_AUTO_TEST_CASE(who_joins_meanwhile_has_its_seat_and_begins_with_the_others) {
  auto bench = held();
  bench.seat(3, Digest{9, 9});
  bench.hear(3, Fetched{bench.state.revision, *bench.state.digest});
  BOOST_TEST(bench.journaled<events::PeerAdmitted>().size() == 1U);
  BOOST_TEST(bench.told<BeginStep>().empty());
  bench.on(ResumeRequested{});
  BOOST_TEST(bench.told<BeginStep>() == (std::vector<std::uint64_t>{1, 2, 3}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_run_that_is_too_small_does_not_give_up_before_its_owner_lets_it_go_on) {
  auto bench = held();
  bench.lose(2);
  bench.pass(60min);
  BOOST_TEST(bench.finished() == nullptr);
  bench.on(ResumeRequested{});
  bench.pass(bench.state.plan.wait_limit - 1s);
  BOOST_TEST(bench.finished() == nullptr);
  bench.pass(3s);
  BOOST_TEST((bench.state.end_cause->name == ErrorName::TooFewPeers));
}

BOOST_AUTO_TEST_CASE(a_step_that_lacks_peers_waits_for_them_and_ends_before_the_run_is_held) {
  auto bench = at_work();
  bench.on(PauseRequested{});
  bench.lose(2);
  bench.pass(60min);
  BOOST_TEST(bench.finished() == nullptr);
  BOOST_TEST(!bench.state.is_held(), "the step is under way");
  bench.seat(3, Digest{9, 9});
  bench.hear(3, Fetched{bench.state.revision, *bench.state.digest});
  bench.commit({1, 3}, digest_of(2));
  BOOST_TEST(bench.state.is_held());
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_was_started_again_holds_it_still) {
  auto bench = at_work();
  bench.on(PauseRequested{});
  bench.ready(1, 100);
  bench.ready(2, 100);
  bench.vote(1, digest_of(2));
  bench.vote(2, digest_of(2));
  BOOST_REQUIRE(bench.decided.has_value());
  bench.state = restore({bench.state.options, bench.state.plan}, *bench.decided, bench.now);
  BOOST_TEST(bench.state.is_held());
  for (const auto peer : BOTH) bench.greet(peer);
  bench.pass(60min);
  BOOST_TEST(bench.told<BeginStep>().empty());
  bench.on(ResumeRequested{});
  BOOST_TEST(bench.told<BeginStep>() == BOTH, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(before_the_first_step_it_holds_as_well) {
  Bench bench;
  bench.on(PauseRequested{});
  for (const auto peer : BOTH) bench.seat(peer);
  bench.pass(60min);
  BOOST_TEST(bench.told<BeginStep>().empty());
  BOOST_TEST(bench.state.view.members.size() == 2U);
  bench.on(ResumeRequested{});
  BOOST_TEST(bench.told<BeginStep>() == BOTH, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(it_can_be_stopped_and_what_is_said_twice_is_said_once) {
  auto bench = held();
  bench.on(PauseRequested{});
  BOOST_TEST(bench.effects.empty());
  bench.on(StopRequested{});
  BOOST_REQUIRE(bench.finished() != nullptr);
  BOOST_TEST((bench.finished()->cause->name == ErrorName::RunStopped));
  auto other = at_work();
  other.on(ResumeRequested{});
  BOOST_TEST(other.effects.empty());
}

BOOST_AUTO_TEST_CASE(the_last_step_ends_the_run_all_the_same) {
  auto bench = at_work();
  bench.commit(BOTH, digest_of(2));
  bench.on(PauseRequested{});
  bench.commit(BOTH, digest_of(3));
  BOOST_CHECK(bench.state.phase == Phase::Finishing);
  bench.on(PauseRequested{});
  BOOST_TEST(bench.reason == "it is paused already");
}

BOOST_AUTO_TEST_SUITE_END()
