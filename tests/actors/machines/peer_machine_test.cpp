// Owns the tests of the peer's machine: exact virtual times, doubt, discarding, farewells.
#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "peer_bench.hpp"

BOOST_AUTO_TEST_SUITE(peer_machine)

using namespace prime;
using namespace prime::peer;

BOOST_AUTO_TEST_CASE(it_says_how_much_it_has_moved_as_it_begins_a_reduce_or_a_fetch) {
  Bench bench;
  bench.seat();
  bench.state.moved_bytes = 7;
  bench.hear(FetchState{PeerId{2}, {}, Revision{1}, NEXT});
  BOOST_TEST(bench.told<Heartbeat>().value_or(Heartbeat{}).moved_bytes == 7U);
  Bench reducing;
  reducing.seat().begin().contribute();
  reducing.state.moved_bytes = 9;
  reducing.reduce();
  BOOST_TEST(reducing.told<Heartbeat>().value_or(Heartbeat{}).moved_bytes == 9U);
}

BOOST_AUTO_TEST_CASE(a_coordinator_that_is_silent_for_most_of_ten_seconds_is_looked_for_and_then_given_up_and_the_state_is_saved) {
  Bench bench;
  bench.seat().begin();
  bench.pass(7500ms);
  BOOST_TEST(!bench.state.absence.has_value());
  bench.pass(1ms);
  BOOST_TEST(bench.effect<Redial>().has_value());
  bench.pass(60s);
  BOOST_TEST(!bench.effect<End>().has_value());
  bench.pass(1ms);
  BOOST_TEST(bench.effect<SaveState>().has_value());
  BOOST_REQUIRE(bench.end().has_value());
  BOOST_CHECK(bench.end()->cause->name == ErrorName::CoordinatorLost);
}

BOOST_AUTO_TEST_CASE(a_lane_that_is_relayed_is_told_to_the_coordinator) {
  Bench bench;
  bench.seat().begin();
  bench.on(WayChanged{PeerId{2}, PeerId{3}});
  BOOST_REQUIRE(bench.told<LaneRelayed>().has_value());
  BOOST_CHECK(bench.told<LaneRelayed>()->to == PeerId{2} && bench.told<LaneRelayed>()->through == PeerId{3});
}

BOOST_AUTO_TEST_CASE(a_trainer_of_a_replica_begins_a_step_anew_with_the_others_of_it) {
  Bench bench;
  bench.state.options.hello.replica = "r";
  bench.seat().begin().contribute();
  const auto again = [&](std::uint32_t attempt) {
    BeginStep begin{Bench::view(), OuterStep{1}, Revision{}, true, 0, 0};
    begin.attempt = attempt;
    bench.hear(begin);
  };
  again(0);  // a coordinator that came back has forgotten nothing that matters
  BOOST_TEST(bench.told<Ready>().has_value());
  again(1);
  BOOST_TEST(bench.effect<StartTrainerOver>().has_value());
  BOOST_CHECK(bench.state.phase == Phase::Training);
  bench.contribute();  // on its way since before that
  BOOST_TEST(!bench.told<Ready>().has_value());
  bench.on(TrainerRestarting{Error{ErrorName::Interrupted, "told so"}});
  BOOST_TEST(!bench.told<TrainerRestarted>().has_value());
  bench.on(TrainerBound{Digest{7, 7}, 3, INITIAL, Revision{}, 2});
  BOOST_TEST(bench.effect<BeginTraining>().has_value());
  bench.contribute();
  BOOST_REQUIRE(bench.told<Ready>().has_value());
  BOOST_TEST(bench.told<Ready>()->attempt == 1U);
  again(0);
  BOOST_TEST(bench.told<Ready>()->attempt == 1U);
}

