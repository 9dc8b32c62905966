// Owns the tests of what replicas do together: views of a shard, fetches, steps that are committed for all shards or for none.
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "replica_bench.hpp"

BOOST_AUTO_TEST_SUITE(replicas)

using namespace prime;
using namespace prime::coordinator;

BOOST_AUTO_TEST_CASE(each_shard_has_its_own_view_of_one_epoch) {
  auto bench = training();
  BOOST_TEST(ids_of(bench.told<BeginStep>(10).view) == (Ids{10, 20}));
  BOOST_TEST(ids_of(bench.told<BeginStep>(21).view) == (Ids{11, 21}));
  BOOST_TEST(bench.told<BeginStep>(21).view.members[1].lanes.list.front().port == 21);
  BOOST_TEST(bench.told<BeginStep>(10).view.epoch.value == bench.told<BeginStep>(11).view.epoch.value);
  // The peers of a replica train on the same range of samples.
  BOOST_TEST(bench.told<BeginStep>(10).first_sample == bench.told<BeginStep>(11).first_sample);
  BOOST_TEST(bench.told<BeginStep>(10).first_sample != bench.told<BeginStep>(20).first_sample);
  BOOST_TEST(bench.told<BeginStep>(21).rank == 1);
}

BOOST_AUTO_TEST_CASE(a_joiner_fetches_each_shard_from_who_holds_it) {
  ReplicaBench bench;
  bench.seat_all({10, 11, 20});
  BOOST_TEST(bench.told<FetchState>().empty());  // its other half is not there
  bench.seat(21);
  BOOST_TEST(bench.told<FetchState>(20).donor.value == 10);
  BOOST_TEST(bench.told<FetchState>(21).donor.value == 11);
  BOOST_TEST(bench.told<FetchState>(21).lanes.list.front().port == 11);
  BOOST_TEST((bench.told<FetchState>(20).state == held(20, 0)));
  BOOST_TEST((bench.told<FetchState>(21).state == held(21, 0)));
}

BOOST_AUTO_TEST_CASE(each_shard_hears_of_relays_that_hold_the_same_shard) {
  auto bench = training();
  bench.seat_all({30, 31});
  for (const std::uint64_t peer : {30U, 31U}) {
    const auto& fetch = bench.told<FetchState>(peer);
    BOOST_REQUIRE(fetch.relays.size() == 1U);
    BOOST_TEST(fetch.relays[0].id.value % 10 == peer % 10);
    BOOST_TEST(fetch.relays[0].id.value != fetch.donor.value);
  }
}

BOOST_AUTO_TEST_CASE(each_peer_of_a_replica_fetches_by_itself_and_all_are_admitted_together) {
  ReplicaBench bench;
  bench.seat_all(ALL);
  bench.hear(21, FetchFailed{PeerId{11}, Revision{}, Error{ErrorName::FetchFailed, "damaged"}});
  BOOST_TEST(bench.told<FetchState>() == Ids{21});  // it alone tries again
  bench.hear(20, Fetched{Revision{}, held(20, 0)});
  BOOST_TEST((bench.state.peers.at(PeerId{20}).seat == Seat::CaughtUp));
  bench.hear(21, Fetched{Revision{}, held(21, 0)});
  BOOST_TEST((bench.state.peers.at(PeerId{20}).seat == Seat::Member));
  BOOST_TEST((bench.state.peers.at(PeerId{21}).seat == Seat::Member));
}

BOOST_AUTO_TEST_CASE(a_replica_whose_fetch_stopped_half_way_founds_what_it_holds_now) {
  ReplicaBench bench;
  bench.seat_all({10, 11});
  bench.greet(20);
  bench.hear(20, Seated{Revision{}, Digest{90, 0}, Digest{7, 0}, 100, 1});
  bench.greet(21);
  bench.hear(21, Seated{Revision{}, Digest{90, 1}, Digest{7, 1}, 101, 1});
  bench.hear(20, Fetched{Revision{}, held(20, 0)});  // one half
  bench.lose(10);                                    // the founder is gone before the other half
  bench.hear(21, FetchFailed{PeerId{11}, Revision{}, Error{ErrorName::PeerLost, "gone"}});
  const auto founded = bench.journaled<events::StateFounded>();
  BOOST_REQUIRE(founded.size() == 2);
  BOOST_TEST(to_string(founded[0].digest) == to_string(held(20, 0)));
  BOOST_TEST(to_string(founded[1].digest) == to_string(Digest{90, 1}));
}

