// Owns the tests of who takes part: refusals, seats, fetches, admission, silence.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>

#include "actors/membership/seating.hpp"
#include "tests/actors/machines/coordinator_bench.hpp"

BOOST_AUTO_TEST_SUITE(coordinator_membership)

using namespace prime;
using namespace prime::coordinator;

BOOST_AUTO_TEST_CASE(the_first_step_begins_when_the_quorum_is_caught_up_and_not_before) {
  Bench bench{2, 3};
  bench.seat(1);
  bench.seat(2);
  BOOST_TEST(bench.state.view.members.empty());
  bench.seat(3);
  BOOST_TEST(bench.state.view.epoch.value == 1U);
  BOOST_TEST(bench.sent<BeginStep>().size() == 3U);
}

BOOST_AUTO_TEST_CASE(strangers_are_refused_by_name_and_cost_no_resident_its_place) {
  Bench bench;
  for (std::uint64_t peer = 1; peer <= 4; ++peer) bench.seat(peer);
  const auto refused = [&](const Hello& hello, std::uint64_t from) {
    bench.hear(from, hello);
    return bench.dismissed(from);
  };
  auto other_version = Bench::hello_of(9);
  other_version.protocol = PROTOCOL_VERSION + 1;
  auto other_run = Bench::hello_of(9);
  other_run.run = "another";
  BOOST_CHECK(refused(other_version, 9) == ErrorName::VersionMismatch);
  BOOST_CHECK(refused(other_run, 9) == ErrorName::WrongRun);
  BOOST_CHECK(refused(Bench::hello_of(9), 9) == ErrorName::RunFull);
  BOOST_CHECK(refused(Bench::hello_of(1), 9) == ErrorName::ProtocolViolation);
  BOOST_TEST(bench.state.peers.size() == 4U);
}

BOOST_AUTO_TEST_CASE(an_evicted_id_is_refused_for_good) {
  Bench bench;
  bench.seat(1);
  bench.seat(2);
  bench.lose(2);
  bench.greet(2);
  BOOST_CHECK(bench.dismissed(2) == ErrorName::Evicted);
}

