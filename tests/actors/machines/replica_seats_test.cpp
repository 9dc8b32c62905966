// Owns the tests of who of which replica comes and goes.
#include <boost/test/unit_test.hpp>

#include "replica_bench.hpp"

BOOST_AUTO_TEST_SUITE(replica_seats)

using namespace prime;
using namespace prime::coordinator;

BOOST_AUTO_TEST_CASE(a_replica_takes_part_when_all_its_peers_are_there) {
  ReplicaBench bench;
  bench.greet(11);
  BOOST_TEST(bench.told<Welcome>() == Ids{11});  // its trainer may start
  BOOST_TEST(bench.journaled<events::ShardWaits>().at(0).missing == "shard 0");
  BOOST_TEST(bench.journaled<events::PeerJoining>().empty());
  bench.on(Tick{});
  BOOST_TEST(bench.state.waiting.what.find("replica a lacks shard 0") != std::string::npos, bench.state.waiting.what);
  bench.greet(10);
  BOOST_TEST(bench.told<Welcome>() == Ids{10});
  BOOST_TEST(bench.journaled<events::PeerJoining>().size() == 2);
  BOOST_TEST(bench.told<ReplicaLacks>(11).missing.empty());
  BOOST_TEST(incomplete(bench.state).empty());
}

BOOST_AUTO_TEST_CASE(a_lost_peer_takes_its_replica_with_it_and_the_others_go_on) {
  auto bench = reducing(THREE);
  bench.vote(10);
  bench.lose(31);
  BOOST_TEST(bench.told<Abort>() == (Ids{10, 11, 20, 21}));
  const auto lost = bench.journaled<events::PeerLost>();
  BOOST_REQUIRE(lost.size() == 2);
  BOOST_TEST(lost[0].who.name == "p31");
  BOOST_TEST(lost[1].reason.text.find("with p31: ") != std::string::npos, lost[1].reason.text);
  BOOST_TEST((bench.told<Dismissed>(30).cause.name == ErrorName::Evicted));
  BOOST_TEST(bench.told<Dismissed>(30).cause.detail == "shard 1 of replica c was lost: reset");
  BOOST_TEST(ids_of(bench.told<StartReduce>(21).view) == (Ids{11, 21}));
  for (const auto peer : ALL) bench.vote(peer);
  BOOST_TEST(bench.told<Commit>() == ALL);
  // The others of its replica take part anew: what they still say is nobody's word any more, and no id comes back.
  bench.hear(30, Heartbeat{});
  BOOST_TEST((bench.told<Dismissed>(30).cause.name == ErrorName::Evicted));
  for (const std::uint64_t peer : {30U, 31U}) {
    bench.greet(peer);
    BOOST_TEST((bench.told<Dismissed>(peer).cause.name == ErrorName::Evicted));
    BOOST_TEST(bench.told<Dismissed>(peer).cause.detail.starts_with("it went with: "));
  }
}

BOOST_AUTO_TEST_CASE(a_lost_peer_does_not_take_along_the_last_one_that_holds_another_shard) {
  auto bench = training();
  bench.ready_all(ALL);
  for (const auto peer : ALL) bench.vote(peer);
  bench.cut(20);
  bench.lose(11);
  BOOST_TEST(bench.told<Dismissed>().empty(), "10 alone holds shard 0");
  bench.returns(20);
  bench.on(ProcessGone{PeerId{11}, "reset"});
  BOOST_TEST(bench.told<Dismissed>() == Ids{10});
}

BOOST_AUTO_TEST_CASE(the_place_of_a_lost_peer_is_taken_and_the_replica_is_whole_again) {
  auto bench = training(THREE);
  bench.lose(31);
  auto again = [&](std::uint64_t id, std::uint64_t as) {
    auto hello = ReplicaBench::hello_of(as);
    hello.peer = PeerId{id};
    bench.hear(id, hello);
    bench.hear(id, Seated{Revision{}, held(as, 0), Digest{7, shard_of(as)}, 100 + shard_of(as), 1});
  };
  again(130, 30);
  BOOST_TEST(bench.state.peers.size() == 5);
  BOOST_TEST((bench.state.peers.at(PeerId{130}).seat == Seat::Seated));
  again(131, 31);
  BOOST_TEST(bench.state.peers.contains(PeerId{130}));
  BOOST_TEST(ids_of(bench.told<BeginStep>(131).view) == (Ids{11, 21, 131}));
  BOOST_TEST(!bench.told<BeginStep>(131).contribute);
}

