"""Six machines with a cable between each two, each way of which is narrow in its own way: the ring is the best one, and follows a change."""

import itertools
import pathlib
import sys
import unittest

from prime_run import Run, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import namespaces  # noqa: E402


WHY_NOT = namespaces.why_not()
MACHINES = 6
ELEMENTS = 100_000
# Mbit/s from the row's machine to the column's. Levels are far apart: what is measured may err by a fifth, and the best ring is the same.
CABLES = [
    [0, 4, 9, 60, 20, 4],
    [9, 0, 4, 9, 4, 60],
    [20, 9, 0, 4, 60, 9],
    [4, 60, 20, 0, 4, 9],
    [60, 4, 9, 4, 0, 20],
    [4, 20, 60, 9, 9, 0],
]


def slowest(cables, ring):
    return min(cables[a][b] for a, b in zip(ring, ring[1:] + ring[:1]))


def best(cables):
    return max(slowest(cables, [0, *rest]) for rest in itertools.permutations(range(1, MACHINES)))


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Topology(unittest.TestCase):
    def ring(self, run, count):
        """The machines in the order of the last of `count` rings."""
        order = run.wait_for("ring_adopted", count)[-1]["order"].split(", ")
        return [self.names.index(name) for name in order]

    def reduce_time(self, run):
        """Of three further outer steps, the one in the middle."""
        before = len(run.events("outer_step_committed"))
        return sorted(event["reduce_s"] for event in run.wait_for("outer_step_committed", before + 4)[-3:])[1]

    def test_the_ring_is_the_best_one_and_goes_round_a_cable_that_becomes_narrow(self):
        cables = [list(row) for row in CABLES]
        env = {"PRIME_QUADRATIC_DELAY_MS": "250", "PRIME_QUADRATIC_ELEMENTS": str(ELEMENTS)}
        with namespaces.cabled(MACHINES) as machines:
            for a, b in itertools.permutations(range(MACHINES), 2):
                namespaces.narrow(machines, a, b, cables[a][b])
            with Run(1, machine=machines[0], env=env, ring="measured_bandwidth", outer_steps=5000, deadline="5min", beat="1s", dead_after="1min",
                     up_flags=("--quorum", str(MACHINES), "--listen", namespaces.cable_address(0) + ":0")) as run:
                self.names = [run.up["peers"][0]["name"]]
                for index in range(1, MACHINES):  # one after the other: the order of arrival is that of the machines, a slow one
                    self.names.append(f"machine-{index}")
                    run.join(machine=machines[index], flags=("--name", self.names[-1]))
                    wait_until("its greeting", lambda count=index + 1: len(run.events("peer_joining")) >= count)
                self.assertLess(slowest(cables, list(range(MACHINES))), best(cables))
                found = self.ring(run, 1)
                self.assertEqual(slowest(cables, found), best(cables), found)
                good = self.reduce_time(run)
                names = [self.names[machine] for machine in found]
                links = {peer["name"]: peer["link"]["to"] for peer in run.status()["peers"]}
                self.assertEqual(links, dict(zip(names, names[1:] + names[:1])), "status knows the ring, link by link")

                a, b = found[0], found[1]
                cables[a][b] = 1
                adopted = len(run.events("ring_adopted"))
                namespaces.narrow(machines, a, b, 1)
                found = self.ring(run, adopted + 1)
                self.assertEqual(slowest(cables, found), best(cables), found)
                adopted = run.events("ring_adopted")[-1]
                self.assertGreater(adopted["slowest_bytes_per_s"], adopted["before_bytes_per_s"])
                again = self.reduce_time(run)
                # Each way of the former ring would carry all parts but one, twice. (Whether a reduce did so depends on when the change was measured.)
                former = 2 * (MACHINES - 1) / MACHINES * ELEMENTS * 4 / (cables[a][b] * 1e6 / 8)
                print(f"a reduce took {good:.2f} s, and {again:.2f} s when the ring had changed; the former ring would need {former:.2f} s")
                self.assertLess(again, former / 2)
                run.check()


if __name__ == "__main__":
    unittest.main(verbosity=2)