BOOST_AUTO_TEST_CASE(a_peer_is_silent_for_ten_seconds_before_it_is_evicted) {
  Bench bench;
  bench.seat(1);
  bench.seat(2);
  bench.pass(10s, 2);
  BOOST_TEST(bench.state.peers.contains(PeerId{2}));
  bench.pass(1ms, 2);
  BOOST_CHECK(bench.dismissed(2) == ErrorName::Evicted);
  BOOST_TEST(!bench.state.peers.contains(PeerId{2}));
  BOOST_TEST(bench.state.view.epoch.value == 2U);
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_was_frozen_itself_evicts_nobody_for_it) {
  Bench bench;
  bench.seat(1);
  bench.seat(2);
  bench.freeze(60min);
  BOOST_TEST(bench.state.peers.size() == 2U);
  bench.pass(10s, 2);
  BOOST_TEST(bench.state.peers.size() == 2U);
  bench.pass(1ms, 2);
  BOOST_TEST(bench.state.peers.size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_trainer_may_bind_as_late_as_its_own_agent_lets_it) {
  Bench bench;
  bench.greet(1);
  bench.pass(60min);
  BOOST_TEST(bench.state.peers.contains(PeerId{1}));
}

BOOST_AUTO_TEST_CASE(another_layout_is_refused) {
  Bench bench;
  bench.seat(1);
  bench.greet(2);
  bench.hear(2, Seated{Revision{}, INITIAL, Digest{8, 8}, 3, 1});
  BOOST_CHECK(bench.dismissed(2) == ErrorName::LayoutMismatch);
}

BOOST_AUTO_TEST_CASE(who_was_born_with_other_values_fetches_those_of_the_founder) {
  Bench bench;
  bench.seat(1);
  bench.seat(2, Digest{2, 2});
  const auto fetches = bench.sent<FetchState>();
  BOOST_REQUIRE(fetches.size() == 1U);
  BOOST_TEST(fetches[0].first == 2U);
  BOOST_TEST(fetches[0].second.donor.value == 1U);
  bench.hear(2, Fetched{Revision{}, INITIAL});
  BOOST_TEST(bench.sent<BeginStep>().size() == 2U);
}

BOOST_AUTO_TEST_CASE(who_tells_more_or_longer_addresses_than_are_taken_is_refused) {
  for (const auto& lanes :
       {Addresses(std::vector<Endpoint>(MAX_ADDRESSES + 1, Endpoint{"h", 1})), Addresses(Endpoint{std::string(256, 'h'), 1})}) {
    Bench bench;
    auto hello = Bench::hello_of(1);
    hello.lanes = lanes;
    bench.hear(1, hello);
    BOOST_CHECK(bench.dismissed(1) == ErrorName::ProtocolViolation);
  }
}

BOOST_AUTO_TEST_CASE(a_joiner_hears_of_other_members_that_may_pass_its_fetch_on) {
  Bench bench;
  bench.seat(1);
  bench.seat(2);
  bench.seat(3, Digest{2, 2});
  const auto fetches = bench.sent<FetchState>();
  BOOST_REQUIRE(fetches.size() == 1U);
  const auto& fetch = fetches[0].second;
  BOOST_REQUIRE(fetch.relays.size() == 1U);
  BOOST_TEST(fetch.relays[0].id.value + fetch.donor.value == 3U, "the one of both that is not the donor");
}

BOOST_AUTO_TEST_CASE(who_fetched_other_bits_than_it_was_sent_for_is_not_caught_up) {
  Bench bench;
  bench.seat(1);
  bench.seat(2, Digest{2, 2});
  bench.hear(2, Fetched{Revision{}, Digest{3, 3}});  // those of a founder that has gone, say
  BOOST_CHECK(!bench.dismissed(2));
  BOOST_TEST(bench.sent<BeginStep>().empty());
  BOOST_TEST(bench.sent<FetchState>().empty(), "the one that it was sent for is under way");
  bench.hear(2, Fetched{Revision{}, INITIAL});
  BOOST_TEST(bench.sent<BeginStep>().size() == 2U);
}

/// Two members, and one committed step.
Bench trained(std::uint64_t members = 2) {
  Bench bench{2, static_cast<std::uint32_t>(members), 9};
  bench.state.options.max_peers = 16;
  std::vector<std::uint64_t> all;
  for (std::uint64_t peer = 1; peer <= members; ++peer) {
    bench.seat(peer);
    all.push_back(peer);
  }
  bench.commit(all, Digest{5, 5});
  return bench;
}

Hello returning(std::uint64_t peer) {
  auto hello = Bench::hello_of(peer);
  hello.returning = true;
  return hello;
}

BOOST_AUTO_TEST_CASE(members_that_all_fall_silent_keep_their_seats_until_they_have_given_up_themselves) {
  auto bench = trained();
  bench.now += 10s + 1ms;  // in steps, or the coordinator takes itself for the one that was frozen
  for (int i = 0; i < 4; ++i) {
    bench.state.ticked = bench.now - 250ms;
    bench.tick();
    bench.now += 250ms;
  }
  BOOST_TEST(bench.state.view.members.size() == 2U);
  BOOST_TEST(bench.state.waiting.what == "the return of p1, p2, since nobody else holds the state");
  BOOST_TEST((bench.state.waiting.until == bench.state.waiting.since + 80s));

  auto back = bench;
  for (const std::uint64_t peer : {1U, 2U}) back.hear(peer, returning(peer));
  BOOST_TEST(back.sent<BeginStep>().size() == 1U);
  back.commit({1, 2}, Digest{6, 6});
  BOOST_TEST(back.state.revision.value == 2U);

  bench.pass(70s, 1);  // the second is heard again on the connection that it had; for the first nobody has to wait any more
  BOOST_TEST(bench.position_of<events::PeerReturned>().has_value());
  BOOST_TEST((bench.dismissed(1) == ErrorName::Evicted));
  BOOST_TEST(bench.state.peers.contains(PeerId{2}));
}

BOOST_AUTO_TEST_CASE(who_comes_back_first_gives_the_others_a_heartbeat_limit_more) {
  auto bench = trained(3);
  const auto tick_through = [&](Duration duration) {
    for (const auto end = bench.now + duration; bench.now < end; bench.now += 250ms) {
      bench.state.ticked = bench.now - 250ms;
      bench.tick();
    }
  };
  // Their last heartbeats were up to two seconds apart.
  bench.hear(1, Heartbeat{});
  bench.now += 2s;
  bench.hear(2, Heartbeat{});
  bench.hear(3, Heartbeat{});
  tick_through(30s);
  BOOST_TEST(bench.state.peers.size() == 3U);
  bench.hear(1, Heartbeat{});
  for (int second = 0; second < 9; ++second) {
    tick_through(1s);
    bench.hear(1, Heartbeat{});
  }
  BOOST_TEST(bench.state.peers.size() == 3U);
  bench.hear(2, Heartbeat{});
  for (int second = 0; second < 3; ++second) {
    tick_through(1s);
    bench.hear(1, Heartbeat{});
    bench.hear(2, Heartbeat{});
  }
  BOOST_TEST(bench.state.peers.size() == 2U);
  BOOST_TEST((bench.dismissed(3) == ErrorName::Evicted || !bench.state.peers.contains(PeerId{3})));
}

BOOST_AUTO_TEST_CASE(a_reduce_that_nobody_votes_in_does_not_cost_the_last_holder) {
  auto bench = trained();
  for (const std::uint64_t peer : {1U, 2U}) bench.ready(peer, 100);
  BOOST_TEST((bench.state.phase == Phase::Reducing));
  bench.pass(151s);
  BOOST_TEST(bench.state.view.members.size() == 1U);
  BOOST_TEST(bench.finished() == nullptr);
}

BOOST_AUTO_TEST_CASE(one_that_is_killed_and_one_that_falls_silent_at_the_same_moment_are_lost_together) {
  auto bench = trained(4);
  bench.state.plan.on_correlated_loss = LossPolicy::Pause;
  bench.lose(3);
  bench.pass(10s + 500ms, 4);
  BOOST_TEST(bench.position_of<events::CorrelatedLoss>().has_value());
}

BOOST_AUTO_TEST_CASE(who_says_goodbye_between_two_losses_is_not_waited_for) {
  auto bench = trained(6);
  bench.state.plan.on_correlated_loss = LossPolicy::Pause;
  bench.lose(6);
  bench.hear(5, Deathrattle{true, Error{ErrorName::PeerLost, "left"}});
  bench.lose(4);
  BOOST_TEST(bench.state.pause->members == 5U);
}

BOOST_AUTO_TEST_CASE(the_last_holder_of_the_state_may_come_back_over_another_connection_and_is_not_waited_for_for_ever) {
  auto bench = trained();
  bench.lose(1);
  BOOST_TEST(bench.state.view.members.size() == 1U);
  bench.cut(2);
  BOOST_TEST(bench.position_of<events::PeerAbsent>().has_value());
  bench.on(ProcessGone{PeerId{2}, "refused"});
  BOOST_TEST(bench.state.peers.contains(PeerId{2}), "a router may have refused in its name");
  BOOST_TEST(bench.finished() == nullptr);
  auto back = bench;
  back.hear(2, returning(2));
  BOOST_TEST(back.position_of<events::PeerReturned>().has_value());
  bench.pass(80s + 1ms, 2);
  BOOST_REQUIRE(bench.finished() != nullptr);
  BOOST_TEST(bench.finished()->cause->detail ==
             "the last peer that held revision 1 is gone; the last that was lost: p2: refused: this peer was evicted and is stale: it did "
             "not come back for "
             "80.0 s [PR0413]");
}

BOOST_AUTO_TEST_CASE(a_third_of_the_members_lost_at_once_pauses_the_run_until_others_take_their_places) {
  for (const bool pauses : {true, false}) {
    auto bench = trained(6);
    bench.state.plan.on_correlated_loss = pauses ? LossPolicy::Pause : LossPolicy::Continue;
    bench.lose(5);
    BOOST_TEST(!bench.position_of<events::CorrelatedLoss>().has_value());
    bench.pass(9s, 6);
    bench.lose(6);
    BOOST_TEST(bench.position_of<events::CorrelatedLoss>().has_value());
    for (const std::uint64_t peer : {1U, 2U, 3U, 4U}) bench.ready(peer, 100);
    BOOST_TEST(bench.sent<StartReduce>().empty() == pauses);
    if (!pauses) continue;
    BOOST_TEST(bench.state.waiting.what ==
               "peers: 4 of 6 are members; paused by the loss of several at once, goes on with these 10m00s after the wait began");

    auto replaced = bench;
    replaced.seat(7);
    replaced.hear(7, Fetched{Revision{1}, Digest{5, 5}});
    BOOST_TEST(replaced.sent<StartReduce>().empty());
    replaced.seat(8);
    replaced.hear(8, Fetched{Revision{1}, Digest{5, 5}});
    for (const std::uint64_t peer : {7U, 8U}) replaced.ready(peer, 0);
    BOOST_TEST(replaced.sent<StartReduce>().size() == 6U);

    auto left = bench;  // who says goodbye is not waited for
    left.hear(4, Deathrattle{true, Error{ErrorName::PeerLost, "left"}});
    BOOST_TEST(left.state.pause->members == 5U);

    bench.pass(10min + 1s);
    BOOST_TEST(bench.sent<StartReduce>().size() == 4U);
  }
}

BOOST_AUTO_TEST_CASE(a_second_correlated_loss_prolongs_the_pause_and_does_not_end_the_run) {
  auto bench = trained(6);
  bench.state.plan.on_correlated_loss = LossPolicy::Pause;
  bench.lose(5);
  bench.lose(6);
  bench.pass(9min);
  bench.lose(3);
  bench.lose(4);
  bench.pass(2min);
  BOOST_TEST(bench.finished() == nullptr);
  BOOST_TEST(bench.state.pause->members == 6U);
  for (const std::uint64_t peer : {1U, 2U}) bench.ready(peer, 100);
  bench.pass(9min);
  BOOST_TEST(bench.sent<StartReduce>().size() == 2U);
}

BOOST_AUTO_TEST_CASE(losses_that_are_a_heartbeat_limit_apart_are_not_correlated) {
  auto bench = trained(6);
  bench.state.plan.on_correlated_loss = LossPolicy::Pause;
  bench.lose(5);
  bench.pass(10s + 1ms);
  bench.lose(6);
  BOOST_TEST(!bench.state.pause.has_value());
}

BOOST_AUTO_TEST_CASE(when_the_founder_goes_the_one_that_fetched_from_it_founds_with_what_it_holds) {
  Bench bench;
  bench.seat(1);
  bench.seat(2, Digest{2, 2});
  bench.lose(1);  // the answer of peer 2 is on its way: nobody knows what it holds
  BOOST_TEST(!bench.state.digest.has_value());
  bench.hear(2, Fetched{Revision{}, INITIAL});
  BOOST_CHECK(bench.state.digest == INITIAL);
}

BOOST_AUTO_TEST_CASE(who_has_lost_its_donor_and_knows_no_other_may_have_fetched_all_the_same) {
  auto bench = Bench{};
  bench.seat(1);
  bench.seat(2);
  bench.seat(3, Digest{3, 3});
  BOOST_REQUIRE(bench.state.peers.at(PeerId{3}).fetch.donor == PeerId{1});
  bench.cut(2);
  bench.lose(1);
  bench.on(ProcessGone{PeerId{2}, "reset"});
  BOOST_CHECK((bench.journaled<events::StateFounded>().empty()));  // by values that peer 3 need not have any more
  bench.hear(3, Fetched{Revision{}, INITIAL});
  BOOST_CHECK(bench.state.digest == INITIAL);
  BOOST_CHECK(bench.state.peers.at(PeerId{3}).seat == Seat::CaughtUp);
}

BOOST_AUTO_TEST_CASE(a_fetch_that_moves_bytes_is_alive_and_one_that_does_not_costs_the_seat) {
  Bench bench;
  bench.seat(1);
  bench.seat(2, Digest{2, 2});
  for (std::uint64_t minute = 1; minute <= 7; ++minute) {
    bench.pass(1min);
    bench.hear(2, Heartbeat{0, minute});
  }
  bench.pass(150s);
  BOOST_CHECK(bench.state.peers.at(PeerId{2}).seat == Seat::Fetching);
  bench.pass(1ms);
  BOOST_CHECK(bench.dismissed(2) == ErrorName::DeadlineExceeded);
}

BOOST_AUTO_TEST_CASE(when_another_one_founds_meanwhile_the_late_fetch_is_repeated_and_punishes_nobody) {
  Bench bench;
  bench.seat(1);
  bench.seat(2, Digest{2, 2});
  bench.lose(1);
  bench.seat(3, Digest{3, 3});
  BOOST_CHECK(bench.state.digest == (Digest{3, 3}));
  bench.hear(2, Fetched{Revision{}, INITIAL});
  const auto fetches = bench.sent<FetchState>();
  BOOST_REQUIRE(fetches.size() == 1U);
  BOOST_TEST(fetches[0].second.donor.value == 3U);
}

BOOST_AUTO_TEST_CASE(that_a_donor_cannot_be_reached_which_has_just_fallen_silent_costs_nobody_a_seat) {
  Bench bench;
  bench.seat(1);
  bench.seat(2, Digest{2, 2});
  bench.pass(6s, 1);
  bench.state.peers.at(PeerId{2}).fetch.attempts = membership::MAX_FETCH_ATTEMPTS;
  bench.hear(2, FetchFailed{PeerId{1}, Revision{}, Error{ErrorName::FetchFailed}});
  BOOST_TEST(!bench.dismissed(2).has_value());
  BOOST_TEST(bench.state.peers.contains(PeerId{2}));
}

BOOST_AUTO_TEST_CASE(a_failed_fetch_is_tried_again_at_once_then_ever_later_and_given_up_after_eight) {
  Bench bench;
  bench.seat(1);
  bench.seat(2, Digest{2, 2});
  const auto fail_once = [&] { bench.hear(2, FetchFailed{PeerId{1}, Revision{}, Error{ErrorName::FetchFailed}}); };
  fail_once();
  BOOST_TEST(bench.sent<FetchState>().size() == 1U);
  for (std::uint32_t attempt = 2; attempt < membership::MAX_FETCH_ATTEMPTS; ++attempt) {
    fail_once();
    BOOST_TEST(bench.sent<FetchState>().empty());
    bench.now += 250ms * (attempt - 1) - 1ms;
    bench.tick();
    BOOST_TEST(bench.sent<FetchState>().empty());
    bench.now += 1ms;
    bench.tick();
    BOOST_TEST(bench.sent<FetchState>().size() == 1U);
  }
  bench.hear(1, Heartbeat{});  // it lives
  fail_once();
  BOOST_CHECK(bench.dismissed(2) == ErrorName::FetchFailed);
}

namespace {

/// Peer 1 holds the state, and 2 is sent to fetch it.
struct Fetching : Bench {
  Fetching() {
    seat(1);
    seat(2, Digest{2, 2});
  }
  /// The next revision, which 1 holds and nobody else.
  void commit_by_the_first(Digest digest) {
    state.revision = state.revision.next();
    state.shards.front().state = state.digest = digest;
    state.peers.at(PeerId{1}).seated.revision = state.revision;
    state.peers.at(PeerId{1}).seated.state = digest;
  }
  void fail() { hear(2, FetchFailed{PeerId{1}, state.revision, Error{ErrorName::FetchFailed}}); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_fetch_that_a_commit_overtook_once_it_was_whole_is_no_attempt_that_failed) {
  Fetching bench;
  auto& run = bench.state;
  membership::Effects effects;
  for (std::uint64_t revision = 0; revision <= membership::MAX_FETCH_ATTEMPTS; ++revision) {
    membership::fetched(run, PeerId{2}, Fetched{run.revision, *run.digest}, bench.now, effects);
    BOOST_CHECK(run.peers.at(PeerId{2}).seat == membership::Seat::CaughtUp);
    bench.commit_by_the_first(Digest{revision, 7});
    membership::refresh_fetches(run, bench.now, effects);
  }
  bench.fail();
  BOOST_CHECK(!bench.dismissed(2));
}

BOOST_AUTO_TEST_CASE(what_donors_could_not_serve_of_an_older_revision_costs_nobody_its_seat_at_the_next_one) {
  Fetching bench;
  for (std::uint32_t attempt = 1; attempt + 1 < membership::MAX_FETCH_ATTEMPTS; ++attempt) {
    bench.fail();
    bench.pass(250ms * attempt);
  }
  bench.fail();  // and while it waits for the next attempt a commit comes
  bench.commit_by_the_first(Digest{5, 7});
  bench.pass(250ms * membership::MAX_FETCH_ATTEMPTS);
  BOOST_REQUIRE(bench.told<FetchState>(2).revision == bench.state.revision);
  bench.fail();
  BOOST_CHECK(!bench.dismissed(2));
}

BOOST_AUTO_TEST_CASE(who_reaches_no_donor_is_dismissed_however_fast_revisions_follow_one_another) {
  Fetching bench;
  std::size_t failures = 0;
  for (std::uint64_t heard = 0; !bench.dismissed(2) && heard < 100; ++heard) {
    bench.fail();
    failures += bench.journaled<events::FetchFailed>().size();
    if (heard % 2 == 0) continue;
    bench.commit_by_the_first(Digest{heard, 7});
    std::vector<Effect> all;
    bench.hear_all(1s, 0, all);
  }
  BOOST_TEST(failures == membership::MAX_FETCH_FAILURES);
}

BOOST_AUTO_TEST_CASE(ranks_follow_the_order_of_arrival_and_not_the_ids) {
  Bench bench{2, 3};
  for (const std::uint64_t peer : {30U, 10U, 20U}) bench.seat(peer);
  const auto begun = bench.sent<BeginStep>();
  BOOST_REQUIRE(begun.size() == 3U);
  for (const auto& [to, begin] : begun) BOOST_TEST(begin.view.members[begin.rank].id.value == to);
  BOOST_TEST(begun[0].first == 30U);
  BOOST_TEST(begun[1].first == 10U);
}

BOOST_AUTO_TEST_CASE(a_run_that_nobody_joins_fails_by_name_after_the_wait_limit) {
  Bench bench;
  bench.seat(1);
  bench.pass(10min);
  BOOST_TEST(bench.finished() == nullptr);
  bench.pass(1ms);
  BOOST_REQUIRE(bench.finished() != nullptr);
  BOOST_CHECK(bench.finished()->cause->name == ErrorName::TooFewPeers);
}

namespace {

/// A run of one step whose only step was just committed by peers 1 and 2.
Bench last_step_committed(const std::function<void(Bench&)>& before) {
  Bench bench{2, 2, 1};
  bench.seat(1);
  bench.seat(2);
  before(bench);
  bench.commit({1, 2}, Digest{5, 5});
  return bench;
}

bool is_fenced(const Bench& bench, std::uint64_t peer) {
  return std::any_of(bench.effects.begin(), bench.effects.end(), [&](const Effect& effect) {
    const auto* fence = std::get_if<Fence>(&effect);
    return fence != nullptr && fence->peer.value == peer;
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(who_did_not_make_it_before_the_last_commit_is_told_that_the_run_is_done_and_was_not_lost) {
  const std::function<void(Bench&)> joiners[] = {
      [](Bench& bench) { bench.greet(3); },  // its trainer is being started
      [](Bench& bench) {
        bench.seat(3, Digest{2, 2});
      },                  // fetches
      [](Bench& bench) {  // waits for another donor
        bench.seat(3, Digest{2, 2});
        for (int i = 0; i < 2; ++i) bench.hear(3, FetchFailed{PeerId{1}, Revision{}, Error{ErrorName::FetchFailed}});
      },
  };
  for (const auto& joiner : joiners) {
    const auto bench = last_step_committed(joiner);
    BOOST_CHECK(bench.dismissed(3) == ErrorName::RunDone);
    BOOST_TEST(is_fenced(bench, 3));
    BOOST_TEST(!bench.position_of<events::PeerLost>().has_value());
    BOOST_TEST(bench.position_of<events::PeerLeft>().has_value());
    BOOST_TEST(!bench.state.peers.contains(PeerId{3}));
  }
}

BOOST_AUTO_TEST_CASE(a_hello_while_the_finalist_evaluates_is_told_that_the_run_is_done) {
  auto bench = last_step_committed([](Bench&) {});
  bench.greet(3);
  BOOST_CHECK(bench.dismissed(3) == ErrorName::RunDone);
  BOOST_TEST(bench.finished() == nullptr);
}

BOOST_AUTO_TEST_CASE(a_hello_after_the_end_is_answered_too) {
  auto bench = last_step_committed([](Bench&) {});
  bench.hear(1, StateSaved{"/final", ""});
  bench.hear(1, FinalReport{});
  bench.hear(2, FinalReport{});
  BOOST_REQUIRE(bench.finished() != nullptr);
  bench.greet(3);
  BOOST_CHECK(bench.dismissed(3) == ErrorName::RunDone);
  BOOST_TEST(bench.finished() == nullptr);

  Bench failed;
  failed.seat(1);
  failed.pass(10min + 1ms);
  BOOST_REQUIRE(failed.finished() != nullptr);
  failed.greet(3);
  BOOST_CHECK(failed.dismissed(3) == ErrorName::RunDone);
  BOOST_TEST(failed.sent<Dismissed>()[0].second.cause.detail.find("failed") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_wait_limit_names_the_quorum_that_was_waited_for) {
  Bench bench{2, 4};
  bench.seat(1);
  bench.seat(2);
  bench.pass(10min + 1ms);
  BOOST_REQUIRE(bench.finished() != nullptr);
  BOOST_TEST(bench.finished()->cause->detail == "2 of 4 after 10m00s");
}

BOOST_AUTO_TEST_CASE(who_is_here_and_who_comes_later_hears_where_the_run_may_be_served) {
  Bench bench;
  bench.greet(1);
  BOOST_TEST(bench.sent<Coordinators>().empty(), "nobody stands by");
  const std::vector<Addresses> addresses{Endpoint{"a", 1}, Endpoint{"b", 2}};
  bench.on(Coordinators{addresses});
  BOOST_REQUIRE(bench.sent<Coordinators>().size() == 1U);
  BOOST_TEST(bench.sent<Coordinators>()[0].first == 1U);
  bench.greet(2);
  BOOST_REQUIRE(bench.sent<Coordinators>().size() == 1U);
  BOOST_TEST(bench.sent<Coordinators>()[0].first == 2U);
  BOOST_CHECK(bench.sent<Coordinators>()[0].second.addresses == addresses);
  bench.hear(2, Heartbeat{});
  BOOST_TEST(bench.sent<Coordinators>().empty());
}

BOOST_AUTO_TEST_CASE(what_is_waited_for_is_recorded_with_its_phase) {
  Bench bench;
  const auto phase = [&] { return bench.journaled<events::Waiting>().at(0).phase; };
  bench.greet(1);
  BOOST_CHECK(phase() == Phase::Waiting);
  bench.hear(1, Seated{Revision{}, INITIAL, LAYOUT, 3, 1});
  bench.seat(2);
  BOOST_CHECK(phase() == Phase::Training);
}

BOOST_AUTO_TEST_SUITE_END()
