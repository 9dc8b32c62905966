// Owns the tests of a peer that leaves: farewells, answers, what is saved, and a coordinator that is away just then.
#include <boost/test/unit_test.hpp>

#include "peer_bench.hpp"

BOOST_AUTO_TEST_SUITE(peer_leaving)

using namespace prime;
using namespace prime::peer;

BOOST_AUTO_TEST_CASE(who_leaves_takes_the_answer_with_it_and_saves_when_it_is_the_last) {
  for (const auto name : {ErrorName::PeerLost, ErrorName::RunStopped}) {
    Bench bench;
    bench.seat().begin();
    bench.on(LeaveRequested{});
    BOOST_TEST(bench.told<Deathrattle>()->graceful);
    BOOST_TEST(!bench.effect<End>().has_value());
    bench.hear(Dismissed{Error{name}});
    BOOST_TEST(bench.effect<SaveState>().has_value() == (name == ErrorName::RunStopped));
    BOOST_REQUIRE(bench.end().has_value());
    BOOST_TEST(!bench.end()->cause.has_value());
  }
  Bench unanswered;
  unanswered.seat().begin();
  unanswered.on(LeaveRequested{});
  unanswered.pass(LEAVE_LIMIT);
  BOOST_TEST(!unanswered.effect<End>().has_value());
  unanswered.pass(1ms);
  BOOST_TEST(unanswered.effect<SaveState>().has_value());
  BOOST_TEST(unanswered.end().has_value());
}

BOOST_AUTO_TEST_CASE(the_state_is_saved_even_while_the_trainer_is_down) {
  Bench bench;
  bench.seat().begin();
  bench.on(TrainerRestarting{Error{ErrorName::ProcessFailed}});
  bench.on(CoordinatorLost{"reset"});
  bench.on(LeaveRequested{});
  bench.pass(LEAVE_LIMIT + 1ms);
  BOOST_TEST(bench.effect<SaveState>().has_value());
}

BOOST_AUTO_TEST_CASE(who_never_held_the_run_saves_nothing) {
  Bench bench;
  bench.seat();
  bench.on(CoordinatorLost{"reset"});
  bench.on(LeaveRequested{});
  bench.pass(LEAVE_LIMIT + 1ms);
  BOOST_TEST(!bench.effect<SaveState>().has_value());
  BOOST_TEST(bench.end().has_value());
}

BOOST_AUTO_TEST_CASE(who_was_never_welcome_and_is_asked_to_leave_goes_at_once) {
  Bench bench;
  bench.on(CoordinatorLost{"its connection closed"});
  bench.on(LeaveRequested{});
  BOOST_REQUIRE(bench.end().has_value());
  BOOST_TEST(!bench.end()->cause.has_value());
}

BOOST_AUTO_TEST_CASE(who_leaves_while_the_coordinator_is_away_says_goodbye_to_the_one_that_comes_back) {
  Bench bench;
  bench.seat().begin();
  bench.on(CoordinatorLost{"reset"});
  bench.on(RedialFailed{Error{ErrorName::RunUnreachable}});
  bench.on(LeaveRequested{});
  BOOST_TEST(!bench.effect<End>().has_value());
  BOOST_TEST(!bench.told<Deathrattle>().has_value(), "nobody would hear it");
  BOOST_TEST(bench.effect<Redial>().has_value(), "at once");
  bench.on(RedialFailed{Error{ErrorName::RunUnreachable}});
  bench.pass(REDIAL_AFTER);
  BOOST_TEST(bench.effect<Redial>().has_value());
  bench.on(CoordinatorBack{});
  BOOST_REQUIRE(bench.effects.size() == 3);  // the record first
  BOOST_TEST(std::get<Hello>(std::get<Tell>(bench.effects[1]).message).returning);
  BOOST_TEST(std::get<Deathrattle>(std::get<Tell>(bench.effects[2]).message).graceful);
  bench.hear(BeginStep{Bench::view(), OuterStep{1}, Revision{}, true, 0, 0});
  bench.hear(Dismissed{Error{ErrorName::PeerLost, "left"}});
  BOOST_REQUIRE(bench.end().has_value());
  BOOST_TEST(!bench.end()->cause.has_value());
}

BOOST_AUTO_TEST_CASE(who_voted_and_leaves_while_the_coordinator_is_away_saves_what_that_one_has_decided) {
  Bench bench;
  bench.seat().begin().contribute().reduce().vote();
  bench.on(CoordinatorLost{"reset"});
  bench.on(LeaveRequested{});
  bench.on(CoordinatorBack{});
  bench.hear(Commit{OP, OuterStep{1}, Revision{1}, NEXT, 0, NEXT});
  BOOST_TEST(bench.effect<ApplyCommit>().has_value());
  bench.hear(Dismissed{Error{ErrorName::RunStopped}});
  BOOST_TEST(bench.effect<SaveState>().has_value());
}

BOOST_AUTO_TEST_CASE(who_leaves_looks_for_a_coordinator_that_stays_away_no_longer_than_for_an_answer) {
  Bench bench;
  bench.seat().begin();
  bench.on(CoordinatorLost{"reset"});
  bench.on(LeaveRequested{});
  bench.pass(LEAVE_LIMIT);
  BOOST_TEST(!bench.effect<End>().has_value());
  bench.pass(1ms);
  BOOST_TEST(bench.effect<SaveState>().has_value());
  BOOST_REQUIRE(bench.end().has_value());
  BOOST_CHECK(bench.end()->cause->name == ErrorName::CoordinatorLost);
  Bench late;
  late.seat().begin();
  late.on(CoordinatorLost{"reset"});
  late.pass(59s);
  late.on(LeaveRequested{});
  late.pass(1s);
  BOOST_TEST(!late.effect<End>().has_value());
  late.pass(1ms);
  BOOST_TEST(late.end().has_value());
}

BOOST_AUTO_TEST_CASE(a_goodbye_to_a_coordinator_that_is_lost_before_it_has_answered_is_said_again) {
  Bench bench;
  bench.seat().begin();
  bench.on(LeaveRequested{});
  bench.pass(1s);
  bench.on(CoordinatorLost{"reset"});
  BOOST_TEST(!bench.effect<End>().has_value());
  BOOST_TEST(bench.effect<Redial>().has_value());
  bench.on(CoordinatorBack{});
  BOOST_TEST(bench.told<Hello>().has_value());
  BOOST_TEST(bench.told<Deathrattle>().has_value());
  bench.pass(LEAVE_LIMIT - 1s);
  BOOST_TEST(!bench.effect<End>().has_value());
  bench.pass(1ms);
  BOOST_REQUIRE(bench.end().has_value());
  BOOST_TEST(!bench.end()->cause.has_value());
}

BOOST_AUTO_TEST_SUITE_END()
