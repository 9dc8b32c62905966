// Owns the search over seeds: which ones, what is judged of each, and how a failing one is replayed.
#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <string>
#include <utility>

#include "runtime/simulation/swarm.hpp"

namespace prime::sim::test {

/// PRIME_SIM_SEEDS=7 is one seed, PRIME_SIM_SEEDS=1..5000 a range; without it the usual ones from 1 on.
inline std::pair<std::uint64_t, std::uint64_t> seed_range(std::uint64_t usual) {
  const char* text = std::getenv("PRIME_SIM_SEEDS");
  if (text == nullptr) return {1, usual};
  const std::string range{text};
  const auto dots = range.find("..");
  const auto first = std::stoull(range);
  return {first, dots == std::string::npos ? first : std::stoull(range.substr(dots + 2))};
}

/// Runs each seed until one breaks an invariant; `name` is that of the test, for the line that replays it.
inline Probes search(std::uint64_t usual, const Size& size, const std::string& name) {
  const auto [first, last] = seed_range(usual);
  Probes probes;
  std::uint64_t events = 0;
  std::uint64_t commits = 0;
  for (auto seed = first; seed <= last; ++seed) {
    Swarm swarm{random_scenario(seed, {}, size), probes};
    const auto outcome = swarm.run();
    events += outcome.events;
    commits += swarm.coordinator().revision.value;
    if (outcome.violation || first == last) {
      BOOST_TEST_MESSAGE("the last events of seed " << seed << ":");
      for (const auto& line : outcome.tail) BOOST_TEST_MESSAGE("  " << line);
      BOOST_TEST_MESSAGE("replay: PRIME_SIM_SEEDS=" << seed << " ./dev test -R " << name << " -V");
    }
    BOOST_REQUIRE_MESSAGE(!outcome.violation, "seed " << seed << " breaks " << outcome.violation.value_or(""));
  }
  BOOST_TEST_MESSAGE(last - first + 1 << " seeds, " << events << " events, " << commits << " outer steps committed, " << probes["end: done"]
                                      << " runs done");
  return probes;
}

/// A replay proves nothing about what is reached.
template <class Names>
void expect_reached(const Probes& probes, const Names& names) {
  if (std::getenv("PRIME_SIM_SEEDS") != nullptr) return;
  for (const char* name : names) BOOST_TEST(probes.contains(name), "no seed reached: " << name);
}

/// Files may ask for whatever a run can hit.
inline void expect_known(const Probes& probes) {
  const auto& known = probe_names();
  for (const auto& [name, hits] : probes) BOOST_TEST(std::binary_search(known.begin(), known.end(), name), "no file can name: " << name);
}

}  // namespace prime::sim::test
