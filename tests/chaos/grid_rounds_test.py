"""Sharded runs whose rounds are of fragments, or close without a slow replica: every shard of every replica has its part in each of them."""

import json
import os
import pathlib
import signal
import unittest

from fragments_test import PARTS, tensors_of
from grid_test import SHARDS, SLOW, Grid
from prime_run import wait_until
from straggler_test import brought_late

ENV = {"PRIME_QUADRATIC_TENSORS": "8", "PRIME_QUADRATIC_ELEMENTS": "4000"}
FRAGMENTS = ("--set", f"sync.fragments.count={PARTS}", "--set", "sync.fragments.pattern=balanced")
SECONDS = {"PRIME_QUADRATIC_DELAY_MS": "120"}


def states_of(run):
    """The newest saved state of each shard."""
    found = {}
    for path in sorted(run.state.glob("*/peers/*/checkpoints/step-*"), key=lambda path: path.name):
        state = json.loads((path / "prime" / "state.json").read_text())
        found[state["shard"]] = (state["outer_step"], tensors_of(path / "model.safetensors"), tensors_of(path / "prime" / "outer_momentum.safetensors"))
    return found


class Fragments(unittest.TestCase):
    def check(self, run, outer_steps):
        """One lineage of rounds, and the same bits after each outer step on all peers of a shard."""
        rounds = run.events("round_committed")
        self.assertEqual([line["revision"] for line in rounds], list(range(1, PARTS * outer_steps + 1)))
        self.assertEqual(sorted((line["version"], line["fragment"]) for line in rounds),
                         [(step, part) for step in range(1, outer_steps + 1) for part in range(PARTS)])
        digests = {}
        for name, lines in run.peer_journals().items():
            for line in lines:
                if line["event"] == "outer_step_committed":
                    key = line["revision"], lines[0]["shard"]
                    self.assertEqual(digests.setdefault(key, line["digest"]), line["digest"], f"{name}: {line}")
        self.assertEqual({shard for _, shard in digests}, set(range(SHARDS)))
        return states_of(run)

    def test_shards_in_four_fragments_are_shards_in_one_to_the_bit(self):
        found = []
        for flags in ((), FRAGMENTS, (*FRAGMENTS, "--set", "sync.in_flight=3")):
            with Grid(2, outer_steps=5, env=ENV, up_flags=flags) as run:
                self.assertEqual(run.wait_for_end(), 0)
                found.append(self.check(run, 5) if flags else states_of(run))
        self.assertEqual(set(found[0]), set(range(SHARDS)))
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])

    def test_with_losses_all_peers_of_a_shard_hold_the_same_bits_and_the_run_goes_on_from_them(self):
        with Grid(3, outer_steps=16, held_at=12, env=SLOW | ENV, up_flags=FRAGMENTS) as run:
            joiner = run.loses_one_after_the_other()
            self.assertEqual(run.wait_for_end(), 0)
            joiner.wait()
            self.assertEqual({step for step, _, _ in self.check(run, 16).values()}, {16})
            self.assertEqual(len(run.events("outer_step_committed")[-1]["contributors"]), 3)

            again = run.primectl("up", run.manifest, "--local", "2", "-d", "-o", "json", "--from", run.up["run_id"], *FRAGMENTS, "--set", "train.outer_steps=18")
            self.assertEqual(again.returncode, 0, again.stderr)
            before = run.events("outer_step_committed")[-1]
            run.up = json.loads(again.stdout)
            run.run_directory = pathlib.Path(run.up["state_dir"])
            self.assertEqual(run.wait_for_end(), 0)
            continues = run.events("run_continues")[0]
            self.assertEqual((continues["revision"], continues["digest"]), (before["revision"], before["digest"]))
            self.assertEqual([line["outer_step"] for line in run.events("outer_step_committed")], [17, 18])


class Quorum(unittest.TestCase):
    def test_steps_close_without_a_slow_replica_and_the_work_of_all_its_shards_comes_with_a_later_one(self):
        flags = ("--set", "sync.quorum=2", "--set", "sync.grace=0ms")
        with Grid(2, outer_steps=1_000_000, env={"PRIME_QUADRATIC_DELAY_MS": "15"}, up_flags=flags) as run:
            slow = [run.join(flags=("--replica", "slow", "--shard", str(shard)), env={**SECONDS, "PRIME_GRID_MEET": run.meet}) for shard in range(SHARDS)]
            late = run.wait_for("peer_late", SHARDS, replica="slow")
            lead = next(line["peer"] for line in late if line["shard"] == 0)
            commit = wait_until("late work in a commit", lambda: brought_late(run, lead))
            self.assertIn(lead, commit["contributors"])
            victim = run.wait_for("peer_ready", replica="slow", shard=1)[-1]["trainer_pid"]
            os.kill(victim, signal.SIGKILL)
            wait_until("work of the trainer that came after it", lambda: [
                line for line in run.events("peer_ready") if line.get("replica") == "slow" and line["shard"] == 1 and line["trainer_pid"] != victim])
            self.assertEqual(run.primectl("down", run.up["run_id"]).returncode, 0)
            run.wait_for_end()
            for process in slow:
                process.wait()
            commits = run.check_grid()
            self.assertTrue([c for c in commits if len(c["contributors"]) == 2 and c["peers"] == 3], "steps closed without one of three")
            self.assertEqual(run.events("peer_lost"), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
