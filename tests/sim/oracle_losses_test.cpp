// Owns the proof that the oracle judges losses: a pause, a run that is given up, a way back to a checkpoint.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/simulation/swarm.hpp"

namespace {

using namespace prime;
using namespace prime::sim;
using Coordinator = coordinator::Transition;

/// Two peers that a cut of ten seconds keeps from the coordinator, or six of which two die.
std::string judge_losses(bool cut, const std::function<void(Coordinator&)>& action) {
  auto scenario = calm_scenario(cut ? 2 : 6, 8);
  scenario.options.on_correlated_loss = coordinator::LossPolicy::Pause;
  if (cut) {
    scenario.options.heartbeat_limit = 6s;
    scenario.faults = {{.kind = FaultKind::IsolateCoordinator, .at = 5s, .at_event = {}, .at_phase = {}, .hold = 10s}};
  }
  Probes probes;
  Swarm swarm{std::move(scenario), probes};
  if (!cut)
    swarm.after_each([](Swarm& s) {
      if (s.coordinator().revision < Revision{2}) return;
      s.kill(4);
      s.kill(5);
    });
  swarm.break_coordinator([&](const auto&, Coordinator& t) { action(t); });
  return swarm.run().violation.value_or("nothing");
}

/// Six peers, of which two die after the third step; every second one is saved.
std::string judge_rollback(const std::function<void(Coordinator&)>& action) {
  auto scenario = calm_scenario(6, 8);
  scenario.options.on_correlated_loss = coordinator::LossPolicy::RollBack;
  scenario.options.checkpoint_every = 2;
  Probes probes;
  Swarm swarm{std::move(scenario), probes};
  swarm.after_each([](Swarm& s) {
    if (s.coordinator().revision != Revision{3} || !s.coordinator().peers.size()) return;
    s.kill(4);
    s.kill(5);
  });
  swarm.break_coordinator([&](const auto&, Coordinator& t) {
    const bool now = std::any_of(t.effects.begin(), t.effects.end(), [](const auto& effect) {
      const auto* event = std::get_if<JournalEvent>(&effect);
      return event != nullptr && std::holds_alternative<events::RolledBack>(*event);
    });
    if (now) action(t);
  });
  const auto violation = swarm.run().violation;
  return violation ? *violation : probes.contains("record rolled_back") ? "nothing" : "no rollback";
}

events::RolledBack& rollback_in(Coordinator& t) {
  for (auto& effect : t.effects)
    if (auto* event = std::get_if<JournalEvent>(&effect); event != nullptr && std::holds_alternative<events::RolledBack>(*event))
      return std::get<events::RolledBack>(*event);
  throw std::logic_error{"no rollback"};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_that_is_given_up_too_early_and_a_pause_that_is_ignored_are_named) {
  const auto as_it_is = [](Coordinator&) {};
  BOOST_TEST(judge_losses(true, as_it_is) == "nothing");
  BOOST_TEST(judge_losses(true, [](Coordinator& t) {
               t.state.options.coordinator_grace = -t.state.options.heartbeat_limit;
             }).starts_with("SIM-11 the run is given up while "));
  BOOST_TEST(judge_losses(false, as_it_is) == "nothing");
  BOOST_TEST(judge_losses(false, [](Coordinator& t) { t.state.pause.reset(); }) ==
             "SIM-12 reduces although it pauses after a correlated loss");
}

/// Its own restart, before anybody has heard of the rollback.
BOOST_AUTO_TEST_CASE(a_run_whose_coordinator_dies_as_it_rolls_back_goes_on_from_the_checkpoint) {
  auto scenario = calm_scenario(6, 8);
  scenario.options.on_correlated_loss = coordinator::LossPolicy::RollBack;
  scenario.options.checkpoint_every = 2;
  Probes probes;
  Swarm swarm{std::move(scenario), probes};
  bool died = false;
  swarm.after_each([&](Swarm& s) {
    if (s.coordinator().revision == Revision{3} && !s.coordinator().restoring) {
      s.kill(4);
      s.kill(5);
    }
    if (s.coordinator().restoring && !std::exchange(died, true)) s.kill_coordinator(1s);
  });
  const auto outcome = swarm.run();
  BOOST_TEST(died);
  BOOST_TEST(outcome.violation.value_or("nothing") == "nothing");
  BOOST_TEST(outcome.over);
  BOOST_TEST((outcome.cause ? to_string(*outcome.cause) : "done") == "done");
}

BOOST_AUTO_TEST_CASE(a_rollback_to_anything_but_the_checkpoint_is_named) {
  BOOST_TEST(judge_rollback([](Coordinator&) {}) == "nothing");
  BOOST_TEST(judge_rollback([](Coordinator& t) { t.state.cursor += 1; }) == "SIM-13 the data cursor is not that of revision 2");
  const auto claims = [](std::uint64_t revision) {
    return [=](Coordinator& t) {
      rollback_in(t).revision = Revision{revision};
      rollback_in(t).outer_step = OuterStep{revision};
    };
  };
  BOOST_TEST(judge_rollback(claims(1)) == "SIM-13 rolled back to outer step 1, which nobody saved");
  BOOST_TEST(judge_rollback(claims(7)) == "SIM-13 rolled back to what was never committed");
  BOOST_TEST(judge_rollback([](Coordinator& t) {
               rollback_in(t).digest = Digest{9, 9};
             }) == "SIM-13 rolled back to other bits than those of revision 2");
}