BOOST_AUTO_TEST_CASE(who_makes_some_fragments_anew_has_told_of_the_others) {
  Bench bench;
  bench.state.options.hello.replica = "r";
  bench.state.options.fragments = 3;
  bench.seat().begin();
  const auto publish = [&](Fragments fragments) {
    bench.on(TrainerContributed{.step = OuterStep{1},
                                .base = {},
                                .weight = 64,
                                .samples = 16,
                                .loss = Real{2.5},
                                .held_out = {},
                                .tokens_per_s = Real{1.0},
                                .fragments = std::move(fragments)});
  };
  publish({0, 1});
  BeginStep anew{Bench::view(), OuterStep{1}, Revision{}, true, 0, 0};
  anew.attempt = 1;
  anew.fragments = {1, 2};
  bench.hear(anew);
  BOOST_TEST((bench.told<Ready>() && bench.told<Ready>()->fragments == Fragments{0}), "it may be lost with a connection");
  bench.on(TrainerRestarting{Error{ErrorName::Interrupted, "told so"}});
  bench.on(TrainerBound{Digest{7, 7}, 3, INITIAL, Revision{}, 2});
  BOOST_TEST(bench.effect<BeginTraining>().value().begin.fragments == (Fragments{1, 2}), boost::test_tools::per_element());
  publish({1});
  BOOST_CHECK(bench.state.phase == Phase::Training);
  publish({2});
  BOOST_CHECK(bench.state.phase == Phase::Ready);
  bench.begin();  // a coordinator that was restarted
  std::vector<Fragments> told;
  for (const auto& effect : bench.effects)
    if (const auto* tell = std::get_if<Tell>(&effect))
      if (const auto* ready = std::get_if<Ready>(&tell->message)) {
        BOOST_TEST(ready->attempt == 1U);
        told.push_back(ready->fragments);
      }
  BOOST_CHECK((told == std::vector<Fragments>{{0}, {1}, {2}}));
}

BOOST_AUTO_TEST_CASE(where_trainers_go_on_with_what_they_have_those_of_a_replica_begin_with_the_same) {
  const auto next = [](std::uint32_t attempt) {
    BeginStep begin{Bench::view(), OuterStep{2}, Revision{}, true, 0, 10};
    begin.attempt = attempt;
    begin.overlaps = true;
    return begin;
  };
  for (const bool streams : {false, true}) {
    Bench bench;
    bench.state.options.hello.replica = "r";
    bench.state.options.streams = streams;
    bench.seat().begin().contribute();
    bench.on(TrainerRestarting{Error{ErrorName::ProcessFailed, "killed"}});
    bench.on(TrainerBound{Digest{7, 7}, 3, INITIAL, Revision{}, 2});
    bench.hear(next(0));
    BOOST_TEST(bench.told<TrainerRestarted>().has_value() == streams);
    Bench missed;  // the first attempt at it
    missed.state.options.hello.replica = "r";
    missed.state.options.streams = streams;
    missed.seat().begin().contribute();
    missed.hear(next(1));
    BOOST_TEST(missed.effect<StartTrainerOver>().has_value() == streams);
    BOOST_TEST(missed.effect<BeginTraining>().has_value() == !streams);
  }
}

BOOST_AUTO_TEST_CASE(what_the_trainer_says_of_its_data_is_told_and_recorded_and_may_not_change) {
  const DataIdentity data{Digest{5, 5}, "7 files"};
  Bench bench;
  bench.hear(Welcome{0, ""});
  bench.on(TrainerBound{Digest{7, 7}, 3, INITIAL, Revision{}, 1, data, {}, "cuda:0"});
  BOOST_REQUIRE(bench.told<Seated>().has_value());
  BOOST_TEST((bench.told<Seated>()->data == data));
  BOOST_TEST(std::get<events::TrainerBound>(bench.effect<JournalEvent>().value()).data.value_or("") == "7 files");
  BOOST_TEST(std::get<events::TrainerBound>(bench.effect<JournalEvent>().value()).device.value_or("") == "cuda:0");
  bench.on(TrainerRestarting{Error{ErrorName::ProcessFailed, "killed"}});
  bench.on(TrainerBound{Digest{7, 7}, 3, INITIAL, Revision{}, 2, {Digest{6, 6}, "9 files"}});
  BOOST_REQUIRE(bench.told<Deathrattle>().has_value());
  BOOST_TEST(
      (bench.told<Deathrattle>()->cause == Error{ErrorName::DataMismatch, "the restarted trainer finds 9 files; before it found 7 files"}));
}

