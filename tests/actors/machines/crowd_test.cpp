// Owns the tests of what differs in a large run: what one peer says is not followed by a look at all the others.
#include <boost/test/unit_test.hpp>
#include <numeric>
#include <set>

#include "coordinator_bench.hpp"

BOOST_AUTO_TEST_SUITE(crowd)

using namespace prime;
using namespace prime::coordinator;

namespace {

constexpr std::uint64_t ALL = 100;
static_assert(ALL > membership::LOOKED_AT_AFTER_EACH);

Bench hundred(std::uint32_t quorum = 0) {
  Bench bench{2, ALL, 9};
  bench.state.options.max_peers = 2 * ALL;
  bench.state.plan.quorum = quorum;
  for (std::uint64_t peer = 1; peer <= ALL; ++peer) bench.seat(peer);
  return bench;
}

std::vector<std::uint64_t> everybody() {
  std::vector<std::uint64_t> all(ALL);
  std::iota(all.begin(), all.end(), 1U);
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_last_who_is_ready_or_votes_is_answered_at_once) {
  auto bench = hundred();
  BOOST_TEST(bench.state.view.members.empty());
  bench.tick();
  BOOST_TEST(bench.state.view.members.size() == ALL);
  BOOST_TEST(bench.state.view.epoch.value == 1U);
  for (std::uint64_t peer = 1; peer < ALL; ++peer) {
    bench.ready(peer, 100);
    BOOST_TEST(!bench.position_of<events::Waiting>().has_value());
  }
  BOOST_TEST((bench.state.phase == Phase::Training));
  bench.ready(ALL, 100);
  BOOST_TEST(bench.sent<StartReduce>().size() == ALL);
  for (std::uint64_t peer = 1; peer < ALL; ++peer) bench.vote(peer, Digest{5, 5});
  bench.vote(1, Digest{5, 5});  // once more is not one more
  BOOST_TEST((bench.state.phase == Phase::Reducing));
  bench.vote(ALL, Digest{5, 5});
  BOOST_TEST(bench.sent<Commit>().size() == ALL);
  BOOST_TEST(bench.state.revision.value == 1U);
}

BOOST_AUTO_TEST_CASE(joiners_come_in_together_at_the_next_tick) {
  auto bench = hundred();
  bench.tick();
  for (const std::uint64_t peer : {201U, 202U}) bench.seat(peer);
  BOOST_TEST(bench.state.view.members.size() == ALL);
  bench.tick();
  BOOST_TEST(bench.state.view.members.size() == ALL + 2);
  BOOST_TEST(bench.state.view.epoch.value == 1U, "nobody went");
  BOOST_TEST(bench.sent<BeginStep>().size() == 2U);
}

BOOST_AUTO_TEST_CASE(those_lost_between_two_ticks_go_together) {
  auto bench = hundred();
  bench.tick();
  for (std::uint64_t peer = 1; peer <= 10; ++peer) {
    bench.lose(peer);
    BOOST_TEST(bench.effects.empty());  // a new epoch would have to be kept for each
  }
  bench.tick();
  BOOST_TEST(bench.state.view.members.size() == ALL - 10);
  BOOST_TEST(bench.state.view.epoch.value == 2U);
  BOOST_TEST(bench.state.losses.lost == 10U);
  BOOST_TEST(bench.state.losses.members == ALL);
}

BOOST_AUTO_TEST_CASE(a_loss_in_a_reduce_makes_it_void_at_once) {
  auto bench = hundred();
  bench.tick();
  for (std::uint64_t peer = 1; peer <= ALL; ++peer) bench.ready(peer, 100);
  bench.lose(1);
  BOOST_TEST(bench.sent<Abort>().size() == ALL - 1);
  BOOST_TEST(bench.state.view.members.size() == ALL - 1);
}

BOOST_AUTO_TEST_CASE(no_reduce_begins_with_a_member_whose_connection_has_ended) {
  auto bench = hundred();
  bench.tick();
  for (std::uint64_t peer = 2; peer < ALL; ++peer) bench.ready(peer, 100);
  bench.ready(1, 100);
  bench.lose(1);
  bench.ready(ALL, 100);
  BOOST_TEST(bench.sent<StartReduce>().size() == ALL - 1);
  BOOST_TEST(!bench.state.peers.contains(PeerId{1}));
}

BOOST_AUTO_TEST_CASE(who_comes_back_before_the_tick_lives_and_keeps_its_seat_whatever_refused_in_its_name) {
  auto bench = hundred();
  bench.tick();
  bench.lose(1);
  bench.greet(1);
  bench.tick();
  BOOST_TEST(bench.state.view.members.size() == ALL);
  BOOST_TEST(!bench.state.peers.at(PeerId{1}).absent);
}

BOOST_AUTO_TEST_CASE(when_all_connections_break_between_two_ticks_all_are_waited_for_since_nobody_else_holds_the_state) {
  auto bench = hundred();
  bench.tick();
  bench.commit(everybody(), Digest{5, 5});
  for (const auto peer : everybody()) bench.lose(peer);
  bench.tick();
  BOOST_TEST(bench.state.view.members.size() == ALL);
  BOOST_TEST(bench.state.peers.at(PeerId{ALL}).absent);
  for (const std::uint64_t peer : {1U, 2U}) bench.greet(peer);
  for (const auto peer : everybody())
    if (peer > 2) bench.on(ProcessGone{PeerId{peer}, "refused"});
  bench.tick();
  BOOST_TEST(bench.state.view.members.size() == 2U);
}

BOOST_AUTO_TEST_CASE(joiners_of_a_large_run_fetch_from_different_members) {
  auto bench = hundred();
  bench.tick();
  bench.commit(everybody(), Digest{5, 5});
  std::set<PeerId> donors;
  for (std::uint64_t peer = 201; peer <= 210; ++peer) {
    bench.seat(peer);
    donors.insert(bench.sent<FetchState>().at(0).second.donor);
  }
  BOOST_TEST(donors.size() == 10U);
}

BOOST_AUTO_TEST_CASE(the_quorum_s_last_contribution_is_noticed_at_once) {
  auto bench = hundred(10);
  bench.tick();
  for (std::uint64_t peer = 1; peer < 10; ++peer) bench.ready(peer, 100);
  BOOST_TEST(!bench.state.rounds[0].quorum_since.has_value());
  bench.ready(10, 100);
  BOOST_TEST((bench.state.phase == Phase::Reducing));  // the grace is none
}

BOOST_AUTO_TEST_CASE(who_is_no_member_does_not_vote) {
  auto bench = hundred();
  bench.tick();
  for (std::uint64_t peer = 1; peer <= ALL; ++peer) bench.ready(peer, 100);
  bench.seat(201);
  for (std::uint64_t peer = 1; peer < ALL; ++peer) bench.vote(peer, Digest{5, 5});
  bench.vote(201, Digest{5, 5});
  BOOST_TEST((bench.state.phase == Phase::Reducing));
  BOOST_TEST(bench.state.rounds[0].operation->votes.size() == ALL - 1);
}

BOOST_AUTO_TEST_SUITE_END()
