"""Sharded runs whose trainers go on beside a reduce: each shard is what an independent reference makes of its peers, and the trainers of a
replica begin together whatever is in flight meanwhile."""

import os
import signal
import unittest

from delayed_test import OUTER
from eager_test import LR, MOMENTUM, EagerReference
from fragments_test import Reference
from grid_rounds_test import ENV, SECONDS, states_of
from grid_test import SHARDS, SLOW, Grid
from prime_run import wait_until
from streaming_test import INNER, Streamed

STEPS = 6
PARTS = 4
STREAMING = {"algorithm": "streaming", "inner_steps": INNER, "lr": LR, "momentum": MOMENTUM, "in_flight": 2}
DELAYED = {"algorithm": "delayed", "in_flight": 3, **OUTER}
MIXED = ("--set", "sync.overlap=2", "--set", "sync.mix=0.5")


class OneShard:
    """The run as the peers of one shard have it: each stands for its replica."""

    def __init__(self, run, shard):
        self.shard, self.run = shard, run
        journals = run.peer_journals().values()
        started = [line for lines in journals for line in lines if line["event"] == "process_started"]
        self.first = {line["replica"]: line["peer"] for line in started if line["shard"] == 0}
        assert len(started) == SHARDS * len(self.first), "nobody has joined anew"

    def coordinator(self):
        return self.run.coordinator()

    def peer_journals(self):
        """By the names that the commits have: those of the first shard."""
        found = {}
        for name, lines in self.run.peer_journals().items():
            if lines[0]["shard"] == self.shard:
                first = self.first[lines[0]["replica"]]
                found[name] = [{**line, "peer": first} if line["event"] == "process_started" else line for line in lines]
        return found


