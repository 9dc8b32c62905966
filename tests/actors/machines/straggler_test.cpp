// Owns the tests of late peers: a step closes without them, they keep their seats, and bring their work later.
#include <boost/test/unit_test.hpp>

#include "actors/peer/peer_machine.hpp"
#include "tests/actors/machines/coordinator_bench.hpp"

BOOST_AUTO_TEST_SUITE(straggler)

using namespace prime;
using namespace prime::coordinator;

namespace {

constexpr Digest NEXT{4, 4};
constexpr Digest AFTER{5, 5};

/// Three members; two contributions close a step after a second.
Bench trio(std::uint64_t outer_steps = 3) {
  Bench bench{2, 3, outer_steps};
  bench.state.plan.quorum = 2;
  bench.state.plan.grace = 1s;
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.seat(peer);
  return bench;
}

/// The same with a state of two fragments, each of which is ready by itself.
Bench trio_of_halves(std::uint32_t in_flight) {
  Bench bench{2, 3};
  Options options{bench.state.options, bench.state.plan};
  options.quorum = 2;
  options.grace = 1s;
  options.in_flight = in_flight;
  bench.begin_in_halves(options, 3);
  return bench;
}

Ready half_ready(std::uint32_t fragment, std::uint64_t weight) {
  return {OuterStep{1}, Revision{}, weight, 10, Real{1.0}, {}, Real{1.0}, 1, 0, {fragment}};
}

/// The first step is committed without peer 3.
Bench trio_with_a_late_third(std::uint64_t outer_steps = 3) {
  auto bench = trio(outer_steps);
  bench.ready(1, 100);
  bench.ready(2, 200);
  bench.pass(1s);
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.vote(peer, NEXT);
  return bench;
}

Ready late_ready(std::uint64_t weight) {
  return Ready{OuterStep{1}, Revision{}, weight, 10, Real{1.0}, HeldOutLoss{Real{3.0}, 10}, Real{1.0}, 1};
}

std::vector<Contribution> contributions_of(const Bench& bench) {
  const auto reduces = bench.sent<StartReduce>();
  return reduces.empty() ? std::vector<Contribution>{} : reduces[0].second.contributions.list();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(coordinator_side)

BOOST_AUTO_TEST_CASE(a_step_closes_without_who_is_late_once_the_grace_has_passed) {
  auto bench = trio();
  bench.ready(1, 100);
  bench.pass(1min);
  BOOST_TEST(bench.sent<StartReduce>().empty(), "one contribution is no quorum");
  bench.ready(2, 200);
  bench.pass(999ms);
  BOOST_TEST(bench.sent<StartReduce>().empty(), "the grace has not passed");
  bench.pass(1ms);
  const auto reduces = bench.sent<StartReduce>();
  BOOST_REQUIRE(reduces.size() == 3U);
  BOOST_CHECK(reduces[2].second.contributions == (std::vector<Contribution>{{PeerId{1}, 100}, {PeerId{2}, 200}, {PeerId{3}, 0}}));
  BOOST_TEST(bench.position_of<events::PeerLate>().has_value());
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.vote(peer, NEXT);
  BOOST_TEST(bench.sent<Commit>().size() == 3U);
  const auto begun = bench.sent<BeginStep>();
  BOOST_REQUIRE(begun.size() == 2U);
  BOOST_TEST(begun[0].first == 1U);
  BOOST_TEST(begun[1].first == 2U);
  BOOST_CHECK(bench.state.peers.at(PeerId{3}).seat == Seat::Member);
}

BOOST_AUTO_TEST_CASE(the_grace_of_a_fragment_begins_with_its_own_quorum) {
  auto bench = trio_of_halves(2);
  bench.hear(1, half_ready(0, 100));
  bench.hear(2, half_ready(0, 200));
  bench.pass(900ms);
  bench.hear(1, half_ready(1, 100));
  bench.hear(2, half_ready(1, 200));
  bench.pass(100ms);
  auto reduces = bench.sent<StartReduce>();
  BOOST_REQUIRE_MESSAGE(reduces.size() == 3U, "the first fragment alone has waited long enough");
  BOOST_TEST(reduces[0].second.fragment == 0U);
  bench.pass(899ms);
  BOOST_TEST(bench.sent<StartReduce>().empty());
  bench.pass(1ms);
  reduces = bench.sent<StartReduce>();
  BOOST_REQUIRE(reduces.size() == 3U);
  BOOST_TEST(reduces[0].second.fragment == 1U);
}

BOOST_AUTO_TEST_CASE(the_grace_of_a_fragment_runs_while_another_one_is_reduced) {
  auto bench = trio_of_halves(1);
  bench.hear(1, half_ready(0, 100));
  bench.hear(2, half_ready(0, 200));
  bench.pass(1s);
  BOOST_REQUIRE(bench.sent<StartReduce>().size() == 3U);
  bench.hear(1, half_ready(1, 100));
  bench.hear(2, half_ready(1, 200));
  bench.pass(1s);
  BOOST_TEST(bench.sent<StartReduce>().empty(), "one is in flight");
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.vote(peer, NEXT);
  const auto reduces = bench.sent<StartReduce>();
  BOOST_REQUIRE(reduces.size() == 3U);
  BOOST_TEST(reduces[0].second.fragment == 1U);
  BOOST_CHECK(reduces[0].second.contributions.list() == (std::vector<Contribution>{{PeerId{1}, 100}, {PeerId{2}, 200}, {PeerId{3}, 0}}));
}

BOOST_AUTO_TEST_CASE(late_work_comes_with_the_next_step_and_then_its_peer_begins_with_the_others) {
  auto bench = trio_with_a_late_third();
  bench.hear(3, late_ready(300));
  bench.ready(1, 101);
  bench.ready(2, 201);
  BOOST_CHECK(contributions_of(bench) == (std::vector<Contribution>{{PeerId{1}, 101}, {PeerId{2}, 201}, {PeerId{3}, 300}}));
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.vote(peer, AFTER);
  const auto begun = bench.sent<BeginStep>();
  BOOST_REQUIRE(begun.size() == 3U);
  BOOST_TEST(begun[2].second.step.value == 3U);
  BOOST_TEST(bench.state.tokens == 902U);
}

BOOST_AUTO_TEST_CASE(late_work_that_is_done_during_a_reduce_is_not_lost_with_its_commit) {
  auto bench = trio();
  bench.ready(1, 100);
  bench.ready(2, 200);
  bench.pass(1s);
  bench.hear(3, late_ready(300));
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.vote(peer, NEXT);
  BOOST_TEST(bench.state.tokens == 300U);
  bench.ready(1, 101);
  bench.ready(2, 201);
  BOOST_CHECK(contributions_of(bench) == (std::vector<Contribution>{{PeerId{1}, 101}, {PeerId{2}, 201}, {PeerId{3}, 300}}));
}

BOOST_AUTO_TEST_CASE(what_a_late_peer_evaluated_is_not_the_held_out_loss_of_a_newer_state) {
  auto bench = trio_with_a_late_third();
  bench.hear(3, late_ready(300));
  bench.ready(1, 101);
  bench.ready(2, 201);
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.vote(peer, AFTER);
  BOOST_TEST(!bench.journaled<events::OuterStepCommitted>().at(0).held_out_loss.has_value());
}

BOOST_AUTO_TEST_CASE(a_base_from_before_the_step_or_from_the_future_is_refused) {
  auto bench = trio_with_a_late_third();
  bench.hear(1, Ready{OuterStep{2}, Revision{}, 100, 10, Real{1.0}, {}, Real{1.0}, 1});
  BOOST_TEST(!bench.state.rounds[0].work.at(PeerId{1}).ready.has_value());
  bench.hear(3, Ready{OuterStep{1}, Revision{2}, 100, 10, Real{1.0}, {}, Real{1.0}, 1});
  BOOST_TEST(!bench.state.rounds[0].work.at(PeerId{3}).ready.has_value());
  bench.hear(3, Ready{OuterStep{1}, Revision{1}, 100, 10, Real{1.0}, {}, Real{1.0}, 1});
  BOOST_TEST(bench.state.rounds[0].work.at(PeerId{3}).ready.has_value());
}

BOOST_AUTO_TEST_CASE(early_late_work_does_not_start_the_deadline_of_the_others) {
  auto bench = trio_with_a_late_third();
  bench.hear(3, late_ready(300));
  bench.pass(bench.state.options.deadline + 1min);
  BOOST_TEST(bench.sent<Dismissed>().empty());
  BOOST_TEST(bench.state.view.members.size() == 3U);
}

BOOST_AUTO_TEST_CASE(without_a_quorum_the_deadline_evicts_as_ever) {
  Bench bench{2, 3};
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.seat(peer);
  bench.ready(1, 100);
  bench.ready(2, 200);
  bench.pass(bench.state.options.deadline);
  BOOST_TEST(bench.sent<StartReduce>().empty());
  bench.pass(1s);
  BOOST_CHECK(bench.dismissed(3) == ErrorName::DeadlineExceeded);
}

BOOST_AUTO_TEST_CASE(a_joiner_that_has_not_answered_yet_is_not_waited_for_either) {
  auto bench = trio();
  bench.ready(1, 100);
  bench.lose(3);
  bench.greet(4);
  bench.hear(4, Seated{Revision{}, INITIAL, LAYOUT, 3, 1});
  BOOST_REQUIRE((bench.state.peers.at(PeerId{4}).seat == Seat::Member));
  bench.ready(2, 200);
  bench.pass(1s);
  BOOST_CHECK(contributions_of(bench) == (std::vector<Contribution>{{PeerId{1}, 100}, {PeerId{2}, 200}, {PeerId{4}, 0}}));
  for (const std::uint64_t peer : {1, 2, 4}) bench.vote(peer, NEXT);
  BOOST_TEST(bench.sent<BeginStep>().size() == 3U, "it begins with the others: there is no work of it to wait for");
}

BOOST_AUTO_TEST_CASE(who_is_late_does_not_evaluate_the_end_while_others_are_free) {
  auto bench = trio_with_a_late_third(2);
  // Now the first is late, and the third brings its work.
  bench.hear(3, late_ready(300));
  bench.ready(2, 201);
  bench.pass(1s);
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.vote(peer, AFTER);
  BOOST_CHECK(bench.state.finalist == PeerId{2});
}

BOOST_AUTO_TEST_CASE(a_restarted_coordinator_knows_who_is_late_and_waits_until_it_is_back) {
  auto bench = trio_with_a_late_third();
  BOOST_REQUIRE(bench.decided);
  bench.state = restore({bench.state.options, bench.state.plan}, *bench.decided, bench.now);
  const auto back = [&](std::uint64_t peer) {
    auto hello = Bench::hello_of(peer);
    hello.returning = true;
    bench.hear(peer, hello);
  };
  back(1);
  back(2);
  bench.ready(1, 101);
  bench.ready(2, 201);
  bench.pass(2s, 3);
  BOOST_TEST(bench.sent<StartReduce>().empty(), "the third has yet to hear what became of the last reduce");
  back(3);
  const auto begun = bench.sent<BeginStep>();
  BOOST_REQUIRE(begun.size() == 1U);
  BOOST_TEST(begun[0].second.step.value == 1U, "it is still at the first step");
  BOOST_TEST(begun[0].second.contribute);
  bench.hear(3, late_ready(300));
  BOOST_CHECK(contributions_of(bench) == (std::vector<Contribution>{{PeerId{1}, 101}, {PeerId{2}, 201}, {PeerId{3}, 300}}));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(peer_side)

namespace {

constexpr OperationId OP{Epoch{1}, Sequence{1}};

/// Peer 1, which trains while the others reduce.
struct Late {
  Instant now{};
  peer::State state;
  std::vector<peer::Effect> effects;

  Late() {
    peer::Options options;
    options.hello = Bench::hello_of(1);
    auto started = peer::start(options, now);
    state = std::move(started.state);
    on(peer::FromCoordinator{Welcome{0, ""}});
    on(peer::TrainerBound{LAYOUT, 3, INITIAL, Revision{}, 1});
    on(peer::FromCoordinator{BeginStep{view(), OuterStep{1}, Revision{}, true, 0, 0}});
    on(peer::FromCoordinator{StartReduce{OP, OuterStep{1}, Revision{}, view(), {{PeerId{1}, 0}, {PeerId{2}, 100}}, 3, 20}});
  }
  static View view() { return View{Epoch{1}, {Member{PeerId{1}, "a", {}, 0}, Member{PeerId{2}, "b", {}, 1}}}; }
  void on(const peer::Event& event) {
    auto transition = peer::step(std::move(state), event, now);
    state = std::move(transition.state);
    effects = std::move(transition.effects);
  }
  void contributed() { on(peer::TrainerContributed{OuterStep{1}, Revision{}, 100, 10, Real{1.0}, {}, Real{1.0}}); }
  void voted() { on(peer::ReduceEnded{OP, NEXT, PeerId{}, 1, 1}); }
  void committed() { on(peer::FromCoordinator{Commit{OP, OuterStep{1}, Revision{1}, NEXT, 0, NEXT}}); }
  void aborted() { on(peer::FromCoordinator{Abort{OP, "a test"}}); }
  template <class T>
  [[nodiscard]] std::optional<T> effect() const {
    for (const auto& e : effects)
      if (const auto* found = std::get_if<T>(&e)) return *found;
    return std::nullopt;
  }
  [[nodiscard]] std::optional<Ready> told_ready() const {
    for (const auto& e : effects)
      if (const auto* tell = std::get_if<peer::Tell>(&e))
        if (const auto* ready = std::get_if<Ready>(&tell->message)) return *ready;
    return std::nullopt;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(it_adopts_what_the_others_made_and_trains_on) {
  Late late;
  BOOST_TEST(late.effect<peer::RunReduce>().has_value());
  late.voted();
  late.committed();
  BOOST_TEST(late.effect<peer::ApplyCommit>().has_value());
  BOOST_CHECK(late.state.phase == peer::Phase::Training);
  BOOST_CHECK(late.state.revision == Revision{1});
  late.contributed();
  BOOST_CHECK(late.state.phase == peer::Phase::Ready);
  const auto ready = late.told_ready();
  BOOST_REQUIRE(ready.has_value());
  BOOST_CHECK(ready->step == OuterStep{1});
  BOOST_CHECK(ready->base == Revision{});
}

BOOST_AUTO_TEST_CASE(its_work_is_told_when_it_is_done_in_the_middle_of_a_reduce_and_outlives_the_commit) {
  for (const bool after_the_vote : {false, true}) {
    Late late;
    if (after_the_vote) late.voted();
    late.contributed();
    BOOST_TEST(late.told_ready().has_value());
    if (!after_the_vote) late.voted();
    late.committed();
    BOOST_CHECK(late.state.phase == peer::Phase::Ready);
    late.on(peer::FromCoordinator{
        StartReduce{{Epoch{1}, Sequence{2}}, OuterStep{2}, Revision{1}, Late::view(), {{PeerId{1}, 100}, {PeerId{2}, 100}}, 3, 40}});
    BOOST_TEST(late.effect<peer::RunReduce>().has_value());
  }
}

BOOST_AUTO_TEST_CASE(an_abort_leaves_it_at_its_inner_steps) {
  Late late;
  late.aborted();
  BOOST_CHECK(late.state.phase == peer::Phase::Training);
  late.contributed();
  BOOST_CHECK(late.state.phase == peer::Phase::Ready);
}

BOOST_AUTO_TEST_CASE(a_trainer_that_dies_while_it_is_late_begins_again_at_once) {
  Late late;
  late.on(peer::TrainerRestarting{Error{ErrorName::TrainerFailed, "a test"}});
  late.on(peer::TrainerBound{LAYOUT, 3, INITIAL, Revision{}, 2});
  BOOST_TEST(late.effect<peer::BeginTraining>().has_value());
}

BOOST_AUTO_TEST_CASE(a_reduce_that_wants_work_that_is_not_done_is_refused) {
  Late late;
  late.aborted();
  late.on(peer::FromCoordinator{
      StartReduce{{Epoch{1}, Sequence{2}}, OuterStep{1}, Revision{}, Late::view(), {{PeerId{1}, 100}, {PeerId{2}, 100}}, 3, 20}});
  BOOST_TEST(!late.effect<peer::RunReduce>().has_value());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