BOOST_AUTO_TEST_CASE(what_one_shard_tells_of_the_data_counts_for_its_replica) {
  ReplicaBench bench;
  const auto seat = [&](std::uint64_t peer, const DataIdentity& data) {
    bench.greet(peer);
    bench.hear(peer, Seated{Revision{}, Digest{90, peer % 10}, Digest{7, peer % 10}, 100, 1, data});
  };
  const DataIdentity seven{Digest{5, 5}, "7 files"};
  seat(10, {});
  seat(11, seven);
  BOOST_TEST((bench.state.data == seven));
  seat(20, seven);
  seat(21, seven);
  BOOST_TEST(bench.journaled<events::PeerLeft>().empty());
  seat(30, seven);
  seat(31, {Digest{6, 6}, "9 files"});
  const auto told = bench.sent<Dismissed>();
  BOOST_REQUIRE(told.size() == 2U);
  for (const auto& [id, dismissed] : told) {
    BOOST_TEST((dismissed.cause.name == ErrorName::DataMismatch));
    BOOST_TEST(dismissed.cause.detail == "shard 1 of replica c finds 9 files; the run trains on 7 files");
  }
}

BOOST_AUTO_TEST_CASE(who_was_seated_long_ago_can_found_the_state_when_all_others_are_gone) {
  ReplicaBench bench;
  bench.seat_all(ALL);       // a founds, b fetches
  bench.seat_all({30, 31});  // and so does c
  for (const auto peer : {20U, 21U}) bench.hear(peer, Fetched{Revision{}, held(peer, 0)});
  BOOST_REQUIRE(bench.state.phase == Phase::Training);  // which was kept
  bench.lose(10);
  bench.lose(20);
  for (const auto peer : {30U, 31U}) bench.hear(peer, FetchFailed{PeerId{peer - 10}, Revision{}, Error{ErrorName::PeerLost, "gone"}});
  bench.pass(1s, {30, 31});
  const auto founded = bench.journaled<events::StateFounded>();
  BOOST_REQUIRE(founded.size() == 2);
  BOOST_TEST(to_string(founded[1].digest) == to_string(born(31)));
}

BOOST_AUTO_TEST_CASE(a_replica_is_ready_when_all_its_peers_are_and_weighs_what_they_weigh_together) {
  auto bench = training();
  bench.ready(10, 100);
  bench.ready_all({20, 21});
  BOOST_TEST((bench.state.phase == Phase::Training));
  bench.ready(11, 50);
  BOOST_REQUIRE((bench.state.phase == Phase::Reducing));
  const auto first = bench.told<StartReduce>(20);
  const auto second = bench.told<StartReduce>(21);
  BOOST_TEST((first.contributions.list() == std::vector<Contribution>{{PeerId{10}, 150}, {PeerId{20}, 200}}));
  BOOST_TEST((second.contributions.list() == std::vector<Contribution>{{PeerId{11}, 150}, {PeerId{21}, 200}}));
  BOOST_TEST(first.elements == 100);
  BOOST_TEST(second.elements == 101);
  BOOST_TEST((first.op == second.op));
}

BOOST_AUTO_TEST_CASE(the_trainers_of_a_replica_begin_a_step_anew_together) {
  auto bench = training();
  bench.ready(10);
  bench.hear(11, TrainerRestarted{OuterStep{1}, 0});
  BOOST_TEST(bench.told<BeginStep>() == (Ids{10, 11}));
  const auto anew = bench.told<BeginStep>(11);
  BOOST_TEST(anew.attempt == 1U);
  BOOST_TEST(anew.first_sample == bench.state.rounds[0].work.at(PeerId{10}).first_sample);
  BOOST_TEST(anew.rank == 0);
  BOOST_TEST(ids_of(anew.view) == (Ids{11, 21}));
  // The other one has died of that, too; and what it said before is void.
  bench.hear(10, TrainerRestarted{OuterStep{1}, 0});
  BOOST_TEST(bench.told<BeginStep>() == (Ids{10}), "again, in case it has not heard of it");
  BOOST_TEST(bench.told<BeginStep>(10).attempt == 1U);
  bench.ready(10);
  BOOST_CHECK(bench.probes == std::vector{Probe::ReadyOfVoidAttempt});
  const auto again = [&](std::uint64_t peer) {
    Ready ready{OuterStep{1}, Revision{}, 100, 10, Real{1.0}, {}, Real{1.0}, 1};
    ready.attempt = 1;
    bench.hear(peer, ready);
  };
  again(11);
  BOOST_TEST(!bench.state.rounds[0].work.at(PeerId{10}).ready);
  again(10);
  BOOST_TEST(bench.state.rounds[0].work.at(PeerId{10}).ready.has_value());
  // What all have contributed stays, whatever becomes of a trainer then.
  bench.hear(11, TrainerRestarted{OuterStep{1}, 1});
  BOOST_TEST(bench.told<BeginStep>().empty());
  bench.ready_all({20, 21});
  for (const auto peer : ALL) bench.vote(peer);
  BOOST_TEST(bench.told<BeginStep>(10).attempt == 0U);  // of the next step
}