BOOST_AUTO_TEST_CASE(who_leaves_takes_its_replica_along_and_the_others_of_it_end) {
  auto bench = training(THREE);
  bench.hear(31, Deathrattle{true, Error{ErrorName::PeerLost, "left"}});
  BOOST_TEST((bench.told<Dismissed>(30).cause.name == ErrorName::PeerLost));
  BOOST_TEST(bench.told<Dismissed>(30).cause.detail == "shard 1 of replica c left");
  BOOST_TEST(bench.told<Dismissed>(31).cause.detail == "left");
  BOOST_TEST(bench.journaled<events::PeerLeft>().size() == 2);
  bench.hear(30, ReplicaBench::hello_of(30));  // who was not there to hear it
  BOOST_TEST((bench.told<Dismissed>(30).cause.name == ErrorName::PeerLost));
}

BOOST_AUTO_TEST_CASE(the_last_replica_that_leaves_saves_all_its_shards) {
  ReplicaBench bench{1};
  bench.state.plan.min_peers = 1;
  bench.seat_all({10, 11});
  bench.ready_all({10, 11});
  for (const auto peer : {10U, 11U}) bench.vote(peer);
  bench.hear(10, Deathrattle{true, Error{ErrorName::PeerLost, "left"}});
  for (const auto& [peer, told] : bench.sent<Dismissed>()) {
    BOOST_TEST((told.cause.name == ErrorName::RunStopped));
    if (peer == 11U) return;
  }
  BOOST_FAIL("the other shard is told nothing");
}

BOOST_AUTO_TEST_CASE(who_went_before_its_replica_was_whole_has_bound_nothing_for_the_run) {
  ReplicaBench bench;
  bench.greet(10);
  bench.hear(10, Seated{Revision{}, Digest{5, 5}, Digest{66, 66}, 7, 1});
  bench.cut(10);
  bench.seat_all({20, 21});
  BOOST_TEST(bench.told<Dismissed>().empty());
  BOOST_TEST((bench.state.peers.at(PeerId{20}).seat == Seat::CaughtUp));
}

BOOST_AUTO_TEST_CASE(replicas_that_miss_a_peer_each_are_waited_for_when_no_other_is_whole) {
  auto bench = training();
  bench.ready_all(ALL);
  for (const auto peer : ALL) bench.vote(peer);
  bench.cut(10);
  bench.cut(21);
  bench.pass(15s, {11, 20});
  BOOST_TEST(bench.told<Dismissed>().empty());
  bench.returns(10);
  bench.returns(21);
  bench.ready_all(ALL);
  BOOST_TEST(bench.told<StartReduce>() == ALL);
}

BOOST_AUTO_TEST_CASE(nobody_waits_for_the_fetch_of_who_cannot_enter_for_want_of_another_peer) {
  auto bench = training();
  bench.seat_all({30, 31});
  bench.state.peers.at(PeerId{31}).fetch.stale = 9;
  BOOST_TEST(membership::overtaken(bench.state).has_value());
  bench.cut(30);
  BOOST_TEST(!membership::overtaken(bench.state).has_value());
}

BOOST_AUTO_TEST_CASE(who_fails_takes_its_replica_along_and_the_others_of_it_take_part_anew) {
  auto bench = training(THREE);
  bench.hear(30, Deathrattle{false, Error{ErrorName::TrainerFailed, "six times"}});
  BOOST_TEST((bench.told<Dismissed>(31).cause.name == ErrorName::Evicted));
  BOOST_TEST(bench.told<Dismissed>(31).cause.detail.starts_with("shard 0 of replica c was lost: the trainer failed"));
}

BOOST_AUTO_TEST_CASE(nobody_covers_for_the_silence_of_another_peer_of_its_replica) {
  auto bench = reducing(THREE);
  std::vector<Effect> all;
  for (int second = 0; second < 11; ++second) {
    bench.pass(1s, {10, 11, 20, 21, 30});
    all.insert(all.end(), bench.effects.begin(), bench.effects.end());
    bench.hear(30, InDoubt{bench.state.operation});  // it has voted, and asks
    all.insert(all.end(), bench.effects.begin(), bench.effects.end());
  }
  bench.effects = std::move(all);
  BOOST_TEST((bench.told<Dismissed>(30).cause.name == ErrorName::Evicted));
  const auto lost = bench.journaled<events::PeerLost>();
  BOOST_REQUIRE(lost.size() == 2);
  BOOST_TEST(lost[0].who.name == "p31");
  BOOST_TEST(lost[1].reason.text.find("with p31: ") != std::string::npos, lost[1].reason.text);
  BOOST_TEST(ids_of(bench.state.view) == ALL);
}

