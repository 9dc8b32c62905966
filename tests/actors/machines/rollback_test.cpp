// Owns the tests of the way back to a checkpoint after a correlated loss.
#include <boost/test/unit_test.hpp>

#include "coordinator_bench.hpp"

BOOST_AUTO_TEST_SUITE(rollback)

using namespace prime;
using namespace prime::coordinator;

namespace {

const std::vector<std::uint64_t> SIX{1, 2, 3, 4, 5, 6};

Digest digest_of(std::uint64_t step) { return {10 + step, 10 + step}; }

/// Six members after so many outer steps; every second one is saved.
Bench six_after(std::uint64_t steps) {
  Bench bench{2, 6, 9};
  bench.state.options.max_peers = 16;
  bench.state.plan.on_correlated_loss = LossPolicy::RollBack;
  bench.state.plan.checkpoint_every = 2;
  for (const auto peer : SIX) bench.seat(peer);
  for (std::uint64_t step = 1; step <= steps; ++step) bench.commit(SIX, digest_of(step));
  return bench;
}

/// Takes part anew under another id, with what it has on its disk.
void bring(Bench& bench, std::uint64_t peer, std::uint64_t revision, Digest digest) {
  bench.greet(peer);
  bench.hear(peer, Seated{Revision{revision}, digest, LAYOUT, 3, 1});
}

Bench rolled_back() {
  auto bench = six_after(3);
  bench.lose(5);
  bench.lose(6);
  return bench;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_third_lost_at_once_takes_the_run_back_to_the_checkpoint_and_everybody_joins_anew) {
  auto before = six_after(2);
  const auto cursor = before.state.cursor;
  const auto tokens = before.state.tokens;
  auto bench = rolled_back();
  const auto record = bench.position_of<events::RolledBack>();
  BOOST_REQUIRE(record.has_value());
  BOOST_CHECK(info(std::get<JournalEvent>(bench.effects[*record])).durability == Durability::Durable);
  for (const std::uint64_t peer : {1U, 2U, 3U, 4U}) BOOST_CHECK(bench.dismissed(peer) == ErrorName::RolledBack);
  for (std::size_t i = 0; i < *record; ++i) {
    const auto* send = std::get_if<Send>(&bench.effects[i]);
    BOOST_TEST((send == nullptr || !std::holds_alternative<Dismissed>(send->message)), "nobody hears of it before it is on disk");
  }
  BOOST_TEST(bench.state.peers.empty());
  BOOST_TEST(bench.state.revision.value == 2U);
  BOOST_TEST((bench.state.digest == digest_of(2)));
  BOOST_TEST(bench.state.cursor == cursor);
  BOOST_TEST(bench.state.tokens == tokens);
  BOOST_TEST((bench.state.phase == Phase::Waiting));
  BOOST_TEST(bench.finished() == nullptr);

  bring(bench, 11, 0, INITIAL);  // its disk was full
  BOOST_TEST(bench.sent<FetchState>().empty());
  bring(bench, 12, 2, digest_of(2));
  BOOST_TEST(bench.sent<BeginStep>().empty());
  bring(bench, 13, 2, digest_of(2));
  const auto begun = bench.sent<BeginStep>();
  BOOST_REQUIRE(begun.size() == 2U);
  BOOST_TEST(begun[0].second.step.value == 3U);
  BOOST_TEST(begun[0].second.base.value == 2U);
  BOOST_TEST(begun[0].second.first_sample == cursor);
  bench.pass(1s);
  const auto& fetching = bench.state.peers.at(PeerId{11}).fetch;
  BOOST_TEST(fetching.revision.value == 2U);
}

BOOST_AUTO_TEST_CASE(before_the_first_checkpoint_and_right_after_one_it_goes_on) {
  for (const std::uint64_t steps : {1U, 2U}) {
    auto bench = six_after(steps);
    bench.lose(5);
    bench.lose(6);
    BOOST_TEST(bench.position_of<events::CorrelatedLoss>().has_value());
    BOOST_TEST(!bench.position_of<events::RolledBack>().has_value());
    BOOST_TEST(bench.state.peers.size() == 4U);
  }
}

BOOST_AUTO_TEST_CASE(an_operation_in_flight_is_aborted_first) {
  auto bench = six_after(3);
  for (const auto peer : SIX) bench.ready(peer, 100);
  BOOST_REQUIRE((bench.state.phase == Phase::Reducing));
  bench.lose(5);
  for (const std::uint64_t peer : {1U, 2U, 3U, 4U}) bench.ready(peer, 100);
  bench.lose(6);
  BOOST_TEST(bench.position_of<events::OuterStepAborted>().has_value());
  BOOST_TEST(bench.position_of<events::RolledBack>().has_value());
  BOOST_TEST((bench.state.phase == Phase::Waiting));
}

BOOST_AUTO_TEST_CASE(nobody_is_waited_for_longer_than_the_wait_limit) {
  auto bench = rolled_back();
  bench.pass(10min);
  BOOST_TEST(bench.finished() == nullptr);
  bench.pass(1s);
  BOOST_REQUIRE(bench.finished() != nullptr);
  BOOST_CHECK(bench.finished()->cause->name == ErrorName::TooFewPeers);
}

BOOST_AUTO_TEST_CASE(one_that_came_back_and_was_lost_again_does_not_end_the_wait_for_the_others) {
  auto bench = rolled_back();
  bring(bench, 11, 2, digest_of(2));
  bench.lose(11);
  bench.pass(3min, 11);
  BOOST_TEST(bench.state.view.members.empty());
  BOOST_TEST(bench.finished() == nullptr);
  for (const std::uint64_t peer : {12U, 13U}) bring(bench, peer, 2, digest_of(2));
  BOOST_TEST(bench.sent<BeginStep>().size() == 2U);
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_is_killed_then_goes_on_waiting_for_the_checkpoint) {
  auto bench = rolled_back();
  BOOST_REQUIRE(bench.decided);
  BOOST_TEST(std::ranges::all_of(bench.decided->commits, [](const Decided& each) { return each.lines.empty(); }),
             "they are of what is void");
  bench.state = restore({bench.state.options, bench.state.plan}, *bench.decided, bench.now);
  bench.pass(5s);
  BOOST_TEST(bench.finished() == nullptr);
  for (const std::uint64_t peer : {11U, 12U}) bring(bench, peer, 2, digest_of(2));
  BOOST_TEST(bench.sent<BeginStep>().size() == 2U);
}

BOOST_AUTO_TEST_CASE(who_was_away_meanwhile_hears_of_the_rollback_and_not_that_it_was_evicted_until_a_step_has_begun) {
  auto bench = rolled_back();
  auto hello = Bench::hello_of(2);
  hello.returning = true;
  bench.hear(2, hello);
  BOOST_CHECK(bench.dismissed(2) == ErrorName::RolledBack);
  hello = Bench::hello_of(5);  // lost, but its disk has the checkpoint
  hello.returning = true;
  bench.hear(5, hello);
  BOOST_CHECK(bench.dismissed(5) == ErrorName::RolledBack);
  for (const std::uint64_t peer : {11U, 12U}) bring(bench, peer, 2, digest_of(2));
  BOOST_REQUIRE((bench.state.phase == Phase::Training));
  bench.hear(5, hello);
  BOOST_CHECK(bench.dismissed(5) == ErrorName::Evicted);
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_was_killed_before_anybody_heard_of_it_tells_them_then) {
  auto bench = rolled_back();
  BOOST_REQUIRE(bench.decided);
  bench.state = restore({bench.state.options, bench.state.plan}, *bench.decided, bench.now);
  auto hello = Bench::hello_of(2);
  hello.returning = true;
  bench.hear(2, hello);
  BOOST_CHECK(bench.dismissed(2) == ErrorName::RolledBack);
  bench.hear(3, Heartbeat{});
  BOOST_CHECK(bench.dismissed(3) == ErrorName::RolledBack);
}

BOOST_AUTO_TEST_CASE(who_falls_silent_while_the_checkpoint_is_waited_for_is_told_to_bring_it) {
  auto bench = rolled_back();
  bring(bench, 11, 2, digest_of(2));
  bench.greet(12);
  bench.pass(20s, 12);
  BOOST_REQUIRE(!bench.state.peers.contains(PeerId{12}));
  BOOST_CHECK(bench.dismissed(12) == ErrorName::RolledBack);
}

BOOST_AUTO_TEST_SUITE_END()
