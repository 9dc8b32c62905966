"""`sync.algorithm: delayed`: an outer step is reduced while the next one is trained. Each step begins from the state two steps before it, to the
bit the same on all peers, and with losses what an independent reference makes of the journaled contributors and the states they began from."""

import unittest

from fragments_test import Reference
from overlapped import ENV, STEPS, Overlapped
from prime_run import Run, wait_until

OUTER = {"lr": 0.4, "momentum": 0.5}


class Delayed(Overlapped):
    def run_of(self, peers, parts, in_flight, quorum=None, **manifest):
        return Run(peers, up_flags=["--quorum", str(quorum or peers)], env=ENV, algorithm="delayed", fragments=parts, in_flight=in_flight, every=1,
                   outer_steps=STEPS, **OUTER, **manifest)

    def equals_reference(self, run, parts):
        return self.equals(run, Reference(run, parts, **OUTER).final())

    def overlaps(self, run):
        """The next step had begun before this one was committed."""
        lines = run.coordinator()
        at = {line["outer_step"]: number for number, line in enumerate(lines) if line["event"] == "outer_step_begun"}
        for number, line in enumerate(lines):
            if line["event"] == "outer_step_committed" and line["outer_step"] < STEPS:
                self.assertLess(at[line["outer_step"] + 1], number)

    def test_each_step_begins_from_the_state_two_steps_before_it(self):
        for peers in (2, 3, 5):
            saved = []
            for parts, in_flight in ((1, 1), (4, 1), (4, 3)):
                with self.run_of(peers, parts, in_flight) as run:
                    self.assertEqual(run.wait_for_end(), 0)
                    run.check(outer_steps=STEPS)
                    self.overlaps(run)
                    for line in self.rounds(run):
                        self.assertEqual(line["base_versions"], [max(line["version"] - 2, 0) * parts] * peers, line)
                    saved.append(self.equals_reference(run, parts))
            self.assertEqual(saved[0], saved[1], f"{peers} peers")
            self.assertEqual(saved[0], saved[2], f"{peers} peers, three fragments in flight")

    def lose(self, fault, lost, parts=4, in_flight=3):
        with self.run_of(2, parts, in_flight, quorum=3) as run:
            victim = run.join(env={"PRIME_FAULT": fault})
            self.ends_well(run, victim, lost)
            self.equals_reference(run, parts)
            return {line["version"]: len(line["contributors"]) for line in self.rounds(run)}

    def test_who_dies_in_a_reduce_is_in_neither_step(self):
        # Its trainer is at step 3 while step 2 is reduced.
        contributors = self.lose("agent@reducing:50:2.0", lost=1, parts=1, in_flight=1)
        self.assertEqual([contributors[step] for step in range(1, STEPS + 1)], [3, 2, 2, 2, 2, 2])

    def test_who_dies_with_its_vote_costs_no_bit(self):
        contributors = self.lose("agent@voting:3.1", lost=1)
        self.assertEqual([contributors[step] for step in (1, 2, 4, 5, 6)], [3, 3, 2, 2, 2])
        contributors = self.lose("agent@reducing:50:2.2", lost=1)
        self.assertEqual([contributors[step] for step in (1, 3, 4, 5, 6)], [3, 2, 2, 2, 2])

    def test_a_trainer_that_dies_while_its_last_work_is_reduced_takes_the_place_of_nothing(self):
        for parts in (1, 4):
            contributors = self.lose("trainer@voting:3.0", lost=0, parts=parts)
            self.assertEqual(set(contributors.values()), {3})

    def test_the_coordinator_that_dies_between_two_steps_loses_and_doubles_nothing(self):
        with self.run_of(3, 4, 3, held_at=STEPS) as run:
            self.lives_through_two_deaths_of_its_coordinator(run)
            self.equals_reference(run, 4)

    def test_a_joiner_comes_in_between(self):
        with Run(2, up_flags=["--quorum", "2"], env=ENV, algorithm="delayed", outer_steps=STEPS, held_at=4, every=1, **OUTER) as run:
            self.joined_in_between(run)
            self.equals_reference(run, 1)
            self.assertEqual(len(self.rounds(run)[-1]["contributors"]), 3)

    def test_who_trains_for_the_next_step_leaves_it_for_one_that_too_few_are_left_of(self):
        with Run(1, up_flags=["--quorum", "3"], env=ENV, algorithm="delayed", outer_steps=STEPS, held_at=4, every=1, **OUTER) as run:
            victims = [run.join(env={"PRIME_FAULT": "agent@reducing:50:4.0"}) for _ in range(2)]
            run.wait_until_held()
            joiner = run.join()  # has no part in step 4, which the others work on
            run.wait_for("peer_admitted", 4)
            run.hold.unlink()
            self.ends_well(run, joiner, lost=2)
            for victim in victims:
                wait_until("the end of who died", lambda ended=victim: ended.poll() is not None)
            last = run.events("peer_admitted")[-1]["peer"]
            made = next(line for line in self.rounds(run) if line["version"] == 4)
            self.assertIn(last, made["contributors"])
            self.assertEqual(len(made["contributors"]), 2)
            reference = Reference(run, 1, **OUTER)
            reference.begun = {at: first for at, first in reference.begun.items() if at[1] < 4 or at[0] in made["contributors"]}  # two are gone by then
            self.equals(run, reference.final())


if __name__ == "__main__":
    unittest.main(verbosity=2)