BOOST_AUTO_TEST_CASE(nobody_is_slow_before_a_whole_replica_is_ready) {
  auto bench = training();
  bench.ready_all({10, 21});
  bench.pass(3min, ALL);
  BOOST_TEST(bench.told<Dismissed>().empty());
  bench.ready(11);
  bench.pass(119s, ALL);
  BOOST_TEST(bench.told<Dismissed>().empty());
  bench.pass(2s, {10, 11});
  BOOST_TEST(bench.told<Dismissed>() == (Ids{20, 21}));
  BOOST_TEST((bench.told<Dismissed>(20).cause.name == ErrorName::DeadlineExceeded));
  BOOST_TEST((bench.told<Dismissed>(21).cause.name == ErrorName::Evicted));
}

BOOST_AUTO_TEST_CASE(a_replica_whose_trainers_have_begun_from_two_states_begins_anew) {
  auto bench = training(THREE);
  bench.state.plan.quorum = 2;
  bench.state.plan.min_peers = 2;
  bench.ready_all({10, 11, 20, 21});
  for (const auto peer : THREE) bench.vote(peer);
  const auto late = [&](std::uint64_t peer, Revision base, std::uint32_t attempt) {
    Ready ready{OuterStep{1}, base, 100, 10, Real{1.0}, {}, Real{1.0}, 1};
    ready.attempt = attempt;
    bench.hear(peer, ready);
  };
  late(30, Revision{0}, 0);
  late(31, Revision{1}, 0);
  BOOST_TEST(bench.told<BeginStep>() == (Ids{30, 31}));
  BOOST_TEST(bench.told<BeginStep>(30).attempt == 1U);
  late(30, Revision{1}, 1);
  late(31, Revision{1}, 1);
  BOOST_TEST(bench.told<BeginStep>().empty());
  bench.ready_all({10, 11});
  BOOST_TEST((bench.told<StartReduce>(30).contributions[2] == Contribution{PeerId{30}, 200}));
}

BOOST_AUTO_TEST_CASE(digests_of_fragments_that_are_not_of_what_was_fetched_are_not_believed) {
  ReplicaBench bench;
  bench.seat_all(ALL);
  bench.hear(20, Fetched{Revision{}, held(20, 0), {held(20, 0), Digest{1, 1}}});
  BOOST_TEST((bench.told<Dismissed>(20).cause.name == ErrorName::ProtocolViolation));
}

BOOST_AUTO_TEST_CASE(who_is_back_and_has_voted_keeps_what_it_has_brought_to_a_step_that_was_begun_anew) {
  auto bench = training();
  bench.hear(11, TrainerRestarted{OuterStep{1}, 0});
  for (const auto peer : {10U, 11U}) {
    Ready ready{OuterStep{1}, Revision{}, 100, 10, Real{1.0}, {}, Real{1.0}, 1};
    ready.attempt = 1;
    bench.hear(peer, ready);
  }
  bench.ready_all({20, 21});
  bench.vote(11);
  bench.cut(11);
  bench.returns(11);
  BOOST_TEST(bench.told<BeginStep>().empty());
  for (const auto peer : {10U, 20U, 21U}) bench.vote(peer);
  BOOST_TEST(bench.told<Commit>() == ALL);
}

BOOST_AUTO_TEST_CASE(a_step_is_committed_for_all_shards_or_for_none) {
  auto bench = reducing();
  for (const auto peer : {10U, 20U, 21U}) {
    bench.vote(peer);
    BOOST_TEST(bench.told<Commit>().empty());
  }
  bench.vote(11);
  BOOST_TEST(bench.told<Commit>() == ALL);
  for (const auto peer : ALL) BOOST_TEST((bench.told<Commit>(peer).state == held(peer, 1)));
  const auto committed = bench.journaled<events::OuterStepCommitted>();
  BOOST_REQUIRE(committed.size() == 1);
  BOOST_TEST(to_string(committed[0].digest) == to_string(whole(1)));
  BOOST_TEST((bench.disk->digest == whole(1)));
  for (const auto peer : {10U, 11U}) BOOST_TEST((bench.disk->shards[shard_of(peer)].state == held(peer, 1)));
}