BOOST_AUTO_TEST_CASE(heartbeats_of_all_keep_a_replica_and_each_is_answered) {
  auto bench = training();
  bench.hear(11, Heartbeat{});
  BOOST_TEST(bench.told<HeartbeatSeen>() == Ids{11});
  bench.pass(60s, ALL);
  BOOST_TEST(bench.state.view.members.size() == 4);
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_was_killed_hears_each_peer_of_a_replica_and_reduces_when_all_are_back) {
  auto bench = reducing();
  for (const auto peer : ALL) bench.vote(peer);
  bench.ready_all({10, 11});
  const auto epoch = bench.state.view.epoch;
  bench.state = restore({bench.state.options, bench.state.plan}, *bench.disk, bench.now);
  BOOST_TEST(bench.state.view.epoch.value == epoch.value);
  bench.returns(10);
  BOOST_TEST((bench.told<Commit>(10).state == held(10, 1)));
  BOOST_TEST(bench.told<BeginStep>() == Ids{10});
  BOOST_TEST(bench.state.peers.at(PeerId{11}).absent);
  bench.returns(20);
  bench.returns(21);
  bench.ready_all({10, 20, 21});
  BOOST_TEST(bench.told<StartReduce>().empty());
  bench.returns(11);
  BOOST_TEST(bench.told<BeginStep>() == Ids{11});
  BOOST_TEST((bench.told<Commit>(11).state == held(11, 1)));
  BOOST_TEST(bench.told<BeginStep>(11).view.members[0].lanes.list.front().port == 11);
  bench.ready(11);
  BOOST_TEST((bench.told<StartReduce>(21).elements == 101U));
  for (const auto peer : ALL) bench.vote(peer);
  BOOST_TEST(bench.told<Commit>() == ALL);
}

BOOST_AUTO_TEST_CASE(who_is_back_and_goes_again_before_its_replica_is_costs_it_nothing) {
  auto bench = training();
  bench.state = restore({bench.state.options, bench.state.plan}, *bench.disk, bench.now);
  bench.returns(10);
  bench.on(Tick{});
  BOOST_TEST(bench.fenced().empty());
  BOOST_TEST(bench.state.waiting.what.find("the return of p11, p20, p21") != std::string::npos, bench.state.waiting.what);
  bench.now += 1s;
  bench.cut(10);
  BOOST_TEST(bench.state.peers.contains(PeerId{10}));
  bench.returns(10);
  BOOST_TEST(bench.told<BeginStep>() == Ids{10});
  bench.returns(11);
  BOOST_TEST(bench.told<BeginStep>() == Ids{11});
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_stood_still_holds_nobody_for_silent) {
  auto bench = training();
  bench.greet(30);
  bench.now += 20s;
  bench.on(Tick{});
  BOOST_TEST(bench.told<Dismissed>().empty());
  bench.pass(5s, {10, 11, 20, 21, 30});
  BOOST_TEST(bench.told<Dismissed>().empty());
  BOOST_TEST(bench.state.peers.size() == 5);
}

BOOST_AUTO_TEST_CASE(who_was_cut_off_comes_back_while_the_others_of_its_replica_train) {
  auto bench = training();
  bench.cut(11);
  BOOST_TEST(bench.journaled<events::PeerAbsent>().size() == 1);
  BOOST_TEST(bench.fenced().empty());
  bench.ready_all({10, 20, 21});
  BOOST_TEST(bench.told<StartReduce>().empty());
  bench.returns(11);
  BOOST_TEST(bench.told<BeginStep>() == Ids{11});
  BOOST_TEST(bench.journaled<events::PeerReturned>().size() == 1);
  bench.ready(11);
  BOOST_TEST(bench.told<StartReduce>() == ALL);
}

