// Owns the tests of the coordinator where no member waits for another one (`sync.algorithm: decoupled`).
#include <boost/test/unit_test.hpp>

#include "actors/peer/trainer_machine.hpp"
#include "tests/actors/machines/coordinator_bench.hpp"

BOOST_AUTO_TEST_SUITE(decoupled)
BOOST_AUTO_TEST_SUITE(coordinator_side)

using namespace prime;
using namespace prime::coordinator;
using namespace std::chrono_literals;

namespace {

/// Members 1, 2 and 3 train; the state has two fragments.
Bench trio(std::uint32_t quorum = 1, Duration grace = {}) {
  Bench bench{2, 3};
  Options options{bench.state.options, bench.state.plan};
  options.quorum = quorum;
  options.grace = grace;
  options.in_flight = 2;
  options.decoupled = true;
  bench.begin_in_halves(options, 3);
  return bench;
}

void publish(Bench& bench, std::uint64_t peer, std::uint32_t fragment, std::uint64_t version, std::uint64_t weight) {
  Ready ready{OuterStep{version}, bench.state.revision, weight, 10, Real{1.0}, {}, Real{1.0}, 1, 0, {fragment}};
  ready.tokens = weight / 2;
  ready.first_sample = bench.state.leases.at(PeerId{peer}).back().first_sample;
  bench.hear(peer, ready);
}

void vote(Bench& bench, const OperationId& op, Digest digest, const std::vector<std::uint64_t>& peers = {1, 2, 3}) {
  for (const auto peer : peers) bench.hear(peer, Vote{op, digest, 1, 1});
}

std::vector<std::uint64_t> weights_of(const StartReduce& reduce) {
  std::vector<std::uint64_t> weights;
  for (const auto& contribution : reduce.contributions) weights.push_back(contribution.weight);
  return weights;
}

std::uint64_t first_of(const Bench& bench, std::uint64_t peer) { return bench.state.leases.at(PeerId{peer}).back().first_sample; }

}  // namespace

BOOST_AUTO_TEST_CASE(who_is_due_first_opens_the_round_and_the_others_are_asked) {
  auto bench = trio(2);
  publish(bench, 1, 1, 1, 100);
  BOOST_TEST((bench.told<PublishNow>() == std::vector<std::uint64_t>{2, 3}));
  BOOST_TEST((bench.told<PublishNow>(2).fragment == 1U && bench.told<PublishNow>(2).version == OuterStep{1}));
  BOOST_TEST(bench.sent<StartReduce>().empty());
  publish(bench, 3, 1, 1, 40);
  BOOST_TEST((weights_of(bench.told<StartReduce>(2)) == std::vector<std::uint64_t>{100, 0, 40}));
}

BOOST_AUTO_TEST_CASE(the_others_have_the_grace_and_then_the_round_closes_without_them) {
  auto bench = trio(1, 1s);
  publish(bench, 1, 0, 1, 100);
  bench.pass(900ms);
  BOOST_TEST(bench.sent<StartReduce>().empty());
  bench.pass(100ms);
  BOOST_TEST((weights_of(bench.told<StartReduce>(1)) == std::vector<std::uint64_t>{100, 0, 0}));
}

BOOST_AUTO_TEST_CASE(a_quorum_of_all_waits_for_all) {
  for (const std::uint32_t quorum : {0U, 3U}) {
    auto bench = trio(quorum);
    publish(bench, 1, 0, 1, 100);
    publish(bench, 3, 0, 1, 50);
    BOOST_TEST(bench.sent<StartReduce>().empty());
    publish(bench, 2, 0, 1, 20);
    BOOST_TEST((weights_of(bench.told<StartReduce>(1)) == std::vector<std::uint64_t>{100, 20, 50}));
  }
}

BOOST_AUTO_TEST_CASE(what_comes_too_late_is_dropped_and_costs_nobody_its_seat) {
  auto bench = trio();
  publish(bench, 1, 0, 1, 100);
  const auto op = bench.told<StartReduce>(1).op;
  publish(bench, 2, 0, 1, 60);
  vote(bench, op, Digest{7, 7});
  BOOST_TEST((bench.state.rounds[0].step == OuterStep{2}));
  BOOST_TEST(bench.sent<StartReduce>().empty(), "what peer 2 has published was for the version before");
  publish(bench, 3, 0, 1, 70);
  BOOST_CHECK(bench.state.peers.at(PeerId{3}).seat == Seat::Member);
  BOOST_TEST(bench.sent<StartReduce>().empty());
}

BOOST_AUTO_TEST_CASE(nobody_loses_its_seat_for_being_slow_and_no_round_closes_below_its_quorum) {
  for (const auto quorum : {0U, 3U}) {
    auto bench = trio(quorum);
    publish(bench, 1, 0, 1, 100);
    publish(bench, 2, 0, 1, 50);
    bench.pass(2 * bench.state.options.deadline);
    BOOST_TEST((bench.sent<StartReduce>().empty() && bench.state.view.members.size() == 3U));
    publish(bench, 3, 0, 1, 10);
    BOOST_TEST((weights_of(bench.told<StartReduce>(1)) == std::vector<std::uint64_t>{100, 50, 10}));
  }
}

