"""Sharded runs over several machines, which are network namespaces, and cables that are cut between them."""

import pathlib
import sys
import unittest

from grid_test import SHARDS, SLOW, Grid
from prime_run import wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import namespaces  # noqa: E402

WHY_NOT = namespaces.why_not()
SEEN_FROM_ALL = ("--listen", "0.0.0.0:0")


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Cuts(unittest.TestCase):
    def joins(self, run, replica, machines):
        """A replica whose shards are on these machines."""
        for shard, machine in enumerate(machines):
            run.join(machine=machine, flags=("--replica", replica, "--shard", str(shard)))

    def ends(self, run):
        self.assertEqual(run.wait_for_end(), 0)
        for index, process in enumerate(run.processes):
            wait_until("the joiner's end", lambda p=process: p.poll() is not None)
            self.assertEqual(process.returncode, 0, run.join_log(index))

    def test_where_two_replicas_cannot_reach_each_other_each_shard_goes_through_its_own_peer_of_the_third(self):
        with namespaces.machines(3) as names, Grid(1, machine=names[0], up_flags=("--quorum", "3", *SEEN_FROM_ALL), outer_steps=100, held_at=90,
                                                   deadline="6s", dead_after="30s", env=SLOW) as run:
            third = run.up["peers"][0]["replica"]
            for machine in (1, 2):
                self.joins(run, f"of-{machine}", [names[machine]] * SHARDS)
            run.wait_for("outer_step_committed", 3)
            namespaces.drop_between(names, 1, 2)
            for shard in range(SHARDS):
                wait_until(f"the way of shard {shard}", lambda shard=shard: [
                    way for way in run.events("lane_relayed")
                    if {way["name"], way["to"]} == {f"of-1.{shard}", f"of-2.{shard}"} and way["through"] == f"{third}.{shard}"])
            run.contributors(3)
            self.assertEqual(len(run.status()["relayed"]), SHARDS)
            run.hold.unlink()
            self.ends(run)
            commits = run.check_grid(outer_steps=100)
            self.assertEqual({len(c["contributors"]) for c in commits}, {3})
            self.assertEqual(run.events("peer_lost"), [])

    def test_a_replica_that_is_cut_in_two_is_out_as_a_whole_and_comes_back_as_a_whole(self):
        with namespaces.machines(3) as names, Grid(2, machine=names[0], up_flags=("--quorum", "3", *SEEN_FROM_ALL), outer_steps=5000,
                                                   dead_after="4s", deadline="1min", env=SLOW) as run:
            self.joins(run, "third", names[1:])
            run.contributors(3)
            namespaces.partition([0, 1], [2])
            run.wait_for("peer_lost", SHARDS, replica="third")
            run.contributors(2)
            run.wait_for("shard_waits", replica="third", shard=0)
            namespaces.heal(3)
            run.contributors(3)
            self.assertEqual({len(c["contributors"]) for c in run.check_grid()}, {2, 3})


if __name__ == "__main__":
    unittest.main(verbosity=2)