BOOST_AUTO_TEST_CASE(who_was_cut_off_while_it_fetched_takes_its_seat_anew_and_the_others_of_its_replica_keep_theirs) {
  auto bench = training();
  bench.seat_all({30, 31});
  BOOST_TEST(bench.told<FetchState>() == (Ids{30, 31}));
  bench.cut(31);
  BOOST_TEST(bench.fenced().empty());
  bench.hear(30, Fetched{Revision{}, held(30, 0)});
  BOOST_TEST(bench.state.view.members.size() == 4);
  bench.greet(31);
  BOOST_TEST(bench.told<Welcome>() == Ids{31});
  BOOST_TEST(bench.journaled<events::PeerReturned>().size() == 1);
  bench.hear(31, Seated{Revision{}, held(31, 0), Digest{7, 1}, 101, 1});
  BOOST_TEST(bench.state.view.members.size() == 6);
}

BOOST_AUTO_TEST_CASE(who_has_no_place_is_refused_and_told_why) {
  const auto refused = [](ReplicaBench& bench, std::uint64_t peer, auto change) {
    auto hello = ReplicaBench::hello_of(peer);
    change(hello);
    bench.hear(hello.peer.value, hello);
    return bench.told<Dismissed>(hello.peer.value).cause.detail;
  };
  ReplicaBench bench;
  BOOST_TEST(refused(bench, 10, [](Hello& h) { h.shard = 2; }) ==
             "this run has 2 shards, 0 to 1, and no shard 2: give `--shards 2` for a whole replica");
  BOOST_TEST(refused(bench, 10, [](Hello& h) { h.replica.clear(); }).starts_with("this run has 2 shards: `--shard`"));
  bench.greet(10);
  BOOST_TEST(refused(bench, 10, [](Hello& h) { h.peer = PeerId{99}; }) ==
             "shard 0 of replica a is held by p10 already; free is shard 1, or else give `--replica` another name");
  bench.greet(11);
  BOOST_TEST(refused(bench, 11, [](Hello& h) { h.peer = PeerId{99}; }) ==
             "shard 1 of replica a is held by p11 already; no other one of it is free: give `--replica` another name");
  // Who was not heard for a while may be gone: that will be known soon.
  bench.pass(6s, {10});
  bench.hear(99, [] {
    auto hello = ReplicaBench::hello_of(11);
    hello.peer = PeerId{99};
    return hello;
  }());
  BOOST_TEST(bench.told<Welcome>() == Ids{99});
  Options unsharded_options;
  unsharded_options.run = "run";
  const auto unsharded = step(initial(unsharded_options, Instant{}), Received{PeerId{10}, ReplicaBench::hello_of(10)}, Instant{});
  BOOST_TEST(unsharded.reason.find("this run is not sharded, and the peer says that it holds shard 0") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(who_says_that_it_holds_another_shard_than_before_loses_its_seat_and_so_do_the_others_of_its_replica) {
  auto bench = training(THREE);
  auto hello = ReplicaBench::hello_of(31);
  hello.shard = 7;
  bench.hear(31, hello);
  BOOST_TEST(bench.told<Dismissed>() == (Ids{30, 31}));
  BOOST_TEST((bench.told<Dismissed>(31).cause.name == ErrorName::ProtocolViolation));
  BOOST_TEST(ids_of(bench.state.view) == ALL);
  Options unsharded;
  unsharded.run = "run";
  auto other = ReplicaBench::hello_of(11);
  other.replica.clear();
  const auto refused = step(initial(unsharded, Instant{}), Received{PeerId{11}, other}, Instant{});
  BOOST_TEST(refused.reason.find("this run is not sharded, and the peer says that it holds shard 1") != std::string::npos, refused.reason);
}

BOOST_AUTO_TEST_CASE(who_waits_in_vain_for_the_others_of_its_replica_is_told_so) {
  auto bench = training();
  bench.greet(30);
  bench.pass(10min, {10, 11, 20, 21, 30});
  BOOST_TEST(bench.told<Dismissed>().empty());
  bench.pass(2s, {10, 11, 20, 21, 30});
  BOOST_TEST((bench.told<Dismissed>(30).cause.name == ErrorName::TooFewPeers));
  BOOST_TEST(bench.told<Dismissed>(30).cause.detail == "its replica c lacks shard 1 after 10m00s");
  BOOST_TEST(bench.state.peers.size() == 4);
  BOOST_TEST(incomplete(bench.state).empty());
}

BOOST_AUTO_TEST_CASE(who_falls_silent_or_goes_before_its_replica_is_whole_is_forgotten) {
  auto bench = training();
  bench.greet(30);
  bench.pass(11s, ALL);
  BOOST_TEST((bench.told<Dismissed>(30).cause.name == ErrorName::Evicted));
  bench.greet(41);
  bench.cut(41);
  BOOST_TEST(bench.journaled<events::PeerLost>().at(0).who.replica == "d");
  bench.greet(42 - 2);
  bench.hear(40, Deathrattle{true, Error{ErrorName::PeerLost, "left"}});
  BOOST_TEST(bench.journaled<events::PeerLeft>().size() == 1);
  BOOST_TEST(bench.state.peers.size() == 4);
}

BOOST_AUTO_TEST_CASE(each_who_waits_for_the_others_of_its_replica_hears_for_whom_whenever_somebody_comes_or_goes) {
  const auto goes = [](bool leaves) {
    ReplicaBench bench{1, 3, 3};
    bench.greet(11);
    BOOST_TEST(bench.told<ReplicaLacks>(11).missing == "shards 0, 2");
    bench.greet(12);
    BOOST_TEST(bench.told<ReplicaLacks>() == (Ids{11, 12}));
    BOOST_TEST(bench.told<ReplicaLacks>(11).missing == "shard 0");
    if (leaves) bench.hear(11, Deathrattle{true, Error{ErrorName::PeerLost, "left"}});
    else bench.cut(11);
    BOOST_TEST(bench.told<ReplicaLacks>() == Ids{12});
    BOOST_TEST(bench.told<ReplicaLacks>(12).missing == "shards 0, 1");
    const auto left = bench.journaled<events::PeerLeft>();
    const auto lost = bench.journaled<events::PeerLost>();
    BOOST_REQUIRE((left.size() == (leaves ? 1 : 0) && lost.size() == (leaves ? 0 : 1)));
    BOOST_TEST((leaves ? left[0].who.name : lost[0].who.name) == "p11");
    const auto waits = bench.journaled<events::ShardWaits>();
    BOOST_REQUIRE(waits.size() == 1);
    BOOST_TEST(waits[0].who.name == "p12");
    BOOST_TEST(waits[0].missing == "shards 0, 1");
    return bench;
  };
  goes(false);
  auto bench = goes(true);
  BOOST_TEST(bench.told<Dismissed>(11).cause.detail == "left");
  // Who falls silent is noticed at a tick.
  bench.greet(10);
  bench.pass(11s, {10});
  BOOST_TEST((bench.told<Dismissed>(12).cause.name == ErrorName::Evicted));
  BOOST_TEST(bench.told<ReplicaLacks>() == Ids{10});
  BOOST_TEST(bench.told<ReplicaLacks>(10).missing == "shards 1, 2");
}

BOOST_AUTO_TEST_CASE(who_leaves_when_it_is_back_before_the_others_of_its_replica_takes_it_along) {
  auto bench = training(THREE);
  bench.state = restore({bench.state.options, bench.state.plan}, *bench.disk, bench.now);
  for (const auto peer : {20, 21, 30, 31, 10}) bench.returns(peer);
  bench.hear(10, Deathrattle{true, Error{ErrorName::PeerLost, "left"}});
  BOOST_TEST(bench.told<Dismissed>(10).cause.detail == "left");
  BOOST_TEST(bench.journaled<events::PeerLeft>().size() == 2);
  BOOST_TEST(bench.journaled<events::PeerLost>().empty());
  BOOST_TEST(ids_of(bench.state.view) == (Ids{20, 21, 30, 31}));
  bench.returns(11);
  BOOST_TEST((bench.told<Dismissed>(11).cause.name == ErrorName::PeerLost));
  BOOST_TEST(bench.told<Dismissed>(11).cause.detail == "its replica left");
}

BOOST_AUTO_TEST_CASE(who_waits_for_its_replica_hears_of_a_rollback_and_where_the_run_is_served) {
  auto bench = training(THREE);
  auto& run = bench.state;
  run.plan.on_correlated_loss = LossPolicy::RollBack;
  run.plan.checkpoint_every = 1;
  for (int i = 0; i < 2; ++i) {
    bench.ready_all(THREE);
    for (const auto peer : THREE) bench.vote(peer);
  }
  bench.state.checkpoint = Origin{Revision{1}, OuterStep{1}, whole(1), 0, 0, {}, {}, {held(10, 1), held(11, 1)}};
  bench.greet(40);
  bench.on(Coordinators{{Endpoint{"other", 1}}});
  BOOST_TEST(bench.told<Coordinators>() == (Ids{10, 11, 20, 21, 30, 31, 40}));
  bench.lose(20);
  bench.lose(31);
  BOOST_REQUIRE(bench.journaled<events::RolledBack>().size() == 1);
  BOOST_TEST((bench.told<Dismissed>(40).cause.name == ErrorName::RolledBack));
  BOOST_TEST((bench.told<Dismissed>(11).cause.name == ErrorName::RolledBack));
  bench.greet(30);  // it went with the other one of its replica, and takes part anew
  BOOST_TEST((bench.told<Dismissed>(30).cause.name == ErrorName::RolledBack));
}

BOOST_AUTO_TEST_CASE(a_rollback_to_a_step_of_which_nobody_brings_a_shard_names_it) {
  auto bench = training(THREE);
  bench.state.plan.on_correlated_loss = LossPolicy::RollBack;
  for (int i = 0; i < 2; ++i) {
    bench.ready_all(THREE);
    for (const auto peer : THREE) bench.vote(peer);
  }
  bench.state.checkpoint = Origin{Revision{1}, OuterStep{1}, whole(1), 0, 0, {}, {}, {held(10, 1), held(11, 1)}};
  bench.lose(20);
  bench.lose(31);
  BOOST_REQUIRE(bench.state.restoring.has_value());
  const auto brings = [&](std::uint64_t id, std::uint64_t as, std::uint64_t revision) {
    auto hello = ReplicaBench::hello_of(as);
    hello.peer = PeerId{id};
    bench.hear(id, hello);
    bench.hear(id, Seated{Revision{revision}, held(as, revision), Digest{7, shard_of(as)}, 100 + shard_of(as), 1});
    bench.on(Tick{});
  };
  const auto waits_for = [&](std::string_view what) { return bench.state.waiting.what.find(what) != std::string::npos; };
  brings(110, 10, 1);
  BOOST_TEST(!waits_for("nobody holds"), "its replica is not whole: " << bench.state.waiting.what);
  brings(111, 11, 0);  // another one saved nothing
  BOOST_TEST(waits_for("nobody holds shard 1 of outer step 1;"), bench.state.waiting.what);
  auto others = bench;
  bench.pass(10min, {110, 111});
  bench.pass(2s, {110, 111});
  BOOST_REQUIRE(bench.state.end_cause.has_value());
  BOOST_TEST(bench.state.end_cause->detail.find("nobody holds shard 1 of outer step 1") != std::string::npos,
             bench.state.end_cause->detail);
  // Two replicas that hold one shard each give it to each other.
  bench = std::move(others);
  brings(120, 20, 0);
  BOOST_TEST(waits_for("nobody holds shard 1 of outer step 1"), bench.state.waiting.what);
  brings(121, 21, 1);
  BOOST_TEST(!waits_for("nobody holds"), bench.state.waiting.what);
  BOOST_TEST((bench.state.peers.at(PeerId{111}).fetch.donor == PeerId{121}));
  BOOST_TEST((bench.state.peers.at(PeerId{120}).fetch.donor == PeerId{110}));
  for (const auto peer : {111U, 120U}) bench.hear(peer, Fetched{Revision{1}, held(peer - 100, 1)});
  BOOST_TEST(ids_of(bench.state.view) == (Ids{110, 111, 120, 121}));
}

BOOST_AUTO_TEST_CASE(a_rollback_whose_checkpoint_somebody_brings_whole_lacks_nothing) {
  auto bench = training(THREE);
  bench.state.plan.on_correlated_loss = LossPolicy::RollBack;
  bench.ready_all(THREE);
  for (const auto peer : THREE) bench.vote(peer);
  bench.ready_all(THREE);
  for (const auto peer : THREE) bench.vote(peer);
  bench.state.checkpoint = Origin{Revision{1}, OuterStep{1}, whole(1), 0, 0, {}, {}, {held(10, 1), held(11, 1)}};
  bench.lose(20);
  bench.lose(31);
  for (const auto as : {10U, 11U}) {
    auto hello = ReplicaBench::hello_of(as);
    hello.peer = PeerId{as + 100};
    bench.hear(as + 100, hello);
    bench.hear(as + 100, Seated{Revision{1}, held(as, 1), Digest{7, shard_of(as)}, 100 + shard_of(as), 1});
  }
  BOOST_TEST(incomplete(bench.state).empty(), incomplete(bench.state));
}

BOOST_AUTO_TEST_SUITE_END()
