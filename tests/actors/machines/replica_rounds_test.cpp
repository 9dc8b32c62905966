// Owns the tests of replicas whose state has fragments, and of those that are late.
#include <boost/test/unit_test.hpp>

#include "actors/coordinator/attempts.hpp"
#include "kernels/digest/digest.hpp"
#include "replica_bench.hpp"

BOOST_AUTO_TEST_SUITE(replica_rounds)

using namespace prime;
using namespace prime::coordinator;

namespace {

/// What a shard holds of a fragment at a version; no two alike.
Digest part_of(std::uint64_t peer, std::uint32_t fragment, std::uint64_t version) {
  return {version + 1, 10 * (fragment + 1) + shard_of(peer)};
}
Digest state_of(std::uint64_t peer, std::uint64_t first, std::uint64_t second) {
  return kernels::digest_of_parts(std::vector{part_of(peer, 0, first), part_of(peer, 1, second)});
}

/// Two replicas of two shards, in two fragments.
struct Bench : ReplicaBench {
  Bench() {
    state.options.fragments = 2;
    state.plan.in_flight = 2;
    state.rounds.resize(2);
    for (const auto peer : ALL) enter(peer);
    BOOST_REQUIRE(state.phase == Phase::Training);
  }
  void enter(std::uint64_t peer) {
    greet(peer);
    hear(peer, Seated{.revision = {},
                      .state = state_of(peer, 0, 0),
                      .layout = Digest{7, shard_of(peer)},
                      .elements = 100,
                      .trainer_pid = 1,
                      .parts = {part_of(peer, 0, 0), part_of(peer, 1, 0)}});
  }
  OperationId operation(std::uint32_t fragment) { return state.rounds[fragment].operation.value().id; }
  void vote(std::uint64_t peer, std::uint32_t fragment) {
    const auto& round = state.rounds[fragment];
    hear(peer, Vote{operation(fragment), part_of(peer, fragment, round.step.value), 1, 1});
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(each_fragment_is_committed_when_all_shards_of_all_replicas_have_voted_for_theirs) {
  Bench bench;
  bench.ready_all(ALL);
  BOOST_REQUIRE(bench.state.in_flight() == 2);
  for (const auto peer : {10U, 20U}) bench.vote(peer, 1);
  for (const auto peer : ALL) {
    BOOST_TEST(bench.told<Commit>().empty());
    bench.vote(peer, 0);
  }
  BOOST_TEST(bench.told<Commit>() == ALL);
  for (const auto peer : ALL) {
    const auto& commit = bench.told<Commit>(peer);
    BOOST_TEST(commit.fragment == 0U);
    BOOST_TEST((commit.part == part_of(peer, 0, 1)));
    BOOST_TEST((commit.state == state_of(peer, 1, 0)));
  }
  bench.vote(11, 1);
  bench.vote(21, 1);
  BOOST_TEST((bench.told<Commit>(21).part == part_of(21, 1, 1)));
  BOOST_TEST((bench.told<Commit>(10).state == state_of(10, 1, 1)));
  BOOST_TEST(bench.told<Commit>(10).completes);
  BOOST_TEST(bench.state.made.value == 1U);
}

BOOST_AUTO_TEST_CASE(a_replica_that_divides_one_shard_in_another_way_is_refused) {
  Bench bench;
  bench.greet(30);
  bench.hear(30, Seated{.revision = {},
                        .state = state_of(30, 0, 0),
                        .layout = Digest{7, 0},
                        .elements = 100,
                        .trainer_pid = 1,
                        .parts = {part_of(30, 0, 0), part_of(30, 1, 0)}});
  bench.greet(31);
  bench.hear(31, Seated{.revision = {}, .state = Digest{4, 4}, .layout = Digest{7, 1}, .elements = 100, .trainer_pid = 1, .parts = {}});
  BOOST_TEST((bench.told<Dismissed>(30).cause.name == ErrorName::LayoutMismatch));
  BOOST_TEST((bench.told<Dismissed>(31).cause.name == ErrorName::LayoutMismatch));
}

BOOST_AUTO_TEST_CASE(who_is_back_before_the_others_of_its_replica_hears_the_commit_that_it_missed_before_the_next_one) {
  Bench bench;
  bench.ready_all(ALL);
  for (const auto peer : ALL) bench.vote(peer, 1);  // the last of them is heard, and 10 is gone before it hears of the commit
  for (const auto peer : {10U, 11U, 20U}) bench.vote(peer, 0);
  bench.cut(11);
  bench.returns(10);
  BOOST_TEST((bench.told<Commit>(10).part == part_of(10, 1, 1)));
  BOOST_TEST(bench.told<Commit>(10).revision.value == 1U);
  bench.vote(21, 0);
  BOOST_TEST(bench.told<Commit>(10).revision.value == 2U);
  BOOST_TEST((bench.told<Commit>(10).state == state_of(10, 1, 1)));
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_was_killed_knows_the_fragments_of_all_shards) {
  Bench bench;
  bench.ready_all(ALL);
  for (const auto peer : ALL) bench.vote(peer, 0);
  auto options = Options{bench.state.options, bench.state.plan};
  bench.state = restore(options, *bench.disk, bench.now);
  for (const auto peer : ALL) bench.returns(peer);
  BOOST_TEST((bench.told<Commit>(21).state == state_of(21, 1, 0)));
  bench.ready_all(ALL);
  for (const auto peer : ALL) bench.vote(peer, 1);
  BOOST_TEST((bench.told<Commit>(20).state == state_of(20, 1, 1)));
}

BOOST_AUTO_TEST_CASE(a_replica_is_late_when_one_of_its_shards_is_and_brings_the_work_of_all_of_them_later) {
  auto bench = training(THREE);
  bench.state.plan.quorum = 2;
  bench.state.plan.min_peers = 2;
  bench.ready_all({10, 11, 30, 20, 21});
  BOOST_REQUIRE(bench.state.phase == Phase::Reducing);
  BOOST_TEST(bench.journaled<events::PeerLate>().size() == 1U);
  for (const auto peer : THREE) bench.vote(peer);
  BOOST_TEST(bench.told<BeginStep>() == (Ids{10, 11, 20, 21}));
  bench.hear(31, Ready{OuterStep{1}, Revision{}, 100, 10, Real{1.0}, {}, Real{1.0}, 1});
  bench.ready_all({10, 11});
  BOOST_REQUIRE(bench.state.phase == Phase::Reducing);
  const std::vector<Contribution> expected{{PeerId{11}, 200}, {PeerId{21}, 0}, {PeerId{31}, 200}};
  BOOST_TEST((bench.told<StartReduce>(21).contributions.list() == expected));
}

namespace {

/// The same replicas; each trainer publishes one fragment after the other.
struct Publishing : Bench {
  explicit Publishing(bool overlap = false) {
    state.plan.streams = true;
    state.plan.overlap = overlap;
    state.plan.min_peers = overlap ? 2 : 1;
  }
  void publish(std::uint64_t peer, std::uint32_t fragment, std::uint32_t attempt = 0, std::uint64_t base = 0, std::uint64_t step = 1) {
    hear(peer, Ready{OuterStep{step}, Revision{base}, 100, 10, Real{1.0}, {}, Real{1.0}, 1, attempt, {fragment}});
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_replica_makes_anew_what_not_all_of_it_have_published_and_nothing_else) {
  Publishing bench;
  for (const auto peer : ALL) bench.publish(peer, 0);
  BOOST_REQUIRE(bench.state.in_flight() == 1);
  bench.publish(10, 1);
  bench.hear(11, TrainerRestarted{OuterStep{1}, 0});
  BOOST_TEST(bench.told<BeginStep>() == (Ids{10, 11}));
  BOOST_TEST(bench.told<BeginStep>(10).fragments == (Fragments{1}), boost::test_tools::per_element());
  for (const auto peer : ALL) bench.vote(peer, 0);
  BOOST_TEST(bench.told<Commit>() == ALL);
  for (const auto peer : {10U, 11U}) bench.publish(peer, 1, 1);
  for (const auto peer : {20U, 21U}) bench.publish(peer, 1);
  const std::vector<Contribution> expected{{PeerId{11}, 200}, {PeerId{21}, 200}};
  BOOST_TEST((bench.told<StartReduce>(21).contributions.list() == expected));
}

BOOST_AUTO_TEST_CASE(a_replica_whose_attempt_a_restarted_coordinator_has_forgotten_begins_anew_together) {
  Publishing bench;
  auto options = Options{bench.state.options, bench.state.plan};
  bench.publish(11, 0);
  bench.hear(10, TrainerRestarted{OuterStep{1}, 0});  // and dies before 11 hears of it
  bench.state = restore(options, *bench.disk, bench.now);
  for (const auto peer : ALL) bench.returns(peer);
  bench.publish(11, 0);
  bench.publish(10, 0, 1);
  BOOST_TEST(bench.told<BeginStep>() == (Ids{10, 11}));
  BOOST_TEST(bench.told<BeginStep>(11).attempt == 2U);
  bench.publish(11, 0);  // on its way since before that
  BOOST_TEST(bench.told<BeginStep>(11).attempt == 2U);
  for (const auto peer : {20U, 21U}) bench.publish(peer, 0);
  bench.publish(10, 0, 2);
  BOOST_TEST(bench.told<StartReduce>().empty());
  bench.publish(11, 0, 2);
  BOOST_TEST(bench.told<StartReduce>() == ALL);
}

BOOST_AUTO_TEST_CASE(who_says_that_it_is_at_an_absurd_attempt_is_sent_away) {
  Publishing bench;
  bench.publish(10, 0, attempts::MAX_ATTEMPTS + 1);
  BOOST_TEST((bench.told<Dismissed>(10).cause.name == ErrorName::ProtocolViolation));
  BOOST_TEST(bench.told<Dismissed>() == (Ids{10, 11}));
  bench.hear(21, TrainerRestarted{OuterStep{1}, std::uint32_t(-1)});
  BOOST_TEST((bench.told<Dismissed>(21).cause.name == ErrorName::ProtocolViolation));
}

BOOST_AUTO_TEST_CASE(a_whole_replica_trains_for_the_fragments_of_a_closed_step_that_too_few_are_left_of) {
  Publishing bench{true};
  for (const auto peer : ALL) bench.publish(peer, 0);
  for (const auto peer : ALL) bench.vote(peer, 0);
  for (const auto peer : ALL) bench.publish(peer, 1, 0);
  BOOST_REQUIRE(bench.state.has_closed());
  bench.lose(20);
  for (const std::uint64_t peer : {30U, 31U}) bench.enter(peer);
  for (const std::uint64_t peer : {30U, 31U})
    bench.hear(peer, Fetched{Revision{1}, state_of(peer, 1, 0), {part_of(peer, 0, 1), part_of(peer, 1, 0)}});
  bench.on(Tick{});
  const auto begun = bench.sent<BeginStep>();
  BOOST_REQUIRE(!begun.empty() && begun.back().first == 31);
  const auto& begin = begun.back().second;
  BOOST_TEST((begin.step == OuterStep{1} && begin.contribute && !begin.overlaps && begin.rank == 1));
  BOOST_TEST(begin.fragments == (Fragments{1}), boost::test_tools::per_element());
  BOOST_TEST(ids_of(begin.view) == (Ids{11, 31}));
  // One of its trainers dies meanwhile.
  bench.publish(30, 1, 0, 1);
  bench.hear(31, TrainerRestarted{OuterStep{1}, 0});
  BOOST_TEST(bench.told<BeginStep>() == (Ids{30, 31}));
  BOOST_TEST(bench.told<BeginStep>(30).fragments == (Fragments{1}), boost::test_tools::per_element());
  bench.publish(30, 1, 1, 1);
  bench.cut(31);
  bench.returns(31);
  BOOST_TEST((bench.told<BeginStep>(31).attempt == 1U && bench.told<BeginStep>(31).step == OuterStep{1}), "which it may not have heard");
  bench.publish(31, 1, 1, 1);
  BOOST_TEST(bench.told<StartReduce>() == (Ids{10, 11, 30, 31}));
}

BOOST_AUTO_TEST_CASE(when_nobody_is_left_of_a_closed_step_the_others_leave_the_next_one_and_train_for_it) {
  Publishing bench{true};
  bench.state.plan.min_peers = 1;
  const Ids others{30, 31, 40, 41};
  for (const auto peer : others) bench.enter(peer);
  for (const auto peer : others) bench.hear(peer, Fetched{Revision{}, state_of(peer, 0, 0), {part_of(peer, 0, 0), part_of(peer, 1, 0)}});
  for (const auto peer : others) bench.ready(peer, 0);  // they adopt what the others make of step 1
  for (const std::uint32_t fragment : {0U, 1U})
    for (const auto peer : ALL) bench.publish(peer, fragment);
  std::set<std::uint64_t> ranges;
  for (const auto peer : others) ranges.insert(bench.told<BeginStep>(peer).first_sample);
  bench.lose(10);
  bench.hear(31, TrainerRestarted{OuterStep{2}, 0});
  bench.publish(30, 0, 1, 0, 2);
  bench.lose(20);
  std::set<std::uint64_t> again;
  for (const auto peer : others) {
    const auto begin = bench.told<BeginStep>(peer);
    BOOST_TEST((begin.step == OuterStep{1} && begin.contribute && begin.attempt == 0 && begin.fragments.empty()));
    again.insert(begin.first_sample);
  }
  BOOST_TEST(again == std::set<std::uint64_t>({0, 10}), boost::test_tools::per_element());
  for (const auto range : ranges) BOOST_TEST(bench.state.given_back.contains(range));
  bench.publish(30, 1, 1, 0, 2);
  BOOST_TEST(!bench.state.rounds[1].brings(PeerId{30}), "which was on its way");
  for (const auto peer : others) bench.publish(peer, 0);
  BOOST_TEST(bench.told<StartReduce>() == others);
  BOOST_TEST((bench.told<StartReduce>(30).step == OuterStep{1}));
}

BOOST_AUTO_TEST_SUITE_END()
