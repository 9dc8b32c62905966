// Owns the tests of connections to the coordinator that break while both their ends live: nobody begins anew.
#include <boost/test/unit_test.hpp>

#include "tests/actors/machines/coordinator_bench.hpp"

BOOST_AUTO_TEST_SUITE(connection)

using namespace prime;
using namespace prime::coordinator;

namespace {

constexpr Digest NEXT{2, 2};

Bench trio() {
  Bench bench{2, 3};
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.seat(peer);
  return bench;
}

void come_back(Bench& bench, std::uint64_t peer) {
  auto hello = Bench::hello_of(peer);
  hello.returning = true;
  bench.hear(peer, hello);
}

std::vector<std::uint64_t> looked_for(const Bench& bench) {
  std::vector<std::uint64_t> ids;
  for (const auto& effect : bench.effects)
    if (const auto* look = std::get_if<LookFor>(&effect)) ids.push_back(look->peer.value);
  return ids;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_member_keeps_its_seat_and_its_work_in_the_midst_of_a_step) {
  auto bench = trio();
  bench.ready(1, 100);
  bench.ready(2, 100);
  const auto view = bench.state.view;
  const auto first_sample = bench.state.rounds[0].work.at(PeerId{2}).first_sample;
  bench.cut(2);
  BOOST_TEST(bench.journaled<events::PeerAbsent>().size() == 1U);
  BOOST_TEST(looked_for(bench) == std::vector<std::uint64_t>{2}, boost::test_tools::per_element());
  bench.ready(3, 100);
  BOOST_TEST(bench.sent<StartReduce>().empty(), "it would hear of the reduce before it hears what became of the last one");
  come_back(bench, 2);
  BOOST_TEST(bench.journaled<events::PeerReturned>().size() == 1U);
  const auto begin = bench.told<BeginStep>(2);
  BOOST_TEST(begin.first_sample == first_sample);
  BOOST_TEST(begin.contribute);
  BOOST_TEST((bench.state.view == view));
  bench.ready(2, 100);  // it says it again
  BOOST_TEST(bench.sent<StartReduce>().size() == 3U);
}

BOOST_AUTO_TEST_CASE(the_new_connection_may_be_quicker_than_the_news_of_the_old_one) {
  auto bench = trio();
  const auto view = bench.state.view;
  come_back(bench, 2);
  BOOST_TEST(!bench.dismissed(2).has_value());
  BOOST_TEST(bench.sent<BeginStep>().size() == 1U);
  BOOST_TEST((bench.state.view == view));
  BOOST_TEST(!bench.state.peers.at(PeerId{2}).absent);
}

BOOST_AUTO_TEST_CASE(a_reduce_in_which_it_has_yet_to_vote_is_tried_again_with_everybody_s_work) {
  auto bench = trio();
  for (const std::uint64_t peer : {1, 2, 3}) bench.ready(peer, 100);
  const auto op = bench.state.operation;
  bench.cut(2);
  BOOST_TEST(bench.sent<Abort>().empty());
  for (const std::uint64_t peer : {1, 3}) bench.vote(peer, NEXT);
  BOOST_TEST(bench.sent<Commit>().empty());
  come_back(bench, 2);
  BOOST_TEST((bench.journaled<events::OuterStepAborted>().at(0).cause == AbortCause::PeerAway));
  BOOST_TEST(bench.told<Abort>() == (std::vector<std::uint64_t>{1, 2, 3}), boost::test_tools::per_element());
  bench.ready(2, 100);
  BOOST_TEST(bench.sent<StartReduce>().size() == 3U);
  BOOST_TEST((op.sequence < bench.state.operation.sequence));
  BOOST_TEST(bench.told<StartReduce>(2).contributions.list().size() == 3U);
  for (const std::uint64_t peer : {1, 2, 3}) bench.vote(peer, NEXT);
  BOOST_TEST(bench.sent<Commit>().size() == 3U);
}

BOOST_AUTO_TEST_CASE(a_reduce_in_which_it_has_voted_goes_on_whether_it_is_back_before_the_end_or_not) {
  for (const bool before : {true, false}) {
    auto bench = trio();
    for (const std::uint64_t peer : {1, 2, 3}) bench.ready(peer, 100);
    bench.vote(2, NEXT);
    bench.cut(2);
    if (before) come_back(bench, 2);
    BOOST_TEST(bench.sent<Abort>().empty());
    for (const std::uint64_t peer : {1, 3}) bench.vote(peer, NEXT);
    BOOST_TEST(bench.sent<Commit>().size() == 3U);
    if (before) continue;
    come_back(bench, 2);
    BOOST_TEST((bench.told<Commit>(2).state == NEXT));
    BOOST_TEST(bench.told<BeginStep>(2).step.value == 2U);
  }
}

BOOST_AUTO_TEST_CASE(a_joiner_takes_its_seat_anew_with_what_it_has_fetched_meanwhile) {
  auto bench = trio();
  bench.commit({1, 2, 3}, NEXT);
  bench.seat(4, Digest{8, 8});
  BOOST_TEST(bench.sent<FetchState>().size() == 1U);
  bench.cut(4);
  bench.pass(3s, 4);
  BOOST_TEST(bench.state.view.members.size() == 3U);
  bench.greet(4);
  BOOST_TEST(!bench.dismissed(4).has_value());
  BOOST_TEST(bench.sent<Welcome>().size() == 1U);
  bench.hear(4, Seated{Revision{1}, NEXT, LAYOUT, 3, 1});
  BOOST_TEST(bench.state.view.members.size() == 4U);
}

BOOST_AUTO_TEST_CASE(who_has_fetched_is_not_admitted_while_it_is_away) {
  auto bench = trio();
  for (const std::uint64_t peer : {1, 2, 3}) bench.ready(peer, 100);  // nobody is admitted in a reduce
  bench.seat(4);
  bench.hear(4, Fetched{Revision{}, INITIAL});
  bench.cut(4);
  for (const std::uint64_t peer : {1, 2, 3}) bench.vote(peer, NEXT);
  BOOST_TEST(bench.state.view.members.size() == 3U);
  BOOST_TEST(bench.sent<FetchState>().empty());
  bench.greet(4);
  bench.hear(4, Seated{Revision{}, INITIAL, LAYOUT, 3, 1});
  BOOST_TEST(bench.told<FetchState>(4).revision.value == 1U);
}

BOOST_AUTO_TEST_CASE(who_is_away_is_looked_for_every_second_and_evicted_after_its_time) {
  auto bench = trio();
  bench.cut(2);
  bench.pass(3s, 2);
  BOOST_TEST(looked_for(bench) == (std::vector<std::uint64_t>{2, 2, 2}), boost::test_tools::per_element());
  bench.pass(7s, 2);
  BOOST_TEST(bench.state.peers.contains(PeerId{2}));
  bench.pass(1ms, 2);
  BOOST_CHECK(bench.dismissed(2) == ErrorName::Evicted);
}

BOOST_AUTO_TEST_CASE(a_killed_one_is_lost_as_soon_as_its_machine_refuses) {
  auto bench = trio();
  for (const std::uint64_t peer : {1, 2, 3}) bench.ready(peer, 100);
  bench.cut(2);
  bench.on(ProcessGone{PeerId{2}, "its process is gone"});
  BOOST_TEST(bench.journaled<events::PeerLost>().size() == 1U);
  BOOST_TEST((bench.journaled<events::OuterStepAborted>().at(0).cause == AbortCause::PeerLost));
  BOOST_TEST(bench.sent<StartReduce>().size() == 2U);
}

BOOST_AUTO_TEST_CASE(of_who_is_here_nothing_is_gone) {
  auto bench = trio();
  bench.on(ProcessGone{PeerId{2}, "another machine refuses there"});
  BOOST_TEST(bench.state.view.members.size() == 3U);
  bench.on(ProcessGone{PeerId{9}, "nobody knows it"});
  BOOST_TEST(bench.state.view.members.size() == 3U);
}

BOOST_AUTO_TEST_CASE(the_finalist_is_told_again_and_its_answer_counts) {
  Bench bench{2, 3, 1};
  for (std::uint64_t peer = 1; peer <= 3; ++peer) bench.seat(peer);
  bench.commit({1, 2, 3}, NEXT);
  const auto finalist = bench.state.finalist->value;
  bench.cut(finalist);
  come_back(bench, finalist);
  BOOST_TEST(bench.told<RunDone>(finalist).finalist);
  bench.hear(finalist, StateSaved{"/final", ""});
  for (const std::uint64_t peer : {1, 2, 3}) bench.hear(peer, FinalReport{});
  BOOST_TEST(bench.finished() != nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
