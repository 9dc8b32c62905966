// Owns the tests of overlap: the next outer step is trained while the last one is reduced.
#include <boost/test/unit_test.hpp>

#include "actors/coordinator/waits.hpp"
#include "actors/peer/peer_machine.hpp"
#include "actors/peer/trainer_machine.hpp"
#include "tests/actors/machines/coordinator_bench.hpp"
#include "tests/actors/machines/peer_bench.hpp"

BOOST_AUTO_TEST_SUITE(overlap)

using namespace prime;

BOOST_AUTO_TEST_SUITE(coordinator_side)

using namespace prime::coordinator;

namespace {

struct Overlapping : Bench {
  explicit Overlapping(std::uint64_t peers, std::uint64_t outer_steps = 4) : Bench(2, static_cast<std::uint32_t>(peers), outer_steps) {
    Options options{state.options, state.plan};
    options.overlap = true;
    state = initial(options, now);
    for (std::uint64_t peer = 1; peer <= peers; ++peer) seat(peer);
  }
  void ready_for(std::uint64_t step, std::uint64_t peer, std::uint64_t weight = 100) {
    hear(peer, Ready{OuterStep{step}, state.revision, weight, 10, Real{1.0}, {}, Real{1.0}, 1});
  }
  void close(std::uint64_t step, std::uint64_t peers) {
    for (std::uint64_t peer = 1; peer <= peers; ++peer) ready_for(step, peer);
  }
  /// Both at once, where 3 is heard.
  void lose_the_first_two() {
    for (Duration left = state.options.heartbeat_limit + 2s; left > Duration{}; left -= 1s) {
      now += 1s;
      hear(3, Heartbeat{});
      tick();
    }
  }
  [[nodiscard]] std::vector<Contribution> contributions() const { return sent<StartReduce>().at(0).second.contributions.list(); }
};

constexpr Digest NEXT{2, 2};

}  // namespace

BOOST_AUTO_TEST_CASE(the_next_step_begins_from_what_is_committed_when_this_one_closes) {
  Overlapping bench{2};
  bench.close(1, 2);
  for (const std::uint64_t peer : {1U, 2U}) {
    const auto begin = bench.told<BeginStep>(peer);
    BOOST_TEST((begin.step == OuterStep{2} && begin.base == Revision{} && begin.overlaps && begin.contribute));
    BOOST_TEST((bench.told<StartReduce>(peer).step == OuterStep{1}));
  }
  BOOST_TEST(bench.told<BeginStep>(1).first_sample == 20U);
  bench.vote(1, NEXT);
  bench.vote(2, NEXT);
  BOOST_TEST(bench.told<Commit>() == (std::vector<std::uint64_t>{1, 2}), boost::test_tools::per_element());
  BOOST_TEST(bench.sent<BeginStep>().empty(), "it is trained already");
  BOOST_TEST(bench.state.cursor == 20U);
  bench.close(2, 2);
  BOOST_TEST((bench.told<StartReduce>(1).step == OuterStep{2}));
  BOOST_TEST((bench.told<BeginStep>(1).step == OuterStep{3} && bench.told<BeginStep>(1).base == Revision{1}));
}

BOOST_AUTO_TEST_CASE(work_on_the_next_step_is_no_part_of_this_one) {
  Overlapping bench{2};
  bench.close(1, 2);
  bench.ready_for(2, 1, 700);
  bench.vote(1, NEXT);
  bench.vote(2, NEXT);
  const auto committed = bench.journaled<events::OuterStepCommitted>();
  BOOST_REQUIRE(committed.size() == 1U);
  BOOST_TEST(committed.front().weight == 200U);
  bench.ready_for(2, 2, 300);
  BOOST_CHECK((bench.contributions() == std::vector<Contribution>{{PeerId{1}, 700}, {PeerId{2}, 300}}));
}

