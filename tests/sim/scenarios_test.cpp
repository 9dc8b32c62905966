// Owns the proof that each scenario file of the repository is worth its name: its runs keep every invariant, end as it says, and take the
// branches that it is about.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "runtime/simulation/simulate.hpp"
#include "tests/support/repository.hpp"

namespace {

using namespace prime;
using namespace prime::sim;

// The sanitizer watches the same code at work for fewer seeds; the build that users run is searched for rare branches.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t SEEDS = 3;
constexpr bool SEARCHES = false;
#else
constexpr std::uint64_t SEEDS = 25;
constexpr bool SEARCHES = true;
#endif

ScenarioFile parse(const std::string& text) {
  const auto outcome = parse_scenario("version: 1\nscenario: x\n" + text, "x.yaml");
  BOOST_REQUIRE_MESSAGE(outcome, render(outcome));
  return *outcome.scenario;
}

std::vector<ScenarioFile> scenarios() {
  std::vector<ScenarioFile> files;
  for (const auto& entry : std::filesystem::directory_iterator{test::repository() / "manifests/scenarios"}) {
    const auto outcome = load_scenario(entry.path().string());
    BOOST_REQUIRE_MESSAGE(outcome, render(outcome));
    files.push_back(*outcome.scenario);
  }
  BOOST_REQUIRE(files.size() >= 10U);
  return files;
}

void expect_no_violation(const Summary& summary) {
  for (const auto& violation : summary.violations)
    BOOST_ERROR(summary.scenario << ", seed " << summary.seed << ", " << summary.peers << " peers: " << violation);
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_scenario_keeps_every_invariant_and_reaches_what_it_is_about) {
  if (!SEARCHES) BOOST_TEST_MESSAGE("with a sanitizer: few seeds, and not asked what they reach");
  for (const auto& file : scenarios()) {
    std::set<std::string> missed(file.reaches.begin(), file.reaches.end());
    BOOST_TEST(!missed.empty(), file.name << " says nothing of what it reaches");
    for (std::uint64_t seed = 1; seed <= SEEDS; ++seed) {
      const auto summary = simulate(file, seed).value();
      expect_no_violation(summary);
      for (const auto& [probe, hits] : summary.probes) missed.erase(probe);
    }
    if (SEARCHES)
      for (const auto& probe : missed) BOOST_ERROR(file.name << " does not reach: " << probe);
  }
}

BOOST_AUTO_TEST_CASE(each_scenario_runs_with_other_numbers_of_peers) {
  for (const auto& file : scenarios())
    for (const std::uint64_t peers : {2U, 3U, 16U})
      for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        const auto summary = simulate(file, seed, peers).value();
        BOOST_TEST(summary.peers == peers);
        expect_no_violation(summary);
      }
}

BOOST_AUTO_TEST_CASE(equal_scenario_seed_and_peers_are_the_same_run_event_for_event) {
  for (const auto& file : scenarios()) {
    const auto once = simulate(file, 5, 4).value();
    const auto again = simulate(file, 5, 4).value();
    BOOST_TEST(once.trace_hash == again.trace_hash);
    BOOST_TEST(once.tail == again.tail, boost::test_tools::per_element());
    BOOST_TEST(once.trace_hash != simulate(file, 6, 4).value().trace_hash);
    BOOST_TEST(once.trace_hash != simulate(file, 5, 5).value().trace_hash);
  }
}

BOOST_AUTO_TEST_CASE(the_random_scenario_is_the_search_over_seeds) {
  const auto file = parse("random: true\n");
  for (const std::uint64_t seed : {3U, 4U}) {
    Probes probes;
    BOOST_TEST(simulate(file, seed).value().trace_hash == Swarm(random_scenario(seed), probes).run().trace_hash);
  }
}

// Of 10 000. All who had worked on a closed step were lost; then the step was closed anew, and forgot what had been handed out for it
// before.
BOOST_AUTO_TEST_CASE(a_seed_that_handed_samples_out_twice_does_so_no_more) {
  expect_no_violation(simulate(parse("random: true\n"), 8764).value());
}

// Of 700: two works of a peer were of steps with the same number, and a coordinator that was restarted took one for the other.
BOOST_AUTO_TEST_CASE(a_seed_that_stood_still_does_so_no_more) {
  const auto outcome = load_scenario((test::repository() / "manifests/scenarios/shard_streams.yaml").string());
  BOOST_REQUIRE(outcome);
  expect_no_violation(simulate(*outcome.scenario, 693).value());
}