BOOST_AUTO_TEST_CASE(a_trainer_that_dies_before_it_has_contributed_is_told_of_where_others_wait_for_it) {
  Bench bench;
  bench.seat().begin();
  bench.on(TrainerRestarting{Error{ErrorName::ProcessFailed, "killed"}});
  BOOST_TEST(!bench.told<TrainerRestarted>().has_value());  // it is alone in its replica
  bench.state.options.hello.replica = "r";
  bench.on(TrainerBound{Digest{7, 7}, 3, INITIAL, Revision{}, 2});
  bench.on(TrainerRestarting{Error{ErrorName::ProcessFailed, "killed"}});
  BOOST_REQUIRE(bench.told<TrainerRestarted>().has_value());
  BOOST_CHECK(bench.told<TrainerRestarted>()->step == OuterStep{1});
  bench.begin();  // the coordinator is back
  BOOST_TEST(bench.told<TrainerRestarted>().has_value());
  // One that is just being started begins with the newest attempt.
  BeginStep begin{Bench::view(), OuterStep{1}, Revision{}, true, 0, 0};
  begin.attempt = 1;
  bench.hear(begin);
  BOOST_TEST(!bench.effect<StartTrainerOver>().has_value());
  bench.on(TrainerBound{Digest{7, 7}, 3, INITIAL, Revision{}, 3});
  BOOST_TEST(bench.effect<BeginTraining>().value().begin.attempt == 1U);
  bench.contribute();
  bench.on(TrainerRestarting{Error{ErrorName::ProcessFailed, "killed"}});
  BOOST_TEST(!bench.told<TrainerRestarted>().has_value());  // what it has contributed stays
}

BOOST_AUTO_TEST_CASE(a_lost_coordinator_is_dialed_once_at_a_time_and_less_and_less_often) {
  Bench bench;
  bench.seat().begin();
  bench.on(CoordinatorLost{"reset"});
  BOOST_TEST(bench.effect<Redial>().has_value());
  bench.pass(30s);
  BOOST_TEST(!bench.effect<Redial>().has_value());  // the first attempt has not ended
  Duration pause = REDIAL_AFTER;
  for (int attempt = 0; attempt < 6; ++attempt, pause = std::min(2 * pause, REDIAL_AFTER_AT_MOST)) {
    bench.on(RedialFailed{Error{ErrorName::RunUnreachable}});
    bench.pass(pause - 1ms);
    BOOST_TEST(!bench.effect<Redial>().has_value());
    bench.pass(1ms);
    BOOST_TEST(bench.effect<Redial>().has_value());
  }
}

BOOST_AUTO_TEST_CASE(a_lost_coordinator_is_looked_for_wherever_it_said_that_the_run_may_be_served_and_no_more_than_that_is_believed) {
  Bench bench;
  bench.seat().begin();
  bench.hear(Coordinators{std::vector<Addresses>(MAX_COORDINATORS + 3, Endpoint{"a", 1})});
  bench.hear(Coordinators{{Endpoint{"a", 1}, Endpoint{"b", 2}}});
  bench.on(CoordinatorLost{"reset"});
  BOOST_CHECK(bench.effect<Redial>().value().others == (std::vector<Addresses>{Endpoint{"a", 1}, Endpoint{"b", 2}}));
  bench.on(CoordinatorBack{});
  bench.hear(Coordinators{std::vector<Addresses>(MAX_COORDINATORS + 3, Endpoint{"a", 1})});
  bench.on(CoordinatorLost{"reset"});
  BOOST_TEST(bench.effect<Redial>().value().others.size() == MAX_COORDINATORS);
}

BOOST_AUTO_TEST_CASE(a_member_whose_coordinator_is_back_is_told_what_it_missed_and_says_again_what_it_knows) {
  Bench bench;
  bench.seat().begin().contribute();
  bench.on(CoordinatorLost{"reset"});
  bench.on(CoordinatorBack{});
  BOOST_REQUIRE(bench.told<Hello>().has_value());
  BOOST_TEST(bench.told<Hello>()->returning);
  bench.begin();
  BOOST_TEST(!bench.effect<BeginTraining>().has_value());
  BOOST_REQUIRE(bench.told<Ready>().has_value());
  BOOST_TEST(bench.told<Ready>()->weight == 100U);
  // Of what it has in hand it asks at once, since what was decided about that may have been told to the connection that broke.
  bench.reduce().vote();
  bench.on(CoordinatorLost{"reset"});
  bench.on(CoordinatorBack{});
  BOOST_REQUIRE(bench.told<InDoubt>().has_value());
  BOOST_TEST((bench.told<InDoubt>()->op == OP));
  bench.hear(Abort{OP, "restarted"});
  BOOST_TEST(bench.effect<Discard>().has_value());
  BOOST_CHECK(bench.state.phase == Phase::Ready);
}