BOOST_AUTO_TEST_CASE(each_shard_tells_of_its_own_lanes_and_the_topology_is_that_of_the_first) {
  auto bench = training();
  const auto told = [&](std::uint64_t peer, std::uint64_t to, std::uint64_t through) {
    bench.hear(peer, LaneRelayed{PeerId{to}, PeerId{through}});
    BOOST_REQUIRE(std::ranges::count_if(bench.effects, [](const auto& e) { return std::holds_alternative<JournalEvent>(e); }) == 1);
    return std::get<JournalEvent>(bench.effects.front());
  };
  const events::LaneRelayed expected{{PeerId{11}, "p11", "a", 1}, "p21", to_string(PeerId{31})};
  BOOST_CHECK(told(11, 21, 31) == JournalEvent{expected});
  BOOST_TEST(bench.state.topology.relayed.empty());
  BOOST_TEST(std::holds_alternative<events::LaneRelayed>(told(10, 20, 30)));
  BOOST_TEST(bench.state.topology.relayed.size() == 1U);
  BOOST_TEST(std::holds_alternative<events::LaneDirect>(told(10, 20, 0)));
  BOOST_TEST(bench.state.topology.relayed.empty());
}

BOOST_AUTO_TEST_CASE(replicas_whose_results_differ_in_one_shard_differ) {
  auto bench = reducing(THREE);
  for (const auto peer : {10U, 11U, 20U, 21U, 30U}) bench.vote(peer);
  bench.hear(31, Vote{bench.state.operation, Digest{66, 6}, 1, 1});
  BOOST_TEST(bench.told<Dismissed>() == (Ids{30, 31}));
  BOOST_TEST((bench.told<Dismissed>(30).cause.name == ErrorName::ParityBroken));
  BOOST_TEST(bench.told<Commit>().empty());
}

BOOST_AUTO_TEST_CASE(a_failed_link_of_one_shard_makes_the_operation_void_for_all) {
  auto bench = reducing(THREE);
  bench.hear(21, ReduceFailed{bench.state.operation, PeerId{31}, Error{ErrorName::LaneBroken, "cut"}});
  BOOST_TEST(bench.told<Abort>() == THREE);
  BOOST_TEST((bench.state.tries.link_failures.contains({PeerId{21}, PeerId{31}})));
}

BOOST_AUTO_TEST_CASE(the_end_is_told_to_all_and_reported_once) {
  ReplicaBench bench{2, 1};
  bench.seat_all(ALL);
  for (const auto peer : {20U, 21U}) bench.hear(peer, Fetched{Revision{}, held(peer, 0)});
  bench.greet(30);
  bench.ready_all(ALL);
  for (const auto peer : ALL) bench.vote(peer);
  BOOST_TEST(bench.told<RunDone>() == ALL);
  BOOST_TEST((bench.told<RunDone>(21).state == held(21, 1)));
  BOOST_TEST((bench.told<RunDone>(10).finalist && bench.told<RunDone>(11).finalist));
  BOOST_TEST(!bench.told<RunDone>(20).finalist);
  BOOST_TEST((bench.told<Dismissed>(30).cause.name == ErrorName::RunDone));
  bench.hear(10, StateSaved{"/ten", ""});
  BOOST_TEST(!bench.state.saved.has_value());
  bench.hear(11, StateSaved{"", "the disk is full"});
  const auto failed = bench.journaled<events::FinalSaveFailed>();
  BOOST_TEST_REQUIRE(failed.size() == 1U, "a model is saved as a whole: of its lead alone is told");
  BOOST_TEST(failed[0].who.peer.value == 10U);
  BOOST_TEST(failed[0].who.replica.empty());
  BOOST_TEST(bench.told<RunDone>() == (Ids{20, 21}), "a model of which a shard is missing is not saved: the other replica is asked");
  BOOST_TEST(bench.told<RunDone>(20).finalist);
  for (const auto peer : {20U, 21U}) bench.hear(peer, StateSaved{"/of-" + std::to_string(peer), ""});
  const auto saved = bench.journaled<events::FinalStateSaved>();
  BOOST_REQUIRE(saved.size() == 1);
  BOOST_TEST(saved[0].who.peer.value == 20U);
  BOOST_TEST(saved[0].checkpoint == "/of-20");
  for (const auto peer : {10U, 11U, 20U}) bench.hear(peer, FinalReport{HeldOutLoss{Real{2.5}, 10}, "text", ""});
  BOOST_TEST((bench.state.phase == Phase::Finishing));
  bench.hear(21, FinalReport{});
  const auto report = bench.journaled<events::FinalReport>();
  BOOST_REQUIRE(report.size() == 1);
  BOOST_TEST(report[0].checkpoint == "/of-20");
  BOOST_TEST(report[0].sample == "text");
  BOOST_TEST(bench.told<Dismissed>() == ALL);
}

BOOST_AUTO_TEST_SUITE_END()