BOOST_AUTO_TEST_CASE(a_run_that_ends_as_its_scenario_does_not_allow_has_failed) {
  const std::string text = "peers: 2\nouter_steps: 8\nfaults: [{kind: kill_coordinator, at: 5s}]\n";
  const auto summary = simulate(parse(text + "ends: [done]\n"), 1).value();
  BOOST_REQUIRE(summary.violations.size() == 1U);
  BOOST_TEST(summary.violations[0] == "the run ends with coordinator_killed, which the scenario's `ends` does not allow");
  BOOST_TEST(!summary.tail.empty());
  BOOST_TEST(simulate(parse(text + "ends: [done, coordinator_killed]\n"), 1).value().violations.empty());
  BOOST_TEST(simulate(parse(text), 1).value().violations.empty());
}

BOOST_AUTO_TEST_CASE(what_is_a_range_is_drawn_from_the_seed_and_what_is_not_written_is_the_default) {
  const auto file = parse(
      "peers: 2..5\nouter_steps: 7..9\nlimits: {deadline: 10s..12s}\nnetwork: {delay: 1ms..3ms}\ntiming: {train: 1s..2s, arrive: 1s..4s}\n"
      "faults:\n  - {kind: pause, count: 2..4, at: 3s..6s, hold: 1s..2s}\n  - {kind: join, at_event: 10..20}\n"
      "  - {kind: kill, at_phase: [reducing, voted], occurrence: 2..3}\n");
  std::set<std::size_t> peers;
  std::set<std::uint64_t> steps;
  std::set<std::size_t> faults;
  std::set<peer::Phase> phases;
  const Scenario calm = calm_scenario(2, 7);
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const auto scenario = draw(file, seed).value();
    peers.insert(scenario.arrivals.size());
    steps.insert(scenario.options.outer_steps);
    faults.insert(scenario.faults.size());
    BOOST_TEST((scenario.options.deadline >= 10s && scenario.options.deadline <= 12s));
    BOOST_TEST((scenario.options.wait_limit == calm.options.wait_limit));
    BOOST_TEST(scenario.options.max_peers == scenario.arrivals.size() + 1);
    BOOST_TEST(scenario.options.start_quorum == scenario.arrivals.size());
    BOOST_TEST((scenario.delay == std::pair<Duration, Duration>{1ms, 3ms}));
    for (const auto& [at, spec] : scenario.arrivals) {
      BOOST_TEST((at >= 1s && at <= 4s && spec.inner_time >= 1s && spec.inner_time <= 2s));
      BOOST_TEST((spec.fetch_time == PeerSpec{}.fetch_time));
    }
    for (const auto& fault : scenario.faults) {
      if (fault.kind == FaultKind::Pause) BOOST_TEST((*fault.at >= 3s && *fault.at <= 6s && fault.hold >= 1s && fault.hold <= 2s));
      if (fault.kind == FaultKind::Join) BOOST_TEST((*fault.at_event >= 10 && *fault.at_event <= 20));
      if (fault.kind == FaultKind::Kill) phases.insert(*fault.at_phase);
    }
  }
  BOOST_TEST(peers == (std::set<std::size_t>{2, 3, 4, 5}), boost::test_tools::per_element());
  BOOST_TEST(steps == (std::set<std::uint64_t>{7, 8, 9}), boost::test_tools::per_element());
  BOOST_TEST(faults == (std::set<std::size_t>{4, 5, 6}), boost::test_tools::per_element());
  BOOST_TEST((phases == std::set<peer::Phase>{peer::Phase::Reducing, peer::Phase::Voted}));
}

BOOST_AUTO_TEST_CASE(numbers_of_peers_that_do_not_fit_the_membership_are_refused) {
  const auto file = parse("peers: 4\nmembership: {minimum: 2, quorum: 3, maximum: 6}\n");
  const auto detail = [&](std::uint64_t peers) { return draw(file, 1, peers).error().detail; };
  BOOST_TEST(detail(1) == "--peers 1 is fewer than the scenario's `membership.minimum`, 2");
  BOOST_TEST(detail(2) == "--peers 2 is fewer than the scenario's `membership.quorum`, 3");
  BOOST_TEST(detail(7) == "--peers 7 is more than the scenario's `membership.maximum`, 6");
  BOOST_TEST(draw(file, 1, 6).value().arrivals.size() == 6U);
}