BOOST_AUTO_TEST_CASE(a_joiner_whose_coordinator_is_back_takes_its_seat_again_when_its_fetch_has_ended) {
  Bench bench;
  bench.seat();
  bench.hear(FetchState{PeerId{2}, {}, Revision{3}, NEXT});
  bench.on(CoordinatorLost{"reset"});
  bench.on(CoordinatorBack{});
  BOOST_TEST(!bench.told<Hello>()->returning);
  bench.hear(Welcome{0, ""});
  BOOST_TEST(!bench.told<Seated>().has_value());
  bench.on(FetchEnded{Revision{3}, NEXT});
  BOOST_REQUIRE(bench.told<Seated>().has_value());
  BOOST_TEST(bench.told<Seated>()->revision.value == 3U);
}

BOOST_AUTO_TEST_CASE(a_peer_that_was_frozen_itself_does_not_take_its_own_silence_for_the_coordinator_s) {
  Bench bench;
  bench.seat().begin();
  bench.freeze(60min);
  BOOST_TEST(!bench.state.absence.has_value());
  bench.pass(7500ms);
  BOOST_TEST(!bench.state.absence.has_value());
  bench.pass(1ms);
  BOOST_TEST(bench.state.absence.has_value());
}

BOOST_AUTO_TEST_CASE(where_the_run_may_be_rolled_back_every_member_writes_the_checkpoint_and_nobody_what_is_void) {
  for (const bool all : {false, true}) {
    Bench bench;
    bench.state.options.hello.peer = PeerId{2};  // of rank 1
    bench.on(Configured{1, 1s, 10s, 1, 1min, all, 1min});
    bench.seat().begin();
    bench.contribute().reduce().vote();
    bench.hear(Commit{OP, OuterStep{1}, Revision{1}, NEXT, 0, NEXT});
    BOOST_REQUIRE(bench.effect<SaveState>().has_value());  // what its trainer keeps for itself is each one's own to save
    BOOST_TEST(bench.effect<SaveState>()->shared == all);
    BOOST_TEST(!bench.effect<SaveState>()->late);
    if (all) {  // asked for before it is applied, so that it is that one
      BOOST_CHECK(bench.effect<SaveState>()->of == Revision{1});
      const auto at = [&](auto kind) {
        return std::find_if(bench.effects.begin(), bench.effects.end(),
                            [](const auto& e) { return std::holds_alternative<decltype(kind)>(e); });
      };
      BOOST_TEST((at(SaveState{}) < at(ApplyCommit{})));
    }
    bench.hear(Dismissed{Error{ErrorName::RolledBack}});
    BOOST_TEST(!bench.effect<SaveState>().has_value());
    BOOST_CHECK(bench.end()->cause->name == ErrorName::RolledBack);
    BOOST_TEST(joins_anew(*bench.end()->cause));
  }
}

BOOST_AUTO_TEST_CASE(who_is_not_welcome_yet_greets_the_coordinator_that_comes_back) {
  Bench bench;
  bench.on(CoordinatorLost{"its connection closed"});
  BOOST_TEST(!bench.effect<End>().has_value());
  BOOST_TEST(bench.effect<Redial>().has_value());
  bench.on(RedialFailed{Error{ErrorName::RunUnreachable}});
  bench.pass(REDIAL_AFTER);
  BOOST_TEST(bench.effect<Redial>().has_value());
  bench.on(CoordinatorBack{});
  BOOST_REQUIRE(bench.told<Hello>().has_value());
  BOOST_TEST(!bench.told<Hello>()->returning);
  bench.seat();
  BOOST_CHECK(bench.state.phase == Phase::Waiting);
}

BOOST_AUTO_TEST_CASE(who_was_never_welcome_could_not_reach_the_run) {
  Bench closed;
  const auto limit = closed.state.options.coordinator_grace;
  closed.on(CoordinatorLost{"its connection closed"});
  closed.pass(limit + 1ms);
  BOOST_REQUIRE(closed.end().has_value());
  BOOST_CHECK(closed.end()->cause->name == ErrorName::RunUnreachable);
  Bench silent;
  silent.pass(10s + 1ms);
  BOOST_TEST(!silent.effect<End>().has_value());
  silent.pass(limit + 1ms);
  BOOST_REQUIRE(silent.end().has_value());
  BOOST_CHECK(silent.end()->cause->name == ErrorName::RunUnreachable);
}

