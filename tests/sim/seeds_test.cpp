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
    "coordinator phase waiting",
    "coordinator phase training",
    "coordinator phase reducing",
    "coordinator phase finishing",
    "coordinator phase over",
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
    "fault pause run",
    "coordinator held_by_owner",
    "sharded record run_paused",
    "record run_resumed",
    "record peer_absent",
    "record outer_step_aborted(peer_away)",
    "refused_by_another",
    "record correlated_loss",
    "record rolled_back",
    "record pause_ended",
    "restarted while waiting",
    "restarted while training",
    "restarted while reducing",
    "restarted while finishing",
    "peer coordinator_found in training",
    "peer coordinator_found in reducing",
    "peer coordinator_found in voted",
    "peer coordinator_found in fetching",
    "peer coordinator_found in finishing",
    "peer at_that_step in training",
    "peer at_that_step in ready",
    "peer reduce_void in reducing",
    "record peer_returned",
    "record lane_relayed",
    "end: done",
    "end: TooFewPeers",
    "end: RunStopped",
    "peer Dismissed(RunStopped) in leaving",  // the last copy leaves with it
    "peer Dismissed(PeerLost) in leaving",
    "peer reduce_void in voted",  // everybody must forget what some had finished
    "coordinator doubt_committed",
    "coordinator doubt_aborted",
    "coordinator doubt_undecided",  // the three answers to doubt
    "fetch_overtaken",
    "coordinator reduce_waits_for_joiner",
    "donor_behind",
    "donor_moved_on",
    "peer fetch_queued in fetching",
    "founded_anew",
    "peer promoted in ready",  // promotion of the idle
    "coordinator promoted_meanwhile",
    "recovered_from_below_minimum",
    "record outer_step_aborted(votes_differ)",
    "peer end: ParityBroken",
    "peer end: LaneBroken",  // link failures up to eviction
    "joins_anew",
    "peer Dismissed(DeadlineExceeded) in training",  // a straggler
    "record outer_step_aborted(deadline_passed)",
    "peer finalist_replaced in finishing",  // the finalist was lost, or could not
    "peer phase saving",
    "fault fill disk",
    "record final_state_saved",
    "record final_save_failed",
    "sharded record final_state_saved",
    "peer not_saved_yet in saving",
    "peer saves_again in saving",
    "state_not_saved",
    "peer TrainerBound in training",
    "peer end: TrainerFailed",  // started again too often
    "peer end: ProcessFailed",  // the same death twice before it had begun
    "peer end: RunDone",        // a joiner that came too late
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
    "sharded record final_report",
    "trainer_started_over",
};

}  // namespace

BOOST_AUTO_TEST_CASE(every_seed_keeps_every_invariant_and_all_branches_are_reached) {
  const auto probes = test::search(SEEDS, SHORT, "seeds_test");
  test::expect_reached(probes, MUST_BE_REACHED);
  test::expect_known(probes);
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