BOOST_AUTO_TEST_CASE(what_a_member_that_is_dismissed_takes_part_in_is_void) {
  auto bench = trio(2);
  publish(bench, 1, 0, 1, 100);
  publish(bench, 2, 0, 1, 50);
  const auto op = bench.told<StartReduce>(1).op;
  vote(bench, op, Digest{7, 7}, {2});
  publish(bench, 2, 5, 1, 50);
  BOOST_TEST((bench.told<Dismissed>(2).cause.name == ErrorName::ProtocolViolation));
  BOOST_TEST((bench.told<Abort>(1).op == op));
  vote(bench, op, Digest{7, 7}, {1, 3});
  BOOST_TEST((bench.state.rounds[0].step == OuterStep{1}));
}

BOOST_AUTO_TEST_CASE(fragments_go_on_at_their_own_pace_and_the_step_is_that_of_the_last) {
  auto bench = trio();
  for (const std::uint64_t version : {1U, 2U}) {
    publish(bench, 1, 0, version, 100);
    vote(bench, bench.told<StartReduce>(1).op, Digest{version, 0});
  }
  BOOST_TEST((bench.state.made == OuterStep{0}));
  publish(bench, 2, 1, 1, 30);
  vote(bench, bench.told<StartReduce>(1).op, Digest{9, 9});
  BOOST_TEST((bench.state.made == OuterStep{1}));
  BOOST_TEST(bench.state.tokens == 100U, "those of the first fragment: twice 50");
}

BOOST_AUTO_TEST_CASE(each_member_gets_samples_when_it_has_used_its_own_up) {
  auto bench = trio();
  BOOST_TEST((first_of(bench, 1) == 0U && first_of(bench, 2) == 10U && first_of(bench, 3) == 20U));
  publish(bench, 1, 0, 1, 100);
  const auto op = bench.told<StartReduce>(1).op;
  bench.hear(1, LeaseUsed{OuterStep{1}});
  BOOST_TEST((bench.told<BeginStep>() == std::vector<std::uint64_t>{1}));
  BOOST_TEST((bench.told<BeginStep>(1).first_sample == 30U && bench.told<BeginStep>(1).step == OuterStep{2}));
  bench.hear(1, LeaseUsed{OuterStep{1}});
  BOOST_TEST(bench.sent<BeginStep>().empty());
  bench.hear(2, LeaseUsed{OuterStep{1}});
  BOOST_TEST(bench.told<BeginStep>(2).first_sample == 10U, "nothing was made of them that anybody has");
  vote(bench, op, Digest{7, 7});
  BOOST_TEST(bench.state.leases.at(PeerId{1}).size() == 1U, "what was published of the first samples is in");
  bench.lose(3);
  BOOST_TEST((bench.state.given_back == std::set<std::uint64_t>{20}));
}

BOOST_AUTO_TEST_CASE(a_joiner_trains_at_once_and_is_asked_for_what_is_open) {
  auto bench = trio(2);
  bench.state.options.max_peers = 5;
  publish(bench, 1, 1, 1, 100);
  bench.greet(4);
  bench.hear(4, Seated{Revision{}, *bench.state.digest, LAYOUT, 3, 1, {}, bench.state.shards.front().parts});
  BOOST_TEST(bench.told<BeginStep>(4).contribute);
  BOOST_TEST(bench.told<PublishNow>(4).fragment == 1U);
}