BOOST_AUTO_TEST_CASE(a_new_peer_takes_the_place_of_one_that_was_cut_off_but_not_of_one_whose_data_or_memory_is_bad) {
  for (const auto name : {ErrorName::Evicted, ErrorName::LaneBroken, ErrorName::DeadlineExceeded, ErrorName::FetchFailed})
    BOOST_TEST(joins_anew(Error{name}));
  for (const auto name : {ErrorName::ParityBroken, ErrorName::NonFiniteValue, ErrorName::LayoutMismatch, ErrorName::TrainerFailed,
                          ErrorName::RunDone, ErrorName::RunStopped, ErrorName::CoordinatorLost, ErrorName::RunUnreachable})
    BOOST_TEST(!joins_anew(Error{name}));
}

BOOST_AUTO_TEST_CASE(heartbeats_go_out_every_two_seconds) {
  Bench bench;
  bench.seat();
  bench.pass(1999ms);
  BOOST_TEST(!bench.told<Heartbeat>().has_value());
  bench.pass(1ms);
  BOOST_TEST(bench.told<Heartbeat>().has_value());
}

BOOST_AUTO_TEST_CASE(a_voter_asks_after_five_seconds_and_neither_applies_nor_discards_by_itself) {
  Bench bench;
  bench.seat().begin().contribute().reduce().vote();
  BOOST_TEST(bench.told<Vote>().has_value());
  bench.pass(4999ms);
  BOOST_TEST(!bench.told<InDoubt>().has_value());
  bench.pass(1ms);
  BOOST_TEST(bench.told<InDoubt>().has_value());
  BOOST_TEST(!bench.effect<ApplyCommit>().has_value());
  BOOST_TEST(!bench.effect<Discard>().has_value());
  bench.pass(4999ms);
  BOOST_TEST(!bench.told<InDoubt>().has_value());
}

BOOST_AUTO_TEST_CASE(an_abort_after_the_vote_discards_what_was_prepared_and_the_next_reduce_uses_the_same_input) {
  Bench bench;
  bench.seat().begin().contribute().reduce().vote();
  bench.hear(Abort{OP, "a peer was lost"});
  BOOST_REQUIRE(bench.effect<Discard>().has_value());
  BOOST_CHECK(bench.effect<Discard>()->op == OP);
  bench.reduce(OperationId{Epoch{2}, Sequence{2}});
  BOOST_TEST(bench.effect<RunReduce>().has_value());
}

BOOST_AUTO_TEST_CASE(an_operation_that_ends_after_its_abort_is_discarded_and_not_voted_for) {
  Bench bench;
  bench.seat().begin().contribute().reduce();
  bench.hear(Abort{OP, "a peer was lost"});
  BOOST_TEST(bench.effect<AbortReduce>().has_value());
  bench.reduce(OperationId{Epoch{2}, Sequence{2}});
  bench.vote();
  BOOST_TEST(!bench.told<Vote>().has_value());
  BOOST_TEST(bench.effect<Discard>().has_value());
}

BOOST_AUTO_TEST_CASE(a_commit_of_other_bits_than_were_prepared_is_never_applied) {
  Bench bench;
  bench.seat().begin().contribute().reduce().vote();
  bench.hear(Commit{OP, OuterStep{1}, Revision{1}, Digest{9, 9}, 0, Digest{9, 9}});
  BOOST_TEST(!bench.effect<ApplyCommit>().has_value());
  BOOST_CHECK(bench.end()->cause->name == ErrorName::ParityBroken);
}

BOOST_AUTO_TEST_CASE(a_commit_that_is_told_twice_is_applied_once) {
  Bench bench;
  bench.seat().begin().contribute().reduce().vote();
  const Commit commit{OP, OuterStep{1}, Revision{1}, NEXT, 0, NEXT};
  bench.hear(commit);
  BOOST_TEST(bench.effect<ApplyCommit>().has_value());
  bench.hear(commit);
  BOOST_TEST(bench.effects.empty());
  BOOST_TEST(bench.state.revision.value == 1U);
}

