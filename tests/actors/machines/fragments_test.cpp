// Owns the tests of a state in fragments: each is reduced, voted on and committed by itself, and a step is made when all have made it.
#include <boost/test/unit_test.hpp>

#include "actors/peer/peer_machine.hpp"
#include "actors/peer/trainer_machine.hpp"
#include "kernels/digest/digest.hpp"
#include "tests/actors/machines/coordinator_bench.hpp"
#include "tests/actors/machines/peer_bench.hpp"

BOOST_AUTO_TEST_SUITE(fragments)

using namespace prime;

namespace {

/// Of a fragment at a version; no two alike.
Digest part(std::uint32_t fragment, std::uint64_t version) { return {fragment + 1, version + 100}; }
Digest whole(std::uint64_t first, std::uint64_t second) { return kernels::digest_of_parts(std::vector{part(0, first), part(1, second)}); }

Seated holding(std::uint64_t first, std::uint64_t second, Revision revision = {}) {
  return Seated{revision, whole(first, second), coordinator::LAYOUT, 3, 1, {}, {part(0, first), part(1, second)}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(coordinator_side)

using namespace prime::coordinator;

namespace {

struct Halves : Bench {
  explicit Halves(std::uint32_t quorum = 2, std::uint64_t outer_steps = 3, std::uint32_t in_flight = 1) : Bench(2, quorum, outer_steps) {
    Options options{state.options, state.plan};
    options.fragments = 2;
    options.in_flight = in_flight;
    state = initial(options, now);
  }
  void seat_with(std::uint64_t peer, const Seated& seated) {
    greet(peer);
    hear(peer, seated);
  }
  /// All of them hold the same state from the start.
  Halves& seat_all(std::uint64_t peers) {
    for (std::uint64_t peer = 1; peer <= peers; ++peer) seat_with(peer, holding(0, 0));
    return *this;
  }
  void vote_all(std::uint64_t peers, const Digest& digest) {
    for (std::uint64_t peer = 1; peer <= peers; ++peer) vote(peer, digest);
  }
  [[nodiscard]] std::vector<Contribution> contributions() const { return sent<StartReduce>().at(0).second.contributions.list(); }
};

}  // namespace

namespace {

Lengths lengths(std::initializer_list<double> values) {
  Lengths list;
  for (const double value : values) list.emplace_back(value);
  return list;
}

/// What it has made of both fragments, or of some, is so long, tensor by tensor.
Ready radial(std::uint64_t weight, std::vector<Lengths> of, Fragments fragments = {}) {
  return {OuterStep{1}, Revision{}, weight, 10, Real{1.0}, {}, Real{1.0}, 1, 0, std::move(fragments), std::move(of)};
}

}  // namespace

BOOST_AUTO_TEST_CASE(lengths_are_averaged_by_weight_for_each_fragment) {
  Halves bench;
  bench.seat_all(2);
  bench.hear(1, radial(100, {lengths({1, 8}), lengths({3})}));
  bench.hear(2, radial(300, {lengths({5, 0}), lengths({7})}));
  BOOST_TEST((bench.sent<StartReduce>().at(0).second.radii == lengths({4, 2})));
  bench.vote_all(2, part(0, 1));
  const auto second = bench.sent<StartReduce>().at(0).second;
  BOOST_TEST(second.fragment == 1U);
  BOOST_TEST((second.radii == lengths({6})));
}

BOOST_AUTO_TEST_CASE(who_brings_nothing_has_no_length_in_them) {
  Halves bench;
  bench.seat_all(2);
  bench.seat_with(3, holding(0, 0));  // in the middle of the step
  bench.hear(3, radial(0, {}));
  bench.hear(1, radial(100, {lengths({1}), lengths({3})}));
  bench.hear(2, radial(100, {lengths({2}), lengths({3})}));
  const auto started = bench.sent<StartReduce>().at(0).second;
  BOOST_TEST(started.contributions.size() == 3U);
  BOOST_TEST((started.radii == lengths({1.5})));
}

BOOST_AUTO_TEST_CASE(lengths_that_are_none_or_do_not_fit_those_of_the_others_are_refused_by_name) {
  const auto infinite = std::numeric_limits<double>::infinity();
  for (const auto& wrong : std::vector<std::vector<Lengths>>{
           {lengths({1}), lengths({3})}, {}, {lengths({1, 1})}, {lengths({1, -1}), lengths({3})}, {lengths({1, infinite}), lengths({3})}}) {
    Halves bench;
    bench.seat_all(2);
    bench.hear(1, radial(100, {lengths({1, 8}), lengths({3})}));
    bench.hear(2, radial(300, wrong));
    BOOST_TEST(bench.state.peers.count(PeerId{2}) == 0U);
    BOOST_TEST(bench.reason == "lengths that do not fit");
  }
}

BOOST_AUTO_TEST_CASE(lengths_of_some_fragments_are_told_with_those) {
  Halves bench;
  bench.seat_all(2);
  bench.hear(1, radial(100, {lengths({3})}, {1}));
  bench.hear(1, radial(100, {lengths({1, 8})}, {0}));
  bench.hear(2, radial(100, {lengths({5, 0}), lengths({7})}));
  BOOST_TEST((bench.sent<StartReduce>().at(0).second.radii == lengths({3, 4})));
}

BOOST_AUTO_TEST_CASE(a_run_goes_on_from_a_state_that_was_saved_between_two_fragments) {
  Halves bench;
  Options options{bench.state.options, bench.state.plan};
  options.origin = Origin{Revision{3}, OuterStep{1}, whole(2, 1), 16, 300, {OuterStep{2}, OuterStep{1}}};
  bench.state = initial(options, bench.now);
  for (const std::uint64_t peer : {1U, 2U}) bench.seat_with(peer, holding(2, 1, Revision{3}));
  bench.ready(1, 100);
  bench.ready(2, 200);
  const auto reduce = bench.told<StartReduce>(1);
  BOOST_TEST(reduce.fragment == 1U);
  BOOST_TEST((reduce.step == OuterStep{2} && reduce.base == Revision{3}), "the fragment that lacks the step, and not both");
}

BOOST_AUTO_TEST_CASE(a_step_is_an_operation_and_a_commit_for_each_fragment) {
  Halves bench;
  bench.seat_all(2);
  bench.ready(1, 100);
  bench.ready(2, 200);
  const auto first = bench.told<StartReduce>(1);
  BOOST_TEST(first.fragment == 0U);
  bench.vote_all(2, part(0, 1));
  const auto commit = bench.told<Commit>(2);
  BOOST_CHECK((commit.part == part(0, 1) && commit.state == whole(1, 0) && commit.revision == Revision{1} && !commit.completes));
  BOOST_TEST(bench.journaled<events::OuterStepCommitted>().empty());
  BOOST_TEST(bench.sent<BeginStep>().empty());
  const auto second = bench.told<StartReduce>(1);
  BOOST_CHECK((second.fragment == 1 && second.step == first.step && second.base == Revision{1} && first.op < second.op));
  BOOST_CHECK(second.contributions == first.contributions);

  bench.vote_all(2, part(1, 1));
  BOOST_CHECK(bench.told<Commit>(1).completes);
  const auto rounds = bench.journaled<events::RoundCommitted>();
  BOOST_REQUIRE(rounds.size() == 1U);
  BOOST_CHECK((rounds[0].fragment == 1 && rounds[0].version == OuterStep{1} && rounds[0].digest == part(1, 1)));
  BOOST_TEST(rounds[0].weights == (std::vector<std::uint64_t>{100, 200}), boost::test_tools::per_element());
  const auto steps = bench.journaled<events::OuterStepCommitted>();
  BOOST_REQUIRE(steps.size() == 1U);
  BOOST_CHECK((steps[0].outer_step == OuterStep{1} && steps[0].revision == Revision{2} && steps[0].digest == whole(1, 1)));
  BOOST_TEST(steps[0].tokens == 300U);      // once
  BOOST_TEST(steps[0].wire_bytes == 4U);    // of both operations
  BOOST_TEST(steps[0].next_sample == 20U);  // once
  const auto next = bench.told<BeginStep>(1);
  BOOST_CHECK((next.step == OuterStep{2} && next.base == Revision{2}));
}

BOOST_AUTO_TEST_CASE(what_one_fragment_has_stands_when_a_member_is_lost_before_the_next) {
  Halves bench{3};
  bench.seat_all(3);
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.ready(peer, 100);
  bench.vote_all(3, part(0, 1));
  bench.lose(3);
  const auto again = bench.told<StartReduce>(1);
  BOOST_TEST(again.fragment == 1U);
  BOOST_CHECK(again.contributions == (std::vector<Contribution>{{PeerId{1}, 100}, {PeerId{2}, 100}}));
  BOOST_TEST(bench.sent<BeginStep>().empty());
  bench.vote_all(2, part(1, 1));
  BOOST_TEST(bench.journaled<events::OuterStepCommitted>().at(0).weight == 200U);
  BOOST_CHECK(bench.state.digest == whole(1, 1));
}

/// It is ready when the first fragment is committed without it: the second takes its work in this step, the first one in the next.
BOOST_AUTO_TEST_CASE(late_work_is_in_each_fragment_once) {
  Halves bench{3};
  bench.state.plan.quorum = 2;
  bench.state.plan.grace = 1s;
  bench.seat_all(3);
  bench.ready(1, 100);
  bench.ready(2, 100);
  bench.pass(1s);
  BOOST_CHECK(bench.contributions() == (std::vector<Contribution>{{PeerId{1}, 100}, {PeerId{2}, 100}, {PeerId{3}, 0}}));
  bench.hear(3, Ready{OuterStep{1}, Revision{}, 300, 10, Real{1.0}, {}, Real{1.0}, 1});
  bench.vote_all(3, part(0, 1));
  BOOST_CHECK(bench.contributions() == (std::vector<Contribution>{{PeerId{1}, 100}, {PeerId{2}, 100}, {PeerId{3}, 300}}));
  bench.vote_all(3, part(1, 1));
  BOOST_TEST(bench.told<BeginStep>() == (std::vector<std::uint64_t>{1, 2}), boost::test_tools::per_element());
  BOOST_TEST((bench.probes == std::vector{Probe::WorkInSomeFragments}));

  bench.ready(1, 101);
  bench.ready(2, 101);
  BOOST_CHECK(bench.contributions() == (std::vector<Contribution>{{PeerId{1}, 101}, {PeerId{2}, 101}, {PeerId{3}, 300}}));
  bench.vote_all(3, part(0, 2));
  BOOST_CHECK(bench.contributions() == (std::vector<Contribution>{{PeerId{1}, 101}, {PeerId{2}, 101}, {PeerId{3}, 0}}));
  bench.vote_all(3, part(1, 2));
  BOOST_TEST(bench.told<BeginStep>() == (std::vector<std::uint64_t>{1, 2, 3}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_comes_back_between_two_fragments_goes_on_there) {
  Halves bench;
  bench.seat_all(2);
  bench.ready(1, 100);
  bench.ready(2, 100);
  bench.vote_all(2, part(0, 1));
  BOOST_REQUIRE(bench.decided);
  bench.state = restore({bench.state.options, bench.state.plan}, *bench.decided, bench.now);
  BOOST_TEST(bench.state.is_between_fragments());
  for (std::uint64_t peer = 1; peer <= 2; ++peer) {
    auto hello = Bench::hello_of(peer);
    hello.returning = true;
    bench.hear(peer, hello);
    const auto begin = bench.told<BeginStep>(peer);
    BOOST_CHECK((begin.step == OuterStep{1} && begin.base == Revision{1} && begin.contribute));
  }
  // Both say again what they trained from.
  for (std::uint64_t peer = 1; peer <= 2; ++peer) bench.hear(peer, Ready{OuterStep{1}, Revision{}, 100, 10, Real{1.0}, {}, Real{1.0}, 1});
  BOOST_TEST(bench.told<StartReduce>(1).fragment == 1U);
  bench.vote_all(2, part(1, 1));
  BOOST_CHECK(bench.state.digest == whole(1, 1));
  BOOST_TEST(bench.journaled<events::OuterStepCommitted>().size() == 1U);
}

BOOST_AUTO_TEST_CASE(who_trains_after_all_in_the_middle_of_a_step_does_so_for_the_fragments_that_lack_it) {
  Halves bench;
  bench.seat_all(4);  // the last two are too late for this step
  for (std::uint64_t peer = 1; peer <= 4; ++peer) bench.ready(peer, peer <= 2 ? 100 : 0);
  bench.vote_all(4, part(0, 1));
  bench.lose(1);
  BOOST_TEST((bench.probes == std::vector{Probe::PromotedBetweenFragments}));
  BOOST_TEST(bench.told<BeginStep>() == (std::vector<std::uint64_t>{3, 4}), boost::test_tools::per_element());
  BOOST_TEST(bench.told<BeginStep>(3).fragments == (Fragments{1}), boost::test_tools::per_element());
  bench.lose(2);

  // A coordinator that takes over tells them the same.
  BOOST_REQUIRE(bench.decided);
  bench.state = restore({bench.state.options, bench.state.plan}, *bench.decided, bench.now);
  const auto both = [&](const auto& act) {
    act(3);
    act(4);
  };
  both([&](std::uint64_t peer) {
    auto hello = Bench::hello_of(peer);
    hello.returning = true;
    bench.hear(peer, hello);
    const auto begin = bench.told<BeginStep>(peer);
    BOOST_TEST((begin.contribute && begin.step == OuterStep{1} && begin.fragments == Fragments{1}));
  });
  both([&](std::uint64_t peer) { bench.hear(peer, Ready{OuterStep{1}, Revision{1}, 100, 10, Real{1.0}, {}, Real{1.0}, 1, 0, {1}}); });
  both([&](std::uint64_t peer) { bench.vote(peer, part(1, 1)); });
  BOOST_TEST(bench.told<BeginStep>() == (std::vector<std::uint64_t>{3, 4}), boost::test_tools::per_element());
  BOOST_TEST((bench.told<BeginStep>(3).step == OuterStep{2} && bench.told<BeginStep>(3).fragments.empty()));
}

BOOST_AUTO_TEST_CASE(who_divides_the_state_otherwise_is_refused_by_name) {
  Halves bench;
  auto undivided = holding(0, 0);
  undivided.parts.clear();
  bench.seat_with(1, undivided);
  BOOST_CHECK(bench.dismissed(1) == ErrorName::LayoutMismatch);
  auto untrue = holding(0, 0);
  untrue.parts[1] = Digest{9, 9};
  bench.seat_with(2, untrue);
  BOOST_CHECK(bench.dismissed(2) == ErrorName::LayoutMismatch);
  bench.seat_with(3, holding(0, 0));
  BOOST_TEST(!bench.dismissed(3).has_value());
}

/// Its founder goes after another one has fetched: that one's parts are those of what it fetched, not those that it was born with.
BOOST_AUTO_TEST_CASE(who_founds_with_what_it_fetched_tells_the_parts_of_that) {
  Halves bench{3};
  bench.seat_with(1, holding(0, 0));
  bench.seat_with(2, holding(7, 7));
  bench.hear(2, Fetched{Revision{}, whole(0, 0), {part(0, 0), part(1, 0)}});
  bench.lose(1);
  BOOST_CHECK(bench.state.digest == whole(0, 0));
  BOOST_TEST((bench.state.shards.front().parts == std::vector{part(0, 0), part(1, 0)}));
}

BOOST_AUTO_TEST_CASE(one_broken_link_is_not_a_failure_for_each_fragment) {
  Halves bench;
  bench.seat_all(2);
  bench.ready(1, 100);
  bench.ready(2, 100);
  const auto fail_once = [&] {
    bench.hear(1, ReduceFailed{bench.state.operation, PeerId{2}, Error{ErrorName::LaneBroken, "reset"}});
    bench.pass(10s);
  };
  fail_once();
  fail_once();
  bench.vote_all(2, part(0, 1));
  BOOST_TEST(bench.told<StartReduce>(1).fragment == 1U);
  fail_once();
  fail_once();
  BOOST_TEST((bench.state.tries.link_failures.at({PeerId{1}, PeerId{2}}) == MAX_LINK_FAILURES - 1));
  BOOST_TEST(bench.state.view.members.size() == 2U);
}

namespace {

/// Both halves of the first step are reduced at once.
struct BothHalves : Halves {
  BothHalves() : Halves(2, 3, 2) {
    seat_all(2);
    ready(1, 100);
    ready(2, 200);
    for (const auto& [peer, message] : sent<StartReduce>())
      if (peer == 1) operations.push_back(message.op);
    BOOST_REQUIRE(operations.size() == 2U);
  }
  void votes(std::uint64_t peer, std::uint32_t fragment) { hear(peer, Vote{operations[fragment], part(fragment, 1), 1, 1}); }

  std::vector<OperationId> operations;  ///< by fragment
};

}  // namespace

BOOST_AUTO_TEST_CASE(several_fragments_are_reduced_at_once_and_commit_in_the_order_of_their_last_votes) {
  BothHalves bench;
  BOOST_TEST(bench.operations[0].tag.value != bench.operations[1].tag.value, "or one would end the other in the data plane");
  bench.votes(1, 0);
  for (const std::uint64_t peer : {1U, 2U}) bench.votes(peer, 1);
  const auto second = bench.told<Commit>(2);
  BOOST_CHECK((second.fragment == 1U && second.revision == Revision{1} && second.state == whole(0, 1) && !second.completes));
  BOOST_CHECK(bench.state.phase == coordinator::Phase::Reducing);
  bench.votes(2, 0);
  const auto first = bench.told<Commit>(1);
  BOOST_CHECK((first.fragment == 0U && first.revision == Revision{2} && first.state == whole(1, 1) && first.completes));
  BOOST_TEST(bench.journaled<events::OuterStepCommitted>().size() == 1U);
  BOOST_TEST(bench.sent<BeginStep>().size() == 2U);
}

BOOST_AUTO_TEST_CASE(an_operation_that_fails_is_void_by_itself_and_several_over_one_link_are_one_failure) {
  BothHalves bench;
  bench.hear(1, ReduceFailed{bench.operations[1], PeerId{2}, Error{ErrorName::LaneBroken, "reset"}});
  BOOST_REQUIRE(bench.journaled<events::OuterStepAborted>().size() == 1U);
  BOOST_TEST((bench.journaled<events::OuterStepAborted>()[0].operation == bench.operations[1]));
  BOOST_TEST(bench.sent<Abort>().size() == 2U);
  BOOST_TEST(bench.state.in_flight() == 1U);
  BOOST_CHECK(bench.state.phase == coordinator::Phase::Reducing);
  const auto retry_at = bench.state.tries.retry_at;
  bench.hear(2, ReduceFailed{bench.operations[0], PeerId{1}, Error{ErrorName::LaneBroken, "reset"}});
  BOOST_TEST(bench.journaled<events::OuterStepAborted>().at(0).alike.value() == 1U);
  BOOST_TEST((bench.state.tries.link_failures.at({PeerId{1}, PeerId{2}}) == 1U && bench.state.tries.retry_at == retry_at));
  BOOST_TEST(bench.state.in_flight() == 0U);
  bench.pass(10s);
  BOOST_TEST(bench.state.in_flight() == 2U);
}

BOOST_AUTO_TEST_CASE(the_one_beside_it_is_committed_and_the_other_is_reduced_from_there) {
  BothHalves bench;
  bench.hear(1, ReduceFailed{bench.operations[1], PeerId{2}, Error{ErrorName::LaneBroken, "reset"}});
  for (const std::uint64_t peer : {1U, 2U}) bench.votes(peer, 0);
  BOOST_CHECK((bench.told<Commit>(1).revision == Revision{1} && !bench.told<Commit>(1).completes));
  bench.pass(10s);
  const auto again = bench.told<StartReduce>(1);
  BOOST_CHECK((again.fragment == 1U && again.base == Revision{1} && again.op > bench.operations[1]));
  bench.vote_all(2, part(1, 1));
  BOOST_CHECK((bench.told<Commit>(2).revision == Revision{2} && bench.told<Commit>(2).completes));
}

BOOST_AUTO_TEST_CASE(where_a_member_goes_for_it_all_are_void) {
  BothHalves bench;
  bench.hear(1, ReduceFailed{bench.operations[1], PeerId{}, Error{ErrorName::ReduceMismatch, "other tensors"}});
  BOOST_TEST(bench.journaled<events::OuterStepAborted>().size() == 2U);
  BOOST_TEST(bench.state.view.members.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_member_that_was_away_hears_every_commit_that_it_missed_in_their_order) {
  BothHalves bench;
  bench.votes(2, 0);
  bench.votes(2, 1);
  bench.on(ConnectionLost{PeerId{2}, "reset"});
  bench.votes(1, 1);
  bench.greet(2);
  std::vector<std::uint32_t> heard;
  for (const auto& [peer, commit] : bench.sent<Commit>())
    if (peer == 2) heard.push_back(commit.fragment);
  BOOST_TEST(heard == std::vector<std::uint32_t>{1}, boost::test_tools::per_element());
  BOOST_TEST(bench.state.in_flight() == 1U, "it has voted on the other one, which goes on");
  bench.on(ConnectionLost{PeerId{2}, "reset"});
  bench.votes(1, 0);
  bench.greet(2);
  heard.clear();
  for (const auto& [peer, commit] : bench.sent<Commit>())
    if (peer == 2) heard.push_back(commit.fragment);
  BOOST_TEST(heard == (std::vector<std::uint32_t>{1, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_is_killed_keeps_the_commits_of_all_fragments_and_no_operation) {
  BothHalves bench;
  for (const std::uint64_t peer : {1U, 2U}) bench.votes(peer, 1);
  BOOST_REQUIRE(bench.decided);
  bench.state = restore({bench.state.options, bench.state.plan}, *bench.decided, bench.now);
  BOOST_TEST(bench.state.in_flight() == 0U);
  BOOST_REQUIRE(bench.state.rounds[1].last.has_value());
  BOOST_TEST((bench.state.rounds[1].last->commit.op == bench.operations[1]));
  for (const std::uint64_t peer : {1U, 2U}) bench.greet(peer);
  bench.hear(1, InDoubt{bench.operations[0]});
  BOOST_TEST((bench.told<Abort>(1).op == bench.operations[0]));
  bench.hear(2, InDoubt{bench.operations[1]});
  BOOST_TEST((bench.told<Commit>(2).op == bench.operations[1]));
}

BOOST_AUTO_TEST_CASE(who_is_back_and_whose_work_is_in_one_reduce_and_in_what_is_committed_is_asked_for_nothing) {
  Halves bench;
  bench.seat_all(2);
  for (const std::uint64_t peer : {1, 2}) bench.ready(peer, 100);
  bench.vote_all(2, part(0, 1));
  BOOST_TEST(bench.told<StartReduce>(2).fragment == 1U);
  bench.vote(2, part(1, 1));
  bench.cut(2);
  auto hello = Bench::hello_of(2);
  hello.returning = true;
  bench.hear(2, hello);
  BOOST_TEST(bench.sent<BeginStep>().empty(), "its work is known of each fragment that lacks it");
  bench.vote(1, part(1, 1));
  BOOST_TEST(bench.journaled<events::OuterStepCommitted>().size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(peer_side)

using namespace prime::peer;

namespace {

constexpr OperationId SECOND{Epoch{1}, Sequence{2}};

/// Has contributed to step 1, which has two fragments.
peer::Bench contributed() {
  peer::Bench bench;
  bench.seat();
  bench.on(Configured{2, 1s, 10s, 1, 1min, true, 1min});
  bench.begin().contribute();
  return bench;
}

void reduce(peer::Bench& bench, OperationId op, std::uint32_t fragment, Revision base, std::uint64_t own_weight = 100) {
  bench.hear(StartReduce{.op = op,
                         .step = OuterStep{1},
                         .base = base,
                         .view = peer::Bench::view(),
                         .contributions = std::vector<Contribution>{{PeerId{1}, own_weight}, {PeerId{2}, 50}},
                         .elements = 3,
                         .fragment = fragment});
}

void vote(peer::Bench& bench, OperationId op, std::uint32_t fragment) { bench.on(ReduceEnded{op, part(fragment, 1), PeerId{}, 1, 1}); }

Commit commit_of(OperationId op, std::uint32_t fragment, bool completes) {
  return {op, OuterStep{1}, Revision{completes ? 2U : 1U}, whole(1, completes ? 1 : 0), fragment, part(fragment, 1), completes};
}

}  // namespace

BOOST_AUTO_TEST_CASE(its_work_is_in_when_every_fragment_has_it) {
  auto bench = contributed();
  reduce(bench, OP, 0, {});
  vote(bench, OP, 0);
  bench.hear(commit_of(OP, 0, false));
  BOOST_TEST(bench.effect<ApplyCommit>().has_value());
  BOOST_TEST(!bench.effect<SaveState>().has_value(), "a checkpoint is of a whole step");
  BOOST_CHECK((bench.state.phase == prime::peer::Phase::Ready && bench.state.revision == Revision{1} && bench.state.digest == whole(1, 0)));
  reduce(bench, SECOND, 1, Revision{1});
  BOOST_CHECK(bench.effect<RunReduce>()->brings);
  vote(bench, SECOND, 1);
  bench.hear(commit_of(SECOND, 1, true));
  BOOST_TEST(bench.effect<SaveState>().has_value());
  BOOST_CHECK(bench.state.phase == prime::peer::Phase::Waiting);
}

BOOST_AUTO_TEST_CASE(who_has_no_work_left_for_the_other_fragments_reduces_them_without_weight) {
  auto bench = contributed();
  reduce(bench, OP, 1, {});
  vote(bench, OP, 1);
  bench.hear(Commit{OP, OuterStep{1}, Revision{1}, whole(1, 1), 1, part(1, 1), true});
  BOOST_CHECK(bench.state.phase == prime::peer::Phase::Ready);  // fragment 0 has yet to take it, in the next step
  const OperationId third{Epoch{1}, Sequence{3}};
  reduce(bench, SECOND, 0, Revision{1});
  vote(bench, SECOND, 0);
  bench.hear(Commit{SECOND, OuterStep{2}, Revision{2}, whole(2, 1), 0, part(0, 1), false});
  BOOST_CHECK(bench.state.phase == prime::peer::Phase::Waiting);
  reduce(bench, third, 1, Revision{2}, 0);
  BOOST_CHECK((bench.effect<RunReduce>() && !bench.effect<RunReduce>()->brings));
  bench.hear(Abort{third, "lost"});
  BOOST_CHECK(bench.state.phase == prime::peer::Phase::Waiting);
}

BOOST_AUTO_TEST_CASE(it_reduces_several_fragments_at_once_and_applies_each_when_it_is_committed) {
  auto bench = contributed();
  reduce(bench, OP, 0, {});
  reduce(bench, SECOND, 1, {});
  BOOST_CHECK(bench.effect<RunReduce>().has_value());
  vote(bench, SECOND, 1);
  BOOST_CHECK(phase_of(bench.state) == prime::peer::Phase::Reducing);
  vote(bench, OP, 0);
  BOOST_CHECK(phase_of(bench.state) == prime::peer::Phase::Voted);
  bench.hear(Commit{SECOND, OuterStep{1}, Revision{1}, whole(0, 1), 1, part(1, 1), false});
  BOOST_CHECK((bench.effect<ApplyCommit>() && bench.state.phase == prime::peer::Phase::Ready));
  bench.hear(Commit{OP, OuterStep{1}, Revision{2}, whole(1, 1), 0, part(0, 1), true});
  BOOST_CHECK((bench.effect<ApplyCommit>() && bench.state.phase == prime::peer::Phase::Waiting));
  BOOST_TEST(bench.effect<SaveState>().has_value());
}

BOOST_AUTO_TEST_CASE(of_all_that_it_has_in_hand_it_asks_when_its_coordinator_is_back) {
  auto bench = contributed();
  reduce(bench, OP, 0, {});
  reduce(bench, SECOND, 1, {});
  vote(bench, SECOND, 1);
  bench.on(CoordinatorLost{"reset"});
  bench.on(CoordinatorBack{});
  std::vector<OperationId> asked;
  for (const auto& effect : bench.effects)
    if (const auto* tell = std::get_if<Tell>(&effect))
      if (const auto* doubt = std::get_if<InDoubt>(&tell->message)) asked.push_back(doubt->op);
  BOOST_CHECK((asked == std::vector{OP, SECOND}));
  bench.hear(Abort{OP, "void"});
  BOOST_TEST(bench.effect<AbortReduce>().has_value());
  bench.hear(Commit{SECOND, OuterStep{1}, Revision{1}, whole(0, 1), 1, part(1, 1), false});
  BOOST_TEST(bench.effect<ApplyCommit>().has_value());
  BOOST_TEST(bench.state.operations.empty());
}

BOOST_AUTO_TEST_CASE(a_trainer_hears_of_its_step_when_every_fragment_has_its_work) {
  namespace life = trainer_life;
  life::State state;
  state.options.fragments = 2;
  const auto on = [&](const life::Event& event) {
    auto transition = life::step(std::move(state), event, Instant{});
    state = std::move(transition.state);
    return std::ranges::any_of(transition.effects, [](const auto& each) { return std::holds_alternative<life::TellCommitted>(each); });
  };
  for (const life::Event& event :
       {life::Event{life::Start{}}, life::Event{life::TensorsBound{}}, life::Event{life::StateOpened{}}, life::Event{life::Initial{}},
        life::Event{life::StateFound{life::Held{{}, 3, {}, {}, 1}}}, life::Event{life::Begin{BeginStep{{}, OuterStep{1}, {}}}},
        life::Event{life::Contributed{{OuterStep{1}, {}, 5, 10, Real{1.0}, {}, Real{1.0}}, 0}}, life::Event{life::ContributionTaken{}}})
    on(event);
  BOOST_TEST(!on(life::Applied{commit_of(OP, 0, false), true, 2}));
  BOOST_TEST(on(life::Applied{commit_of(SECOND, 1, true), true, 2}));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
