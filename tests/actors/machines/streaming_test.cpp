// Owns the tests of streaming: fragments are published one after the other, and reduced while training goes on.
#include <boost/test/unit_test.hpp>

#include "actors/peer/trainer_machine.hpp"
#include "kernels/digest/digest.hpp"
#include "tests/actors/machines/coordinator_bench.hpp"

BOOST_AUTO_TEST_SUITE(streaming)

using namespace prime;

BOOST_AUTO_TEST_SUITE(coordinator_side)

using namespace prime::coordinator;

namespace {

Digest part(std::uint32_t fragment, std::uint64_t version) { return Digest{100 + fragment, version}; }

/// Two fragments; in flight one at a time.
struct Streaming : Bench {
  explicit Streaming(std::uint64_t peers) : Bench(2, static_cast<std::uint32_t>(peers), 4) {
    Options options{state.options, state.plan};
    options.fragments = 2;
    options.overlap = options.streams = true;
    state = initial(options, now);
    for (std::uint64_t peer = 1; peer <= peers; ++peer) enter(peer, Revision{}, {0, 0});
  }
  void enter(std::uint64_t peer, Revision revision, std::pair<std::uint64_t, std::uint64_t> versions) {
    greet(peer);
    const std::vector<Digest> parts{part(0, versions.first), part(1, versions.second)};
    hear(peer, Seated{revision, kernels::digest_of_parts(parts), LAYOUT, 3, 1, {}, parts});
  }
  void publish(std::uint64_t step, std::uint32_t fragment, const std::vector<std::uint64_t>& peers) {
    for (const auto peer : peers) hear(peer, Ready{OuterStep{step}, state.revision, 100, 10, Real{1.0}, {}, Real{1.0}, 1, 0, {fragment}});
  }
  void commit(std::uint32_t fragment, std::uint64_t version, const std::vector<std::uint64_t>& peers) {
    for (const auto peer : peers) vote(peer, part(fragment, version));
  }
  /// Until the last fragment of step 1 is in flight, and step 2 is trained.
  void close(const std::vector<std::uint64_t>& peers) {
    publish(1, 0, peers);
    commit(0, 1, peers);
    publish(1, 1, peers);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_fragment_is_reduced_when_all_have_published_it_whatever_they_have_yet_to_make_of_the_others) {
  Streaming bench{2};
  bench.publish(1, 0, {1});
  BOOST_TEST(bench.sent<StartReduce>().empty());
  bench.publish(1, 0, {2});
  BOOST_TEST(bench.told<StartReduce>(1).fragment == 0U);
  bench.commit(0, 1, {1, 2});
  BOOST_TEST(bench.journaled<events::RoundCommitted>().size() == 1U);
  BOOST_TEST(bench.sent<StartReduce>().empty(), "the other one is published later");
  BOOST_TEST(bench.sent<BeginStep>().empty(), "and the step goes on");
}

BOOST_AUTO_TEST_CASE(the_next_step_begins_when_the_last_fragment_is_published_and_is_reduced_after_it) {
  Streaming bench{2};
  bench.close({1, 2});
  const auto begin = bench.told<BeginStep>(2);
  BOOST_TEST((begin.step == OuterStep{2} && begin.base == Revision{1} && begin.overlaps && begin.fragments.empty()));
  BOOST_TEST(bench.told<StartReduce>(1).fragment == 1U);
  bench.publish(2, 0, {1, 2});
  BOOST_TEST(bench.sent<StartReduce>().empty(), "one at a time, in order");
  bench.commit(1, 1, {1, 2});
  const auto committed = bench.journaled<events::OuterStepCommitted>();
  BOOST_REQUIRE(committed.size() == 1U);
  BOOST_TEST(committed[0].wire_bytes == 4U, "of both operations, though the next step had begun between them");
  BOOST_TEST((bench.told<StartReduce>(1).step == OuterStep{2} && bench.told<StartReduce>(1).fragment == 0U));
  BOOST_TEST(bench.told<StartReduce>(1).next_sample == 40U);
}

BOOST_AUTO_TEST_CASE(samples_that_one_fragment_has_are_not_handed_out_again) {
  Streaming bench{3};
  bench.close({1, 2, 3});
  bench.lose(3);  // with the work on step 1 that fragment 0 has, and the range of step 2 that nothing has
  BOOST_TEST(bench.state.given_back == (std::set<std::uint64_t>{50}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(others_train_for_the_fragments_of_a_closed_step_that_too_few_are_left_of) {
  Streaming bench{2};
  bench.close({1, 2});
  bench.lose(2);
  bench.enter(3, Revision{}, {0, 0});
  const auto fetch = bench.told<FetchState>(3);
  bench.hear(3, Fetched{fetch.revision, fetch.state, {part(0, 1), part(1, 0)}});
  bench.tick();
  const auto begun = bench.sent<BeginStep>();
  BOOST_REQUIRE(!begun.empty());
  const auto& begin = begun.back().second;
  BOOST_TEST((begun.back().first == 3U && begin.step == OuterStep{1} && begin.contribute && !begin.overlaps));
  BOOST_TEST(begin.fragments == (Fragments{1}), boost::test_tools::per_element());
  bench.hear(3, Ready{OuterStep{1}, bench.state.revision, 70, 10, Real{1.0}, {}, Real{1.0}, 1, 0, {1}});
  const auto reduce = bench.told<StartReduce>(3);
  BOOST_TEST((reduce.step == OuterStep{1} && reduce.fragment == 1U));
  BOOST_CHECK((reduce.contributions.list() == std::vector<Contribution>{{PeerId{1}, 100}, {PeerId{3}, 70}}));
}

BOOST_AUTO_TEST_CASE(who_is_back_and_has_voted_on_one_fragment_is_asked_for_the_others) {
  Streaming bench{2};
  bench.publish(1, 0, {1, 2});
  bench.publish(1, 1, {2});  // what 1 says of that is lost with its connection
  bench.vote(1, part(0, 1));
  bench.cut(1);
  auto hello = Bench::hello_of(1);
  hello.returning = true;
  bench.hear(1, hello);
  BOOST_TEST(bench.told<BeginStep>(1).step.value == 1U);
  bench.publish(1, 1, {1});
  bench.vote(2, part(0, 1));
  BOOST_TEST(bench.journaled<events::RoundCommitted>().size() == 1U);
  BOOST_TEST(bench.told<StartReduce>() == (std::vector<std::uint64_t>{1, 2}));
}

BOOST_AUTO_TEST_CASE(a_fragment_that_there_is_not_is_no_readiness) {
  Streaming bench{3};
  bench.publish(1, 7, {3});
  BOOST_TEST((bench.told<Dismissed>(3).cause.name == ErrorName::ProtocolViolation));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(trainer_side)

using namespace prime::trainer_life;

namespace {

constexpr OperationId OP{Epoch{1}, Sequence{1}, Tag{0}};

struct Trainer {
  State state;
  std::vector<Effect> effects;

  Trainer() {
    state.options.fragments = 3;
    state.options.streams = true;
    start();
  }
  Trainer& on(const Event& event) {
    auto transition = step(std::move(state), event, Instant{});
    state = std::move(transition.state);
    effects = std::move(transition.effects);
    return *this;
  }
  void start() { on(Start{}).on(TensorsBound{}).on(StateOpened{}).on(Initial{}).on(StateFound{Held{{}, 3, {}, {}, 1}}); }
  Trainer& begin(std::uint64_t number, Fragments fragments = {}, bool overlaps = false) {
    return on(Begin{BeginStep{{}, OuterStep{number}, {}, true, 0, number * 10, 0, {}, overlaps, std::move(fragments)}});
  }
  /// With the others of its replica, of these fragments.
  Trainer& begin_anew(std::uint64_t number, Fragments fragments, bool overlaps) {
    on(StartOver{}).on(Gone{}).start();
    return on(Begin{BeginStep{{}, OuterStep{number}, {}, true, 0, number * 10, 1, {}, overlaps, std::move(fragments)}});
  }
  Trainer& publish(std::uint64_t number, std::uint32_t fragment) {
    return on(Contributed{{OuterStep{number}, {}, 5, 10, Real{1.0}, {}, Real{1.0}, {fragment}}});
  }
  Trainer& commit(std::uint64_t revision, std::uint32_t fragment) {
    return on(Applied{Commit{OP, OuterStep{1}, Revision{revision}, {}, fragment, {}}, true, 2});
  }
  template <class E>
  [[nodiscard]] std::optional<E> effect() const {
    for (const auto& each : effects)
      if (const auto* found = std::get_if<E>(&each)) return *found;
    return std::nullopt;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(each_commit_is_told_by_itself_and_is_what_the_next_work_on_it_is_compared_with) {
  Trainer trainer;
  trainer.begin(1).publish(1, 0);
  BOOST_TEST(trainer.effect<TakeContribution>()->fragments == (Fragments{0}), boost::test_tools::per_element());
  trainer.on(ContributionTaken{}).commit(1, 0);
  const auto told = trainer.effect<TellCommitted>();
  BOOST_REQUIRE(told.has_value());
  BOOST_TEST((told->rebase == TellCommitted::Rebase::Fragment));
}

BOOST_AUTO_TEST_CASE(what_a_life_published_the_next_one_publishes_not_again) {
  Trainer trainer;
  trainer.begin(1).publish(1, 0).on(ContributionTaken{});
  trainer.on(Gone{Error{ErrorName::TrainerFailed, "killed"}}).start();
  trainer.begin(1);
  BOOST_TEST(trainer.effect<TellBegin>()->published == (Fragments{0}), boost::test_tools::per_element());
  trainer.publish(1, 0);
  BOOST_TEST(!trainer.effect<TakeContribution>().has_value());
  trainer.publish(1, 1);
  BOOST_TEST(trainer.effect<TakeContribution>().has_value());
}

BOOST_AUTO_TEST_CASE(of_fragments_that_have_made_the_step_nothing_is_published) {
  Trainer trainer;
  trainer.begin(1, {1});
  BOOST_TEST(trainer.effect<TellBegin>()->published == (Fragments{0, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_step_that_begins_beside_the_last_fragments_knows_which_they_are) {
  Trainer trainer;
  trainer.begin(1);
  for (const std::uint32_t fragment : {0U, 1U, 2U}) trainer.publish(1, fragment).on(ContributionTaken{});
  trainer.commit(1, 0).begin(2, {}, true);
  BOOST_TEST(trainer.effect<TellBegin>()->in_flight == (Fragments{1, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_a_replica_makes_anew_takes_the_place_of_what_is_void_and_of_nothing_that_is_reduced) {
  Trainer trainer;
  trainer.begin(1);
  for (const std::uint32_t fragment : {0U, 1U, 2U}) trainer.publish(1, fragment).on(ContributionTaken{});
  trainer.commit(1, 0).commit(2, 1).begin(2, {}, true);
  for (const std::uint32_t fragment : {0U, 1U}) trainer.publish(2, fragment).on(ContributionTaken{});
  trainer.begin_anew(2, {1, 2}, true);
  BOOST_TEST(trainer.effect<TellBegin>()->published == (Fragments{0}), boost::test_tools::per_element());
  trainer.publish(2, 1);
  BOOST_TEST(trainer.effect<TakeContribution>().has_value(), "what was published of it is void");
  trainer.on(ContributionTaken{}).publish(2, 2);
  BOOST_TEST(!trainer.effect<TakeContribution>().has_value(), "that of step 1 is reduced");
  trainer.commit(3, 2);
  BOOST_TEST(trainer.effect<TakeContribution>().has_value());
  trainer.on(ContributionTaken{}).begin(3, {}, true).publish(3, 0);
  BOOST_TEST(!trainer.effect<TakeContribution>().has_value(), "what was not made anew is reduced as well");
}

BOOST_AUTO_TEST_CASE(what_is_being_taken_when_another_step_begins_counts_for_neither) {
  Trainer trainer;
  trainer.begin(2).publish(2, 0).publish(2, 1);  // the agent is at the first of them
  trainer.begin(1, {0});
  BOOST_TEST(trainer.effect<TellBegin>()->is_void, "what the peer expects of it");
  trainer.on(ContributionTaken{});
  BOOST_TEST(!trainer.effect<Report>().has_value());
  BOOST_TEST(!trainer.effect<TakeContribution>().has_value(), "nor the one behind it");
  trainer.publish(1, 0);
  BOOST_TEST(trainer.effect<TakeContribution>().has_value());
  trainer.on(ContributionTaken{});
  BOOST_TEST(trainer.effect<Report>().has_value());
}

BOOST_AUTO_TEST_CASE(a_step_that_is_left_leaves_nothing_that_the_next_one_waits_for) {
  Trainer trainer;
  trainer.begin(2);
  for (const std::uint32_t fragment : {0U, 1U}) trainer.publish(2, fragment).on(ContributionTaken{});
  trainer.begin(1, {1}).publish(1, 1).on(ContributionTaken{});
  trainer.begin(2, {}, true);
  BOOST_TEST(trainer.effect<TellBegin>()->in_flight == (Fragments{1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_was_published_of_a_step_that_is_over_is_nothing) {
  Trainer trainer;
  trainer.begin(2).begin(1, {2});
  trainer.publish(2, 0);
  BOOST_TEST(!trainer.effect<TakeContribution>().has_value());
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE_END()
