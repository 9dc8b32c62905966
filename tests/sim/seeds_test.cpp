// Owns the search: many seeded runs under faults, each judged by the oracle, all together by the probes.
//
// PRIME_SIM_SEEDS=7 replays one seed, PRIME_SIM_SEEDS=1..5000 searches a range; without it a fixed range runs. These runs are short;
// long_runs_test.cpp has the long ones.
#include "tests/sim/seeds.hpp"

namespace {

using namespace prime;
using namespace prime::sim;

constexpr std::uint64_t SEEDS = 2000;

/// Every seat and phase, and the branches that ordinary runs do not take.
const char* const MUST_BE_REACHED[] = {
    "coordinator phase Waiting",
    "coordinator phase Training",
    "coordinator phase Reducing",
    "coordinator phase Finishing",
    "coordinator phase Over",
    "seat Greeted",
    "seat Seated",
    "seat Fetching",
    "seat CaughtUp",
    "seat Member",
    "peer phase greeting",
    "peer phase seating",
    "peer phase waiting",
    "peer phase fetching",
    "peer phase training",
    "peer phase ready",
    "peer phase reducing",
    "peer phase voted",
    "peer phase finishing",
    "peer phase over",
    "fault kill",
    "fault pause",
    "fault leave",
    "fault join",
    "fault kill trainer",
    "fault reset link",
    "fault cut control",
    "fault stall reduce",
    "fault corrupt",
    "fault kill coordinator",
    "fault restart coordinator",
    "fault isolate coordinator",
    "record peer_absent",
    "record correlated_loss",
    "record rolled_back",
    "record pause_ended",
    "restarted while waiting",
    "restarted while training",
    "restarted while reducing",
    "restarted while finishing",
    "peer CoordinatorBack in training -> the coordinator is back",
    "peer CoordinatorBack in reducing -> the coordinator is back",
    "peer CoordinatorBack in voted -> the coordinator is back",
    "peer CoordinatorBack in fetching -> the coordinator is back",
    "peer CoordinatorBack in finishing -> the coordinator is back",
    "peer BeginStep in training -> it is at that step",
    "peer BeginStep in ready -> it is at that step",
    "peer Abort in reducing -> aborted",
    "record peer_returned",
    "record lane_relayed",
    "end: done",
    "end: TooFewPeers",
    "end: RunStopped",
    "peer Dismissed in leaving -> the run was stopped before its end",  // the last copy leaves with it
    "peer Dismissed in leaving -> a peer was lost",
    "peer Abort in voted -> aborted",  // everybody must forget what some had finished
    "reason: it was committed",
    "reason: it was aborted",
    "reason: undecided",  // the three answers to doubt
    "a fetch was overtaken by a commit",
    "a reduce waits for a joiner",
    "the donor is behind",
    "the donor has moved on",
    "peer FetchState in fetching -> fetches that when the fetch in flight has ended",
    "founded anew",
    "peer BeginStep in ready -> trains",  // promotion of the idle
    "reason: it was promoted while it said that it adopts the result",
    "below the minimum, and recovered",
    "reason: the votes differ",
    "peer end: ParityBroken",
    "peer end: LaneBroken",  // link failures up to eviction
    "evicted peer joins anew",
    "peer Dismissed in training -> a deadline passed",  // a straggler
    "the deadline of the reduce passed",
    "peer RunDone in finishing -> saves the final state",  // the finalist was lost, or could not
    "peer phase saving",
    "fault fill disk",
    "record final_state_saved",
    "record final_save_failed",
    "sharded record final_state_saved",
    "peer SaveEnded in saving -> not saved, tries again",
    "peer Tick in saving -> tries to save again",
    "a state could not be saved",
    "peer TrainerBound in training -> the trainer is back",
    "peer end: TrainerFailed",
    "peer end: RunDone",  // a joiner that came too late
    "peer end: RunFull",
    "peer end: VersionMismatch",
    "peer end: WrongRun",
    "peer end: LayoutMismatch",
    "peer end: DataMismatch",
    "peer end: CoordinatorLost",
    "sharded record shard_waits",
    "sharded record peer_admitted",
    "sharded record peer_lost",
    "sharded record peer_absent",
    "sharded record peer_returned",
    "sharded record outer_step_aborted",
    "sharded record fetch_failed",
    "sharded record rolled_back",
    "sharded record final_report",
    "reason: the others of its replica have yet to say it",
    "reason: the others of its replica have yet to fetch",
    "reason: a connection that was cut",
    "a trainer is started over for its replica",
    "reason: a readiness of an attempt that is void",
};

}  // namespace

BOOST_AUTO_TEST_CASE(every_seed_keeps_every_invariant_and_all_branches_are_reached) {
  test::expect_reached(test::search(SEEDS, SHORT, "seeds_test"), MUST_BE_REACHED);
}

BOOST_AUTO_TEST_CASE(the_same_seed_gives_the_same_run) {
  Probes probes;
  for (const std::uint64_t seed : {3U, 4U, 5U}) {
    const auto once = Swarm{random_scenario(seed), probes}.run();
    const auto again = Swarm{random_scenario(seed), probes}.run();
    BOOST_TEST(once.trace_hash == again.trace_hash);
    BOOST_TEST(once.events == again.events);
  }
  BOOST_TEST(Swarm(random_scenario(3), probes).run().trace_hash != Swarm(random_scenario(4), probes).run().trace_hash);
}
