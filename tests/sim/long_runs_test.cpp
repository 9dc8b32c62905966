// Owns the search over long runs: 2 to 32 peers, 200 outer steps, up to twelve faults. `PRIME_SIM_SEEDS=1..10000` is the long search.
#include "tests/sim/seeds.hpp"

namespace {

using namespace prime::sim;

constexpr std::uint64_t SEEDS = 100;

const char* const MUST_BE_REACHED[] = {"end: done",
                                       "fault kill",
                                       "fault pause",
                                       "fault leave",
                                       "fault join",
                                       "fault kill trainer",
                                       "fault reset link",
                                       "fault cut control",
                                       "fault stall reduce",
                                       "fault restart coordinator",
                                       "coordinator_dies_deciding",
                                       "record peer_admitted",
                                       "record peer_returned",
                                       "record outer_step_aborted"};

}  // namespace

BOOST_AUTO_TEST_CASE(every_long_run_keeps_every_invariant) {
  test::expect_reached(test::search(SEEDS, LONG, "long_runs_test"), MUST_BE_REACHED);
}
