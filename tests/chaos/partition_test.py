"""Cables between machines, which are network namespaces: cut in two, cut between two, cut shortly, narrow. One side at most commits; healing yields one lineage."""

import os
import pathlib
import signal
import sys
import unittest

from prime_run import Run, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import namespaces  # noqa: E402


WHY_NOT = namespaces.why_not()
SMALL = {"PRIME_QUADRATIC_DELAY_MS": "10", "PRIME_QUADRATIC_ELEMENTS": "100000"}


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Partition(unittest.TestCase):
    def swarm(self, names, **manifest):
        """One peer and the coordinator on the first machine, one peer on each other; together from the first outer step on."""
        run = Run(1, machine=names[0], up_flags=("--quorum", str(len(names)), "--listen", "0.0.0.0:0"),
                  env=SMALL, **{"dead_after": "4s", "deadline": "1min", **manifest})
        for name in names[1:]:
            run.join(machine=name)
        return run

    def ends(self, run):
        for index, process in enumerate(run.processes):
            wait_until("the joiner's end", lambda p=process: p.poll() is not None)
            self.assertEqual(process.returncode, 0, run.join_log(index))

    def contributors(self, run):
        return len(run.events("outer_step_committed")[-1]["contributors"])

    def ready(self, run):
        """How many have done their part of the step under way."""
        step = run.events("outer_step_begun")[-1]["outer_step"]
        return len({event["peer"] for event in run.events("peer_ready") if event["outer_step"] == step})

    def test_three_go_on_without_two_who_come_back_as_new_peers(self):
        with namespaces.machines(5) as names, self.swarm(names, outer_steps=5000) as run:
            run.wait_for("outer_step_committed", 3)
            namespaces.partition([0, 1, 2], [3, 4])
            lost = {event["peer"] for event in run.wait_for("peer_lost", 2)}
            before = len(run.events("outer_step_committed"))
            run.wait_for("outer_step_committed", before + 5)
            self.assertEqual(self.contributors(run), 3)
            namespaces.heal(5)
            admitted = run.wait_for("peer_admitted", 7)
            self.assertFalse(lost & {event["peer"] for event in admitted[-2:]})
            wait_until("a step of all five", lambda: self.contributors(run) == 5)
            run.check(lost=2)

    def test_a_minority_stands_still_although_it_has_the_coordinator(self):
        with namespaces.machines(5) as names, self.swarm(names, outer_steps=5000, minimum=3) as run:
            run.wait_for("outer_step_committed", 3)
            namespaces.partition([0, 1], [2, 3, 4])
            run.wait_for("peer_lost", 3)
            run.wait_for("waiting")
            committed = len(run.events("outer_step_committed"))
            namespaces.heal(5)
            run.wait_for("outer_step_committed", committed + 1)
            at_least = len(run.events("outer_step_committed")[committed]["contributors"])
            self.assertGreaterEqual(at_least, 3, "no step of the minority alone")
            wait_until("a step of all five", lambda: self.contributors(run) == 5)
            run.check(lost=3)

    def test_a_cut_between_two_is_gone_round_through_the_third_and_loses_nobody(self):
        with namespaces.machines(3) as names, self.swarm(names, outer_steps=100, held_at=90, deadline="6s", dead_after="30s") as run:
            run.wait_for("outer_step_committed", 3)
            namespaces.drop_between(names, 1, 2)
            relayed = run.wait_for("lane_relayed")[-1]
            peers = {peer["id"]: peer["name"] for peer in run.status()["peers"]}
            third = run.up["peers"][0]["name"]
            self.assertEqual({relayed["name"], relayed["to"]}, set(peers.values()) - {third})
            self.assertEqual(relayed["through"], third)
            self.assertEqual(run.status()["relayed"], [{"from": relayed["name"], "to": relayed["to"], "through": third}])
            run.hold.unlink()
            self.assertEqual(run.wait_for_end(), 0)
            self.ends(run)
            commits = run.check(outer_steps=100)
            self.assertEqual(len(commits[-1]["contributors"]), 3)
            self.assertEqual({peer["digest"] for peer in run.status()["peers"]}, {commits[-1]["digest"]})
            aborted = [event["reason"] for event in run.events("outer_step_aborted")]
            # The one that was cut, and perhaps one more, when only the end that is dialed knows of the cut: not those until TCP gives up.
            self.assertLess(len(aborted), 4, aborted)

    def test_when_the_one_in_the_middle_is_killed_another_one_takes_its_place(self):
        with namespaces.machines(4) as names, self.swarm(names, outer_steps=5000, deadline="6s", dead_after="30s") as run:
            run.wait_for("outer_step_committed", 3)
            namespaces.drop_between(names, 1, 2)
            first = run.wait_for("lane_relayed")[-1]
            pids = {peer["name"]: peer["pid"] for peer in run.status()["peers"]}
            os.kill(pids[first["through"]], signal.SIGKILL)
            second = run.wait_for("lane_relayed", 2)[-1]
            self.assertEqual({second["name"], second["to"]}, {first["name"], first["to"]})
            self.assertNotIn(second["through"], {first["through"], first["name"], first["to"]})
            committed = len(run.events("outer_step_committed"))
            run.wait_for("outer_step_committed", committed + 5)
            self.assertEqual(self.contributors(run), 3)
            run.check(lost=1)

    def test_where_nobody_can_stand_in_the_middle_the_younger_of_two_goes(self):
        with namespaces.machines(3) as names, self.swarm(names, outer_steps=5000, minimum=1, deadline="6s", dead_after="30s") as run:
            run.wait_for("outer_step_committed", 3)
            os.kill(run.up["peers"][0]["pid"], signal.SIGKILL)  # on the machine of the coordinator, which goes on
            run.wait_for("peer_lost")
            namespaces.drop_between(names, 1, 2)
            younger = run.events("peer_admitted")[-1]["peer"]
            self.assertEqual(run.wait_for("peer_lost", 2)[1]["peer"], younger)
            committed = len(run.events("outer_step_committed"))
            # The step ends before its loser takes part anew.
            self.assertEqual(len(run.wait_for("outer_step_committed", committed + 1)[committed]["contributors"]), 1)
            self.assertEqual(run.events("lane_relayed"), [])
            run.check(lost=len(run.events("peer_lost")))

    def test_a_cut_that_is_shorter_than_the_limit_loses_nobody(self):
        with namespaces.machines(3) as names, self.swarm(names, outer_steps=60, dead_after="2min", deadline="5min") as run:
            for island in ([2], [1, 2], [1]):
                run.wait_for("outer_step_committed", len(run.events("outer_step_committed")) + 3)
                namespaces.partition([m for m in range(3) if m not in island], island)
                committed = len(run.events("outer_step_committed"))
                # Nothing more can happen on the coordinator's side: who is there has done its part of the step.
                wait_until("the others' part", lambda here=3 - len(island): self.ready(run) >= here)
                namespaces.heal(3)
                run.wait_for("outer_step_committed", committed + 2)
            self.assertEqual(run.wait_for_end(), 0)
            self.ends(run)
            commits = run.check(outer_steps=60)
            self.assertEqual(len(commits[-1]["contributors"]), 3)

    def test_a_narrow_cable_makes_it_slow_and_nothing_else(self):
        with namespaces.machines(3) as names:
            namespaces.run("tc", "-n", names[2], "qdisc", "add", "dev", namespaces.DEVICE, "root", "tbf", "rate", "20mbit", "burst", "16kb",
                           "latency", "200ms")
            with self.swarm(names, outer_steps=8, dead_after="20s") as run:
                self.assertEqual(run.wait_for_end(), 0)
                self.ends(run)
                commits = run.check(outer_steps=8)
                self.assertEqual(len(commits[-1]["contributors"]), 3)
                self.assertEqual(run.events("outer_step_aborted"), [])

    def test_a_reduce_that_takes_longer_than_the_deadline_is_slow_and_not_dead(self):
        with namespaces.machines(3) as names:
            # A step takes its peer 0.5 MB: more than eight seconds.
            namespaces.run("tc", "-n", names[2], "qdisc", "add", "dev", namespaces.DEVICE, "root", "tbf", "rate", "500kbit", "burst", "16kb",
                           "latency", "200ms")
            with self.swarm(names, outer_steps=2, dead_after="20s", deadline="6s") as run:
                self.assertEqual(run.wait_for_end(), 0)
                self.ends(run)
                commits = run.check(outer_steps=2)
                self.assertEqual(len(commits[-1]["contributors"]), 3)
                self.assertEqual(run.events("outer_step_aborted"), [])
                self.assertTrue(all(commit["operation_s"] > 6 for commit in commits), commits)


if __name__ == "__main__":
    unittest.main(verbosity=2)