BOOST_AUTO_TEST_CASE(who_is_left_reduces_the_closed_step_again_and_the_samples_of_who_went_are_given_back) {
  Overlapping bench{3};
  bench.close(1, 3);
  bench.lose(3);
  BOOST_CHECK((bench.contributions() == std::vector<Contribution>{{PeerId{1}, 100}, {PeerId{2}, 100}}));
  BOOST_TEST((bench.told<StartReduce>(1).step == OuterStep{1}));
  BOOST_CHECK((bench.state.given_back == std::set<std::uint64_t>{20, 50}));
}

BOOST_AUTO_TEST_CASE(others_train_for_a_closed_step_that_too_few_are_left_of) {
  Overlapping bench{2};
  bench.close(1, 2);
  bench.lose(2);
  bench.seat(3);
  BOOST_TEST(!bench.told<BeginStep>(3).contribute);
  bench.tick();
  BOOST_TEST(std::ranges::count(bench.probes, Probe::ClosedStepReinforced) == 1);
  BOOST_TEST((bench.told<BeginStep>(3).contribute && bench.told<BeginStep>(3).step == OuterStep{1}));
  bench.ready_for(1, 3, 50);
  BOOST_TEST((bench.told<StartReduce>(3).step == OuterStep{1}));
  BOOST_CHECK((bench.contributions() == std::vector<Contribution>{{PeerId{1}, 100}, {PeerId{3}, 50}}));
  bench.vote(1, NEXT);
  bench.vote(3, NEXT);
  BOOST_TEST((bench.told<BeginStep>(3).contribute && bench.told<BeginStep>(3).step == OuterStep{2}), "that has too few, too");
}

BOOST_AUTO_TEST_CASE(who_trains_for_the_next_step_leaves_it_for_a_closed_one_that_is_short) {
  Overlapping bench{3};
  bench.close(1, 3);
  for (const std::uint64_t peer : {1U, 2U, 3U}) bench.vote(peer, NEXT);
  bench.seat(4);
  bench.hear(4, Fetched{bench.state.revision, NEXT, {}});
  bench.ready_for(2, 4, 0);
  bench.close(2, 3);  // 4 has no part in it
  BOOST_TEST((bench.told<BeginStep>(4).step == OuterStep{3} && bench.told<BeginStep>(4).contribute));
  const auto first = bench.told<BeginStep>(4).first_sample;
  bench.lose(2);
  bench.lose(3);
  BOOST_TEST((bench.told<BeginStep>(4).step == OuterStep{2} && bench.told<BeginStep>(4).first_sample == first));
  bench.ready_for(2, 4, 50);
  BOOST_CHECK((bench.contributions() == std::vector<Contribution>{{PeerId{1}, 100}, {PeerId{4}, 50}}));
}

BOOST_AUTO_TEST_CASE(who_trains_for_a_closed_step_is_not_slow_since_the_others_had_made_it_by_then) {
  Overlapping bench{2};
  bench.close(1, 2);
  bench.lose(2);
  bench.pass(1min);
  bench.seat(3);
  bench.tick();
  bench.pass(2 * bench.state.options.deadline);
  BOOST_TEST(bench.told<Dismissed>().empty());
  BOOST_TEST(wait_of(bench.state, bench.now).what.find("inner steps of p3 for a step") == 0);
}

BOOST_AUTO_TEST_CASE(others_train_for_the_last_step_when_too_few_are_left_of_it) {
  Overlapping bench{2, 1};
  bench.close(1, 2);
  BOOST_TEST(bench.sent<BeginStep>().empty(), "nothing follows");
  bench.lose(2);
  bench.seat(3);
  bench.tick();
  BOOST_TEST(std::ranges::count(bench.probes, Probe::ClosedStepReinforced) == 1);
  BOOST_TEST((bench.told<BeginStep>(3).contribute && bench.told<BeginStep>(3).step == OuterStep{1}));
  bench.ready_for(1, 3, 50);
  BOOST_CHECK((bench.contributions() == std::vector<Contribution>{{PeerId{1}, 100}, {PeerId{3}, 50}}));
}

