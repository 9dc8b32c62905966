// Owns the search over seeds for two that lead, for a decision that is told though nobody has it, and for a run that nobody leads.
//
// PRIME_SIM_SEEDS=7 replays one seed, PRIME_SIM_SEEDS=1..50000 searches a range; without it a fixed range runs.
#include "tests/sim/leaders.hpp"

#include "tests/sim/seeds.hpp"

namespace {

using namespace prime;
using namespace prime::sim;

constexpr std::uint64_t SEEDS = 3000;
constexpr std::size_t TAIL = 60;

/// Every judgement of the machine, and what only lost answers and late requests bring about.
const char* const MUST_BE_REACHED[] = {
    "renewal: lease_renewed",      "renewal: outlasts_outage", "renewal: stood_still",      "renewal: lease_not_renewed",
    "renewal: lease_ended",        "renewal: takes_no_part",   "campaign: leads",           "campaign: another_leads",
    "campaign: leader_dead",       "campaign: store_away",     "campaign: cannot_stand_by", "decision: decision_kept",
    "decision: decision_not_kept", "decision: decision_waits", "decision: stood_still",     "repeated_decision_done",
};

/// Says how the seed went, where there is something to say: it is the same run once more.
void tell(std::uint64_t seed, const LeaderBreakage& breakage) {
  Probes ignored;
  const auto trace = Leaders{seed, ignored, breakage, true}.run().trace;
  BOOST_TEST_MESSAGE("the last events of seed " << seed << ":");
  for (std::size_t line = trace.size() - std::min(trace.size(), TAIL); line < trace.size(); ++line) BOOST_TEST_MESSAGE("  " << trace[line]);
  BOOST_TEST_MESSAGE("replay: PRIME_SIM_SEEDS=" << seed << " ./dev test -R leaders_test -V");
}

/// What the first seed breaks that breaks anything; empty when none does.
std::string first_violation(const LeaderBreakage& breakage) {
  Probes ignored;
  for (std::uint64_t seed = 1; seed <= 300; ++seed)
    if (const auto outcome = Leaders{seed, ignored, breakage}.run(); outcome.violation) return *outcome.violation;
  return {};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(nobody_decides_beside_the_leader_and_when_faults_stop_somebody_leads) {
  const auto [first, last] = test::seed_range(SEEDS);
  Probes probes;
  std::uint64_t events = 0;
  std::uint64_t decisions = 0;
  std::uint64_t leaders = 0;
  for (auto seed = first; seed <= last; ++seed) {
    const auto outcome = Leaders{seed, probes}.run();
    events += outcome.events;
    decisions += outcome.decisions;
    leaders += outcome.leaders;
    if (outcome.violation || first == last) tell(seed, {});
    BOOST_REQUIRE_MESSAGE(!outcome.violation, "seed " << seed << ": " << outcome.violation.value_or(""));
  }
  BOOST_TEST_MESSAGE(last - first + 1 << " seeds, " << events << " events, " << decisions << " decisions told by " << leaders
                                      << " leaders");
  test::expect_reached(probes, MUST_BE_REACHED);
}

BOOST_AUTO_TEST_CASE(the_same_seed_gives_the_same_run) {
  Probes ignored;
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const auto trace = Leaders{seed, ignored, {}, true}.run().trace;
    BOOST_TEST(trace == (Leaders{seed, ignored, {}, true}.run().trace));
    BOOST_TEST(trace != (Leaders{seed + 100, ignored, {}, true}.run().trace));
  }
}

// The judge sees: each rule is broken once, and named ------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_machine_that_takes_silence_for_an_answer_is_seen) {
  const auto broken = [](const lease::Event& event, lease::Transition& t, Instant) {
    if (std::holds_alternative<lease::DecisionAnswered>(event)) t.effects = {lease::Tell{}};
  };
  BOOST_TEST(contains(first_violation({broken, {}}), "which etcd has not taken"));
}

BOOST_AUTO_TEST_CASE(a_machine_that_counts_its_lease_from_the_answer_is_seen) {
  const auto broken = [](const lease::Event& event, lease::Transition& t, Instant now) {
    const auto* answer = std::get_if<lease::RenewalAnswered>(&event);
    if (answer != nullptr && answer->alive.value_or(false)) t.state.renewed = now;
  };
  BOOST_TEST(contains(first_violation({broken, {}}), "believes to"));
}

BOOST_AUTO_TEST_CASE(a_machine_that_never_asks_for_the_lead_is_seen) {
  const auto broken = [](const lease::Event& event, lease::Transition& t, Instant) {
    if (std::holds_alternative<lease::Tick>(event)) t.effects.clear();
  };
  BOOST_TEST(contains(first_violation({broken, {}}), "0 processes serve the run"));
}

BOOST_AUTO_TEST_CASE(a_machine_that_renews_no_lease_is_seen) {
  const auto broken = [](const lease::Event&, lease::Transition& t, Instant) {
    std::erase_if(t.effects, [](const auto& effect) { return std::holds_alternative<lease::Renew>(effect); });
  };
  BOOST_TEST(contains(first_violation({broken, {}}), "ends long after the last fault"));
}

BOOST_AUTO_TEST_CASE(a_machine_that_goes_on_after_its_decision_was_refused_is_seen) {
  const auto broken = [](const lease::Event& event, lease::Transition& t, Instant) {
    const auto* answer = std::get_if<lease::DecisionAnswered>(&event);
    if (answer != nullptr && !answer->kept && answer->kept.error().name == ErrorName::LeadershipLost) t.effects = {lease::Tell{}};
  };
  BOOST_TEST(contains(first_violation({broken, {}}), "which etcd has not taken"));
}

BOOST_AUTO_TEST_CASE(a_decision_without_the_condition_that_its_writer_leads_is_seen) {
  const auto broken = [](etcd::Transaction& t) { t.conditions.erase(t.conditions.begin()); };
  BOOST_TEST(contains(first_violation({{}, broken}), "from who does not lead"));
}

BOOST_AUTO_TEST_CASE(a_decision_without_the_condition_on_the_one_before_is_seen) {
  const auto broken = [](etcd::Transaction& t) { t.conditions.pop_back(); };
  BOOST_TEST(contains(first_violation({{}, broken}), "on top of decision"));
}
