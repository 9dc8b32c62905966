// Owns the tests of the restart intensity.
#include "actors/supervisor/restart_machine.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(restart_machine)

using namespace prime;
using namespace prime::supervisor;

namespace {

const Error CRASH{ErrorName::ProcessFailed, "killed"};

bool restarts(State& state, Duration at) {
  auto transition = child_died(std::move(state), CRASH, Instant{} + at);
  state = std::move(transition.state);
  return std::holds_alternative<Restart>(transition.decision);
}

}  // namespace

BOOST_AUTO_TEST_CASE(three_restarts_within_ten_minutes_are_granted_and_the_fourth_is_not) {
  State state;
  BOOST_TEST(restarts(state, 0s));
  BOOST_TEST(restarts(state, 1s));
  BOOST_TEST(restarts(state, 2s));
  BOOST_TEST(!restarts(state, 10min));
}

BOOST_AUTO_TEST_CASE(a_restart_leaves_the_window_when_it_is_older_than_ten_minutes) {
  State state;
  for (const auto at : {0s, 1s, 2s}) BOOST_TEST(restarts(state, at));
  BOOST_TEST(restarts(state, 10min + 1ms));
  BOOST_TEST(!restarts(state, 10min + 2ms));
}

BOOST_AUTO_TEST_CASE(what_a_restart_does_not_cure_is_not_tried) {
  const auto transition = child_died(State{}, Error{ErrorName::DataUnreadable, "/data"}, Instant{});
  const auto* given_up = std::get_if<GiveUp>(&transition.decision);
  BOOST_REQUIRE(given_up != nullptr);
  BOOST_CHECK(given_up->cause.name == ErrorName::DataUnreadable);
}

BOOST_AUTO_TEST_CASE(what_fails_alike_twice_before_it_has_begun_is_given_up_and_so_is_the_same_value_that_is_not_finite) {
  const auto died = [](State state, const Error& cause, bool began) { return child_died(std::move(state), cause, Instant{}, began); };
  const auto given_up = [](const Transition& transition) { return std::holds_alternative<GiveUp>(transition.decision); };
  const Error no_module{ErrorName::TrainerFailed, "exit status 1: no module named llm"};
  const auto once = died({}, no_module, false);
  BOOST_TEST(!given_up(once));
  BOOST_TEST(given_up(died(once.state, no_module, false)));
  BOOST_TEST(!given_up(died(once.state, no_module, true)));
  BOOST_TEST(!given_up(died(once.state, Error{ErrorName::TrainerFailed, "exit status 1: no module named other"}, false)));
  const Error no_device{ErrorName::TrainerFailed, "exit status 1; its log ends: [2031-05-04 09:14:02] pid 4711: no device"};
  const Error again{ErrorName::TrainerFailed, "exit status 1; its log ends: [2031-05-04 09:14:05] pid 4802: no device"};
  BOOST_TEST(given_up(died(died({}, no_device, false).state, again, false)), "figures aside, it says the same");
  const Error diverged{ErrorName::NonFiniteValue, "head[3]"};
  const auto first = died({}, diverged, true);
  BOOST_TEST(!given_up(first));
  BOOST_TEST(given_up(died(first.state, diverged, true)));
  BOOST_TEST(!given_up(died(first.state, Error{ErrorName::NonFiniteValue, "head[4]"}, true)));
}

BOOST_AUTO_TEST_CASE(one_that_was_told_to_begin_anew_has_not_failed) {
  State state;
  for (int i = 0; i < 10; ++i) {
    auto transition = child_died(std::move(state), Error{ErrorName::Interrupted, "for its replica"}, Instant{});
    BOOST_TEST(std::holds_alternative<Restart>(transition.decision));
    state = std::move(transition.state);
  }
  BOOST_TEST(restarts(state, 0s));
}

BOOST_AUTO_TEST_CASE(giving_up_names_the_last_cause) {
  State state;
  for (const auto at : {0s, 1s, 2s}) BOOST_TEST(restarts(state, at));
  const auto transition = child_died(state, CRASH, Instant{} + 3s);
  const auto* given_up = std::get_if<GiveUp>(&transition.decision);
  BOOST_REQUIRE(given_up != nullptr);
  BOOST_CHECK(given_up->cause.name == ErrorName::TrainerFailed);
  BOOST_TEST(given_up->cause.detail.find("killed") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