BOOST_AUTO_TEST_CASE(a_run_that_is_paused_closes_and_begins_nothing_until_it_goes_on) {
  Overlapping bench{2};
  bench.on(PauseRequested{});
  bench.close(1, 2);
  BOOST_TEST(bench.sent<BeginStep>().empty());
  bench.vote(1, NEXT);
  bench.vote(2, NEXT);
  BOOST_TEST(bench.state.is_held());
  bench.on(ResumeRequested{});
  BOOST_TEST((bench.told<BeginStep>(1).step == OuterStep{2} && bench.told<BeginStep>(1).base == Revision{1}));
  BOOST_TEST(!bench.told<BeginStep>(1).overlaps);
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_was_restarted_asks_for_the_closed_step_and_then_for_the_next_one) {
  Overlapping bench{2};
  bench.close(1, 2);
  BOOST_REQUIRE(bench.decided);
  bench.state = restore({bench.state.options, bench.state.plan}, *bench.decided, bench.now);
  auto hello = Bench::hello_of(1);
  hello.returning = true;
  bench.hear(1, hello);
  const auto asked = bench.sent<BeginStep>();
  BOOST_REQUIRE(asked.size() == 2U);
  BOOST_TEST((asked[0].second.step == OuterStep{1} && asked[0].second.first_sample == 0U && !asked[0].second.overlaps));
  BOOST_TEST((asked[1].second.step == OuterStep{2} && asked[1].second.first_sample == 20U && asked[1].second.overlaps));
  bench.ready_for(1, 1);
  hello = Bench::hello_of(2);
  hello.returning = true;
  bench.hear(2, hello);
  BOOST_TEST(bench.sent<StartReduce>().empty(), "what the other one has made of it is not known yet");
  bench.ready_for(1, 2);
  BOOST_TEST((bench.told<StartReduce>(1).step == OuterStep{1}));
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_was_restarted_knows_that_nobody_is_left_of_a_closed_step) {
  Overlapping bench{2};
  bench.seat(3);
  bench.ready_for(1, 3, 0);
  bench.close(1, 2);
  BOOST_REQUIRE((bench.told<BeginStep>(3).step == OuterStep{2}));
  bench.lose_the_first_two();
  BOOST_REQUIRE(bench.state.view.members.size() == 1U);
  bench.state = restore({bench.state.options, bench.state.plan}, *bench.disk, bench.now);
  auto hello = Bench::hello_of(3);
  hello.returning = true;
  bench.hear(3, hello);
  bench.seat(4);
  bench.tick();
  BOOST_TEST(std::ranges::count(bench.probes, Probe::StepBegunAnew) == 1);
  for (const std::uint64_t peer : {3U, 4U}) {
    const auto begun = bench.sent<BeginStep>();
    BOOST_TEST(std::ranges::any_of(
        begun, [&](const auto& each) { return each.first == peer && each.second.contribute && each.second.step == OuterStep{1}; }));
  }
  bench.ready_for(2, 3);
  BOOST_TEST(!bench.state.round().brings(PeerId{3}), "which is of the step that it left");
}