class Overlapping(unittest.TestCase):
    def run_of(self, replicas, *, quorum=None, flags=(), outer_steps=STEPS, fragments=PARTS, **manifest):
        return Grid(replicas, env=ENV | manifest.pop("env", {}), up_flags=["--quorum", str(quorum or replicas), *flags], outer_steps=outer_steps,
                    fragments=fragments, every=1, **manifest)

    def equals(self, run, reference):
        """The last saved state of each shard has the values that the reference makes of its fragments."""
        saved = states_of(run)
        self.assertEqual(set(saved), set(range(SHARDS)))
        for shard, (step, tensors, _) in saved.items():
            self.assertEqual(step, STEPS)
            expected = reference(OneShard(run, shard)).final()
            near = [[value for value in expected if abs(values[0] - value) <= 1e-6 * STEPS] for values in tensors.values()]
            self.assertTrue(all(near), f"shard {shard}: {tensors}, by hand {expected}")
            self.assertEqual({value for values in near for value in values}, set(expected))
            for values in tensors.values():
                self.assertEqual(len(set(values)), 1, "all values of a tensor are alike")

    def ends_whole(self, run, outer_steps=STEPS):
        self.assertEqual(run.wait_for_end(), 0)
        commits = self.has_one_lineage(run)
        self.assertEqual(len(commits), outer_steps)
        return commits

    def has_one_lineage(self, run):
        commits = run.check_grid() if run.fragments == 1 else run.events("outer_step_committed")
        self.assertEqual([line["outer_step"] for line in commits], list(range(1, len(commits) + 1)))
        digests = {}
        for lines in run.peer_journals().values():
            for line in lines:
                if line["event"] == "outer_step_committed":
                    self.assertEqual(digests.setdefault((line["revision"], lines[0]["shard"]), line["digest"]), line["digest"])
        return commits

    def test_each_shard_is_what_its_peers_have_made(self):
        for replicas in (2, 3):
            with self.subTest(algorithm="delayed", replicas=replicas), self.run_of(replicas, **DELAYED) as run:
                self.ends_whole(run)
                self.equals(run, lambda shard: Reference(shard, PARTS, **OUTER))
            with self.subTest(algorithm="eager", replicas=replicas), \
                    self.run_of(replicas, fragments=1, algorithm="eager", lr=LR, momentum=MOMENTUM) as run:
                self.ends_whole(run)
                self.equals(run, lambda shard: EagerReference(shard, 1))
            with self.subTest(algorithm="streaming", replicas=replicas), self.run_of(replicas, flags=MIXED, **STREAMING) as run:
                self.ends_whole(run)
                self.equals(run, lambda shard: Streamed(shard, PARTS, 2, 0.5))

    def begun_anew(self, run):
        return {(lines[0]["replica"], lines[0]["shard"]) for lines in run.peer_journals().values() for line in lines
                if line["event"] == "outer_step_begun_anew"}

    def lives_through(self, run, fault):
        """Of a replica that joins the second shard's trainer dies, and both begin anew."""
        env = {"PRIME_GRID_MEET": run.meet}
        late = [run.join(flags=("--replica", "late", "--shard", str(shard)), env={**env, "PRIME_FAULT": fault} if shard else env)
                for shard in range(SHARDS)]
        commits = self.ends_whole(run)
        for process in late:
            wait_until("the joiner's end", lambda ended=process: ended.poll() is not None)
        self.assertEqual({len(line["contributors"]) for line in commits}, {3})
        self.assertEqual(run.events("peer_lost"), [])
        self.assertEqual(self.begun_anew(run), {("late", shard) for shard in range(SHARDS)})

    def test_trainers_that_begin_anew_take_the_place_of_nothing_that_is_reduced(self):
        for parts in (1, PARTS):
            with self.run_of(2, quorum=3, fragments=parts, **DELAYED) as run:
                self.lives_through(run, "trainer@voting:3.0")
                self.equals(run, lambda shard, parts=parts: Reference(shard, parts, **OUTER))

    def test_trainers_that_begin_anew_publish_what_not_all_of_them_have(self):
        with self.run_of(2, quorum=3, flags=MIXED, **STREAMING) as run:
            self.lives_through(run, "trainer@voting:3.1")

    def test_trainers_that_go_on_with_what_they_have_begin_together_when_one_died_that_had_contributed(self):
        with self.run_of(1, quorum=2, flags=MIXED, outer_steps=1_000_000, **STREAMING) as run:
            slow = [run.join(flags=("--replica", "slow", "--shard", str(shard)), env={**SECONDS, "PRIME_GRID_MEET": run.meet}) for shard in range(SHARDS)]
            run.wait_for("outer_step_committed", 2)
            quick = run.peer(0, 1)
            before = len(run.events("peer_ready"))
            wait_until("all that it makes of a step", lambda: sum(
                line["peer"] == quick["id"] and line["outer_step"] == run.events("peer_ready")[-1]["outer_step"] for line in run.events("peer_ready")[before:]) >= PARTS)
            os.kill(run.trainer(quick), signal.SIGKILL)
            both = {(quick["replica"], shard) for shard in range(SHARDS)}
            wait_until("both of them begin anew", lambda: both <= self.begun_anew(run))
            committed = len(run.events("outer_step_committed"))
            run.wait_for("outer_step_committed", committed + 2)
            self.assertEqual(run.primectl("down", run.up["run_id"]).returncode, 0)
            run.wait_for_end()
            for process in slow:
                process.wait()
            self.assertEqual(self.begun_anew(run), both)
            self.assertEqual({len(line["contributors"]) for line in self.has_one_lineage(run)}, {2})
            self.assertEqual(run.events("peer_lost"), [])

    def test_trainers_that_begin_anew_expect_nothing_of_what_is_void(self):
        with self.run_of(2, quorum=3, fragments=1, algorithm="eager", lr=LR, momentum=MOMENTUM) as run:
            self.lives_through(run, "trainer@voting:3.0")

    def test_the_run_goes_on_from_its_bits_when_a_replica_and_the_coordinator_are_lost(self):
        for algorithm, flags in ((DELAYED, ()), (STREAMING, MIXED)):
            with self.subTest(**algorithm), self.run_of(3, flags=flags, outer_steps=16, held_at=12, env=SLOW | ENV, **algorithm) as run:
                joiner = run.loses_one_after_the_other()
                commits = self.ends_whole(run, 16)
                joiner.wait()
                self.assertEqual(len(commits[-1]["contributors"]), 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