BOOST_AUTO_TEST_CASE(messages_of_an_older_epoch_are_refused) {
  Bench bench;
  bench.seat().begin().contribute();
  bench.reduce(OperationId{Epoch{0}, Sequence{1}});
  BOOST_TEST(!bench.effect<RunReduce>().has_value());
}

BOOST_AUTO_TEST_CASE(a_restarted_trainer_does_the_inner_steps_again_and_the_final_evaluation_too) {
  Bench bench;
  bench.seat().begin();
  bench.on(TrainerRestarting{Error{ErrorName::ProcessFailed}});
  bench.on(TrainerBound{Digest{7, 7}, 3, INITIAL, Revision{}, 2});
  BOOST_TEST(bench.effect<BeginTraining>().has_value());
  bench.contribute().reduce().vote();
  bench.hear(Commit{OP, OuterStep{1}, Revision{1}, NEXT, 0, NEXT});
  bench.hear(RunDone{OuterStep{1}, Revision{1}, NEXT, false, {1, 2}});
  BOOST_TEST(bench.effect<FinishTraining>().has_value());
  bench.on(TrainerRestarting{Error{ErrorName::ProcessFailed}});
  bench.on(TrainerBound{Digest{7, 7}, 3, NEXT, 3});
  BOOST_TEST(bench.effect<FinishTraining>().has_value());
}

BOOST_AUTO_TEST_CASE(one_fetch_runs_at_a_time_and_the_newest_order_is_the_one_that_counts) {
  Bench bench;
  bench.seat();
  bench.hear(FetchState{PeerId{2}, {}, Revision{3}, NEXT});
  BOOST_TEST(bench.effect<StartFetch>().has_value());
  bench.hear(FetchState{PeerId{3}, {}, Revision{3}, NEXT});
  BOOST_TEST(!bench.effect<StartFetch>().has_value());
  BOOST_REQUIRE(bench.effect<StopFetch>().has_value());
  BOOST_TEST(bench.effect<StopFetch>()->fetch.donor.value == 2U, "a donor that is gone may be mute for long");
  bench.on(FetchEnded{Revision{3}, fail(ErrorName::PeerLost)});
  BOOST_REQUIRE(bench.effect<StartFetch>().has_value());
  BOOST_TEST(bench.effect<StartFetch>()->fetch.donor.value == 3U);
  BOOST_TEST(!bench.told<FetchFailed>().has_value());
  bench.on(FetchEnded{Revision{3}, NEXT});
  BOOST_TEST(bench.told<Fetched>().has_value());
}

BOOST_AUTO_TEST_CASE(what_is_held_already_is_not_fetched_again) {
  Bench bench;
  bench.seat();
  bench.hear(FetchState{PeerId{2}, {}, Revision{3}, NEXT});
  bench.on(FetchEnded{Revision{3}, NEXT});
  bench.hear(FetchState{PeerId{3}, {}, Revision{3}, NEXT});
  BOOST_TEST(!bench.effect<StartFetch>().has_value());
  BOOST_TEST(bench.told<Fetched>().has_value());
}

BOOST_AUTO_TEST_CASE(a_dismissal_in_the_middle_of_a_reduce_aborts_it_and_saves_the_committed_state) {
  Bench bench;
  bench.seat().begin().contribute().reduce();
  bench.hear(Dismissed{Error{ErrorName::Evicted, "silent"}});
  BOOST_TEST(bench.effect<AbortReduce>().has_value());
  BOOST_TEST(bench.effect<SaveState>().has_value());
  BOOST_CHECK(bench.end()->cause->name == ErrorName::Evicted);
}

BOOST_AUTO_TEST_CASE(who_waits_for_the_others_of_its_replica_notes_for_whom_and_when_that_is_over) {
  Bench bench;
  bench.state.options.hello.replica = "north";
  bench.hear(Welcome{0, ""});
  bench.hear(ReplicaLacks{"shard 1"});
  BOOST_CHECK((bench.effect<JournalEvent>() == JournalEvent{events::ReplicaWaits{"north", "shard 1"}}));
  BOOST_CHECK(bench.state.phase == Phase::Seating);
  bench.hear(ReplicaLacks{});
  BOOST_CHECK(bench.effect<JournalEvent>() == JournalEvent{events::ReplicaWhole{"north"}});
}

BOOST_AUTO_TEST_SUITE_END()
