// Owns the first example of a simulated run: read this one before the others.
#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "runtime/simulation/swarm.hpp"

namespace {

using namespace prime;
using namespace prime::sim;

std::vector<std::uint64_t> peers_of_each_commit(const Swarm& swarm) {
  std::vector<std::uint64_t> counts;
  for (const auto& event : swarm.journal())
    if (const auto* committed = std::get_if<events::OuterStepCommitted>(&event)) counts.push_back(committed->peers);
  return counts;
}

template <class Event>
std::size_t count(const Swarm& swarm) {
  return static_cast<std::size_t>(
      std::ranges::count_if(swarm.journal(), [](const auto& event) { return std::holds_alternative<Event>(event); }));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_peer_killed_in_the_middle_of_a_reduce_costs_one_abort_and_no_step) {
  // Three equal peers, four outer steps, a good network, nothing goes wrong by itself.
  Probes probes;
  Swarm swarm{calm_scenario(3, 4), probes};

  // Peer 1 is killed at the moment at which it begins to reduce step 2.
  bool killed = false;
  swarm.after_each([&](Swarm& s) {
    if (killed || s.hosts().size() < 3) return;
    const auto& victim = s.hosts()[1].machine;
    if (phase_of(victim) != peer::Phase::Reducing || victim.begin->step != OuterStep{2}) return;
    s.kill(1);
    killed = true;
  });
  const auto outcome = swarm.run();

  // The oracle has judged every invariant of docs/INVARIANTS.md after every event.
  BOOST_TEST(outcome.violation.value_or("") == "");
  BOOST_TEST(killed);
  BOOST_TEST(outcome.over);
  BOOST_TEST(!outcome.cause.has_value());
  // Step 1 had three contributors. Step 2 was aborted once and then made by the two that are left, from the same inputs.
  BOOST_TEST(peers_of_each_commit(swarm) == (std::vector<std::uint64_t>{3, 2, 2, 2}), boost::test_tools::per_element());
  BOOST_TEST(count<events::OuterStepAborted>(swarm) == 1U);
  BOOST_TEST(count<events::PeerLost>(swarm) == 1U);
  // One epoch admits three peers, the next one has lost one.
  BOOST_TEST(swarm.coordinator().view.epoch.value == 2U);
  for (const std::size_t survivor : {0U, 2U}) {
    const auto& host = swarm.hosts()[survivor];
    BOOST_TEST(host.machine.revision.value == 4U);
    BOOST_TEST(prime::to_string(digest_of(host.model)) == prime::to_string(*swarm.coordinator().digest));
    BOOST_TEST(host.end.has_value());
    BOOST_TEST(!host.end->cause.has_value());
  }
  BOOST_TEST(swarm.hosts()[1].machine.revision.value == 1U);
}