BOOST_AUTO_TEST_CASE(who_says_that_it_adopts_a_step_that_it_was_told_to_train_for_meanwhile_breaks_no_rule) {
  Overlapping bench{2, 1};
  bench.close(1, 2);
  bench.hear(1, ReduceFailed{bench.state.operation, PeerId{2}, Error{ErrorName::LaneBroken}});
  bench.seat(3);
  BOOST_REQUIRE(!bench.told<BeginStep>(3).contribute);
  bench.lose_the_first_two();
  bench.seat(4);
  bench.tick();
  BOOST_REQUIRE(bench.state.round().work.at(PeerId{3}).contributes);
  bench.ready_for(1, 3, 0);
  BOOST_TEST(bench.told<Dismissed>().empty());
  bench.ready_for(1, 3, 50);
  bench.ready_for(1, 4, 50);
  BOOST_CHECK((bench.contributions() == std::vector<Contribution>{{PeerId{3}, 50}, {PeerId{4}, 50}}));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(peer_side)

using namespace prime::peer;

BOOST_AUTO_TEST_CASE(a_peer_reduces_what_it_has_published_while_its_trainer_is_at_the_next_step) {
  Bench bench;
  bench.seat().begin().contribute();
  BeginStep next{Bench::view(), OuterStep{2}, Revision{}, true, 0, 20};
  next.overlaps = true;
  bench.hear(next);
  BOOST_TEST(bench.effect<BeginTraining>().has_value());
  bench.hear(StartReduce{OP, OuterStep{1}, Revision{}, Bench::view(), {{PeerId{1}, 100}, {PeerId{2}, 100}}, 3, 20});
  BOOST_REQUIRE(bench.effect<RunReduce>().has_value());
  BOOST_TEST(bench.effect<RunReduce>()->brings);
  bench.hear(BeginStep{Bench::view(), OuterStep{1}, Revision{}, true, 0, 0});
  BOOST_REQUIRE(bench.told<prime::Ready>().has_value());
  BOOST_TEST((bench.told<prime::Ready>()->step == OuterStep{1} && bench.told<prime::Ready>()->weight == 100U));
  bench.on(ReduceEnded{OP, NEXT, {}, 1, 1});
  bench.hear(Commit{.op = OP, .step = OuterStep{1}, .revision = Revision{1}, .state = NEXT, .part = NEXT, .completes = true});
  BOOST_TEST((bench.state.phase == Phase::Training));
  BOOST_TEST(!bench.state.published.has_value());
  bench.on(TrainerContributed{OuterStep{2}, Revision{}, 70, 10, Real{1.0}, {}, Real{1.0}});
  BOOST_TEST(bench.told<prime::Ready>()->weight == 70U);
}

BOOST_AUTO_TEST_CASE(what_a_trainer_contributes_is_taken_once_what_it_contributed_before_is_committed) {
  namespace life = trainer_life;
  life::State state;
  const auto takes = [&](const life::Event& event) {
    auto transition = life::step(std::move(state), event, Instant{});
    state = std::move(transition.state);
    return std::ranges::any_of(transition.effects, [](const auto& each) { return std::holds_alternative<life::TakeContribution>(each); });
  };
  const auto contributed = [](std::uint64_t step) {
    return life::Event{life::Contributed{{OuterStep{step}, {}, 5, 10, Real{1.0}, {}, Real{1.0}}, 0}};
  };
  for (const life::Event& event : {life::Event{life::Start{}}, life::Event{life::TensorsBound{}}, life::Event{life::StateOpened{}},
                                   life::Event{life::Initial{}}, life::Event{life::StateFound{life::Held{{}, 3, {}, {}, 1}}}})
    takes(event);
  takes(life::Begin{BeginStep{Bench::view(), OuterStep{1}, Revision{}}});
  BOOST_TEST(takes(contributed(1)));
  takes(life::ContributionTaken{});
  BeginStep next{Bench::view(), OuterStep{2}, Revision{}, true, 0, 20};
  next.overlaps = true;
  takes(life::Begin{next});
  // Also when it is another life that contributes.
  for (const life::Event& event :
       {life::Event{life::Gone{Error{ErrorName::TrainerFailed, "killed"}}}, life::Event{life::Start{}}, life::Event{life::TensorsBound{}},
        life::Event{life::StateOpened{}}, life::Event{life::Initial{}}, life::Event{life::StateFound{life::Held{{}, 3, {}, {}, 1}}}})
    takes(event);
  BOOST_TEST(!takes(contributed(2)));
  const life::Applied committed{Commit{.op = OP, .step = OuterStep{1}, .revision = Revision{1}, .state = NEXT, .part = NEXT}, true, 2};
  const auto waiting = state;
  BOOST_TEST(takes(committed));
  // What waits goes with the life that made it: of its memory nobody knows what is in it.
  state = waiting;
  takes(life::Gone{Error{ErrorName::TrainerFailed, "killed"}});
  BOOST_TEST(!takes(committed));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
