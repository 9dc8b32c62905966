// Owns the tests of what keeps a trained state from being lost: the final checkpoint comes first, and who ends with the state in memory
// saves it, however long the disk is full.
#include <boost/test/unit_test.hpp>

#include "peer_bench.hpp"

BOOST_AUTO_TEST_SUITE(peer_saving)

using namespace prime;
using namespace prime::peer;

namespace {

const Result<std::string> SAVED{std::string{"/saved"}};
Result<std::string> disk_full() { return fail(ErrorName::StorageFailed, "no space left on device"); }

Bench committed() {
  Bench bench;
  bench.seat().begin().contribute().reduce().vote();
  bench.hear(Commit{OP, OuterStep{1}, Revision{1}, NEXT, 0, NEXT});
  return bench;
}

Bench finishing(bool finalist) {
  auto bench = committed();
  bench.hear(RunDone{OuterStep{1}, Revision{1}, NEXT, finalist, {0, 2}});
  return bench;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_finalist_evaluates_when_its_checkpoint_is_written_and_not_before) {
  auto bench = finishing(true);
  BOOST_REQUIRE(bench.effect<SaveState>().has_value());
  BOOST_CHECK(bench.effect<SaveState>()->of == Revision{1});
  BOOST_TEST(!bench.effect<FinishTraining>().has_value());
  bench.on(SaveEnded{false, SAVED});
  BOOST_TEST(bench.told<StateSaved>()->checkpoint == "/saved");
  BOOST_REQUIRE(bench.effect<FinishTraining>().has_value());
  BOOST_TEST((bench.effect<FinishTraining>()->done.evaluate == HeldOutShare{0, 2}));
  bench.on(TrainerFinal{HeldOutLoss{Real{2.0}, 10}, "text"});
  BOOST_TEST(bench.told<FinalReport>()->held_out.tokens == 10U);
}

BOOST_AUTO_TEST_CASE(who_has_yet_to_hear_of_the_last_commit_saves_and_evaluates_what_that_leads_to) {
  Bench bench;
  bench.seat().begin().contribute().reduce().vote();
  bench.hear(RunDone{OuterStep{1}, Revision{1}, NEXT, true, {0, 2}});
  BOOST_TEST(!bench.effect<SaveState>().has_value(), "it holds the state of before");
  bench.hear(Commit{OP, OuterStep{1}, Revision{1}, NEXT, 0, NEXT});
  BOOST_TEST(bench.effect<ApplyCommit>().has_value());
  BOOST_REQUIRE(bench.effect<SaveState>().has_value());
  BOOST_CHECK(bench.effect<SaveState>()->of == Revision{1});
}

BOOST_AUTO_TEST_CASE(a_checkpoint_on_the_way_is_not_taken_for_the_final_one) {
  auto bench = finishing(true);
  bench.on(SaveEnded{true, SAVED});
  BOOST_TEST(!bench.told<StateSaved>().has_value());
}

BOOST_AUTO_TEST_CASE(the_others_evaluate_at_once_and_who_has_no_part_says_so) {
  auto bench = finishing(false);
  BOOST_TEST(bench.effect<FinishTraining>().has_value());
  auto late = committed();
  late.hear(RunDone{OuterStep{1}, Revision{1}, NEXT, false, {}});
  BOOST_TEST(!late.effect<FinishTraining>().has_value());
  BOOST_REQUIRE(late.told<FinalReport>().has_value());
  BOOST_TEST(late.told<FinalReport>()->held_out.tokens == 0U);
}

BOOST_AUTO_TEST_CASE(who_is_asked_to_save_later_does_so_without_evaluating_twice_and_tells_again_what_it_has_told) {
  auto bench = finishing(false);
  bench.on(TrainerFinal{HeldOutLoss{Real{2.0}, 10}, ""});
  bench.hear(RunDone{OuterStep{1}, Revision{1}, NEXT, true, {0, 1}});
  BOOST_TEST(bench.told<FinalReport>()->held_out.tokens == 10U);
  BOOST_TEST(bench.effect<SaveState>().has_value());
  BOOST_CHECK(bench.probes == std::vector{Probe::FinalistReplaced});
  bench.hear(RunDone{OuterStep{1}, Revision{1}, NEXT, true, {0, 1}});
  BOOST_TEST(!bench.effect<SaveState>().has_value(), "one at a time");
  bench.on(SaveEnded{false, disk_full()});
  BOOST_TEST(bench.told<StateSaved>()->problem.find("no space left") != std::string::npos);
  BOOST_TEST(!bench.effect<FinishTraining>().has_value());
  bench.hear(RunDone{OuterStep{1}, Revision{1}, NEXT, true, {0, 1}});
  BOOST_TEST(bench.effect<SaveState>().has_value(), "it is asked again, and tries again");
}

BOOST_AUTO_TEST_CASE(a_trainer_that_fails_or_leaves_at_the_end_costs_its_evaluation_and_nothing_else) {
  for (const bool fails : {true, false}) {
    auto bench = finishing(false);
    if (fails) bench.on(TrainerGaveUp{Error{ErrorName::MemoryUnavailable, "the evaluation"}});
    else bench.on(TrainerLeft{});
    BOOST_TEST(!bench.effect<End>().has_value());
    BOOST_TEST(!bench.told<Deathrattle>().has_value());
    BOOST_REQUIRE(bench.told<FinalReport>().has_value());
    BOOST_TEST(!bench.told<FinalReport>()->problem.empty());
    bench.hear(RunDone{OuterStep{1}, Revision{1}, NEXT, true, {0, 1}});
    BOOST_TEST(bench.effect<SaveState>().has_value(), "the state is here all the same");
  }
}

BOOST_AUTO_TEST_CASE(who_loses_the_coordinator_at_the_end_saves_unless_it_has) {
  for (const bool saved : {false, true}) {
    auto bench = finishing(saved);
    if (saved) bench.on(SaveEnded{false, SAVED});
    bench.on(CoordinatorLost{"reset"});
    bench.pass(bench.state.options.coordinator_grace + 1ms);
    BOOST_TEST(bench.effect<SaveState>().has_value() == !saved);
    BOOST_REQUIRE(bench.end().has_value());
    BOOST_TEST(!bench.end()->cause.has_value(), "all steps are committed");
  }
}

BOOST_AUTO_TEST_CASE(who_ends_with_a_full_disk_tries_again_until_there_is_room) {
  auto bench = committed();
  bench.hear(Dismissed{Error{ErrorName::RunStopped, "by its owner"}});
  BOOST_REQUIRE(bench.effect<SaveState>().has_value());
  BOOST_TEST(bench.effect<StopWork>().has_value(), "its trainer ends meanwhile");
  BOOST_TEST(!bench.effect<End>().has_value());
  const auto saving = std::get<events::StateSaving>(bench.effect<JournalEvent>().value());
  BOOST_CHECK(saving.revision == Revision{1});
  BOOST_TEST(saving.reason == to_string(Error{ErrorName::RunStopped, "by its owner"}));
  for (int attempt = 0; attempt < 3; ++attempt) {
    bench.on(SaveEnded{false, disk_full()});
    BOOST_CHECK(bench.probes == std::vector{Probe::NotSavedYet});
    BOOST_TEST(!bench.effect<End>().has_value());
    bench.pass(SAVE_AGAIN_AFTER - 1ms);
    BOOST_TEST(!bench.effect<SaveState>().has_value());
    bench.pass(1ms);
    BOOST_TEST(bench.effect<SaveState>().has_value());
    BOOST_CHECK(bench.probes == std::vector{Probe::SavesAgain});
  }
  bench.on(CoordinatorLost{"it has ended"});
  bench.on(LeaveRequested{});
  BOOST_TEST(bench.effects.empty(), "it is no part of the run any more");
  bench.on(SaveEnded{false, SAVED});
  BOOST_REQUIRE(bench.effect<End>().has_value());
  BOOST_CHECK(bench.effect<End>()->cause->name == ErrorName::RunStopped);
}

BOOST_AUTO_TEST_CASE(a_disk_that_stays_full_is_given_up_by_name) {
  auto bench = committed();
  bench.state.options.save_retry = 1min;
  bench.on(LeaveRequested{});
  bench.pass(LEAVE_LIMIT + 1ms);
  bench.on(SaveEnded{false, disk_full()});
  bench.pass(1min + 1ms);
  BOOST_TEST(bench.effect<SaveState>().has_value());
  bench.on(SaveEnded{false, disk_full()});
  BOOST_REQUIRE(bench.effect<End>().has_value());
  BOOST_REQUIRE(bench.effect<End>()->cause.has_value());
  BOOST_CHECK(bench.effect<End>()->cause->name == ErrorName::StorageFailed);
  const auto told = std::get<events::StateNotSaved>(bench.effect<JournalEvent>().value());
  BOOST_CHECK((told == events::StateNotSaved{Revision{1}, disk_full().error(), 1min + 1ms}));
}

BOOST_AUTO_TEST_CASE(who_joins_anew_does_not_hold_up_its_return_for_a_full_disk) {
  auto bench = committed();
  bench.hear(Dismissed{Error{ErrorName::Evicted, "silent"}});
  BOOST_TEST(bench.effect<SaveState>().has_value());
  bench.on(SaveEnded{false, disk_full()});
  BOOST_TEST(bench.effect<End>().has_value(), "the others hold the state");
}

BOOST_AUTO_TEST_SUITE_END()