BOOST_AUTO_TEST_CASE(the_run_stands_still_when_its_owner_says_so_and_goes_on) {
  auto bench = trio();
  bench.on(PauseRequested{});
  for (const std::uint64_t peer : {1U, 2U, 3U}) bench.hear(peer, LeaseUsed{OuterStep{1}});
  BOOST_TEST(bench.state.is_held());
  bench.on(ResumeRequested{});
  BOOST_TEST((bench.told<BeginStep>() == std::vector<std::uint64_t>{1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(a_restarted_coordinator_remembers_whose_samples_are_whose) {
  auto bench = trio();
  bench.hear(1, LeaseUsed{OuterStep{1}});
  BOOST_REQUIRE(bench.decided.has_value());
  const auto kept = *bench.decided;
  Bench again;
  again.state = restore(Options{bench.state.options, bench.state.plan}, kept, again.now);
  for (const std::uint64_t peer : {1U, 2U, 3U}) {
    auto hello = Bench::hello_of(peer);
    hello.returning = true;
    again.hear(peer, hello);
    BOOST_TEST(again.told<BeginStep>(peer).first_sample == first_of(bench, peer));
    BOOST_TEST((again.told<BeginStep>(peer).step == bench.state.leases.at(PeerId{peer}).back().step));
  }
}

BOOST_AUTO_TEST_CASE(a_publication_of_what_there_is_not_costs_the_seat) {
  for (const auto& [fragment, version, weight] :
       std::vector<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>>{{2, 1, 100}, {0, 2, 100}, {0, 1, 0}}) {
    auto bench = trio();
    publish(bench, 1, fragment, version, weight);
    BOOST_CHECK(bench.dismissed(1) == ErrorName::ProtocolViolation);
  }
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_AUTO_TEST_SUITE(trainer_side)

using namespace prime;
using namespace prime::trainer_life;

namespace {

/// At work on a state of two fragments.
struct Trainer {
  State state;
  std::vector<Effect> effects;

  Trainer() {
    state.options.fragments = 2;
    state.options.streams = state.options.decoupled = true;
    on(Start{}).on(TensorsBound{}).on(StateOpened{}).on(Initial{}).on(StateFound{Held{{}, 3, {}, {}, 1}});
    on(Begin{BeginStep{{}, OuterStep{1}, {}, true, 0, 10}});
  }
  Trainer& on(const Event& event) {
    auto transition = step(std::move(state), event, Instant{});
    state = std::move(transition.state);
    effects = std::move(transition.effects);
    return *this;
  }
  Trainer& publish(std::uint32_t fragment, std::uint64_t version) {
    return on(Contributed{{OuterStep{version}, {}, 5, 10, Real{1.0}, {}, Real{1.0}, {fragment}}});
  }
  Trainer& commit(std::uint32_t fragment, std::uint64_t version, std::uint64_t revision, bool own) {
    return on(Applied{Commit{{}, OuterStep{version}, Revision{revision}, {}, fragment, {}}, own, 2});
  }
  template <class E>
  [[nodiscard]] const E* effect() const {
    for (const auto& each : effects)
      if (const auto* found = std::get_if<E>(&each)) return found;
    return nullptr;
  }
  [[nodiscard]] bool reports_publication() const {
    const auto* report = effect<Report>();
    return report != nullptr && std::holds_alternative<peer::TrainerContributed>(report->event);
  }
  [[nodiscard]] bool reports_used_lease() const {
    return std::ranges::any_of(effects, [](const Effect& each) {
      const auto* report = std::get_if<Report>(&each);
      return report != nullptr && std::holds_alternative<peer::TrainerUsedLease>(report->event);
    });
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(each_commit_is_told_whoever_made_it) {
  Trainer trainer;
  trainer.commit(1, 1, 1, false);
  BOOST_REQUIRE(trainer.effect<TellCommitted>() != nullptr);
  BOOST_TEST((trainer.effect<TellCommitted>()->rebase == TellCommitted::Rebase::Fragment));
}

BOOST_AUTO_TEST_CASE(what_is_published_for_a_version_that_is_committed_is_not_taken) {
  Trainer trainer;
  trainer.commit(0, 1, 1, false).publish(0, 1);
  BOOST_TEST(trainer.effect<TakeContribution>() == nullptr);
  trainer.publish(0, 2);
  BOOST_TEST(trainer.effect<TakeContribution>() != nullptr);
  BOOST_TEST(trainer.on(ContributionTaken{}).reports_publication());
}

BOOST_AUTO_TEST_CASE(what_is_taken_while_its_version_is_committed_is_taken_in_vain) {
  Trainer trainer;
  trainer.publish(0, 1).commit(0, 1, 1, false);
  BOOST_TEST(!trainer.on(ContributionTaken{}).reports_publication());
  trainer.publish(0, 2);
  BOOST_TEST(trainer.on(ContributionTaken{}).reports_publication());
}

BOOST_AUTO_TEST_CASE(what_a_life_had_taken_in_vain_is_no_matter_of_the_next_one) {
  Trainer trainer;
  trainer.publish(0, 1).commit(0, 1, 1, false).on(Gone{Error{ErrorName::TrainerFailed, "killed"}});
  trainer.on(Start{}).on(TensorsBound{}).on(StateOpened{}).on(Initial{}).on(StateFound{Held{{}, 3, {}, Revision{1}, 2}});
  trainer.on(Begin{BeginStep{{}, OuterStep{1}, Revision{1}, true, 0, 10}}).publish(0, 2);
  BOOST_TEST(trainer.on(ContributionTaken{}).reports_publication());
}

BOOST_AUTO_TEST_CASE(samples_are_used_up_once_the_work_on_them_is_reported) {
  Trainer trainer;
  trainer.publish(0, 1).on(UsedLease{});
  BOOST_TEST(!trainer.reports_used_lease());
  BOOST_TEST(trainer.on(ContributionTaken{}).reports_used_lease());
}

BOOST_AUTO_TEST_CASE(samples_that_a_life_used_up_whose_work_is_lost_with_it_are_not_used_up) {
  Trainer trainer;
  trainer.publish(0, 1).on(UsedLease{}).on(Gone{Error{ErrorName::TrainerFailed, "killed"}});
  BOOST_TEST(!trainer.on(ContributionTaken{}).reports_used_lease());
  BOOST_TEST(!trainer.commit(0, 1, 1, false).reports_used_lease());
}

BOOST_AUTO_TEST_SUITE_END()
BOOST_AUTO_TEST_SUITE_END()
