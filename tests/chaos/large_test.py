"""Models at the edge of what can be bound: what is trained is saved, fetched and found again; what could not be is refused before step 1."""

import json
import os
import subprocess
import unittest

from prime_run import LIMIT_S, PRIMECTL, Run, wait_until


def tensors_in(file):
    with open(file, "rb") as opened:
        header = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
    return {name: entry for name, entry in header.items() if name != "__metadata__"}


class Large(unittest.TestCase):
    def test_ten_thousand_tensors_with_long_names_are_trained_fetched_saved_and_gone_on_from(self):
        env = {"PRIME_QUADRATIC_TENSORS": "10000", "PRIME_QUADRATIC_ELEMENTS": "30000"}
        with Run(2, outer_steps=4, held_at=3, env=env) as run:
            run.wait_for("outer_step_begun", 3)
            joiner = run.join()
            run.release(3)
            self.assertEqual(run.wait_for_end(), 0)
            wait_until("the joiner's end", lambda: joiner.poll() is not None)
            self.assertEqual(joiner.returncode, 0, run.join_log(0))
            self.assertTrue(any(line["event"] == "state_fetched" for lines in run.peer_journals().values() for line in lines))
            run.check(outer_steps=4)
            (saved,) = run.run_directory.glob("peers/*/checkpoints/step-000004")
            for file in ("model.safetensors", "prime/outer_momentum.safetensors"):
                tensors = tensors_in(saved / file)
                self.assertEqual((len(tensors), {len(name) for name in tensors}), (10000, {250}))
            again = subprocess.run([str(PRIMECTL), "up", str(run.manifest), "--local", "2", "--from", str(saved), "--set", "train.outer_steps=6", "-o", "json",
                                    "--state-dir", str(run.state)], env=run.env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertEqual(len(list(run.state.glob("*/peers/*/checkpoints/step-000006"))), 1)

    def attended(self, tensors):
        """A run of one peer with so many tensors, to its end: its exit code, and what `up` said."""
        run = self.enterContext(Run(1, minimum=1, outer_steps=1, foreground=True,
                                    env={"PRIME_QUADRATIC_TENSORS": str(tensors), "PRIME_QUADRATIC_ELEMENTS": str(tensors)}))
        code = run.attended.wait(LIMIT_S)
        return run, code, (run.directory / "up.log").read_text()

    def test_what_no_checkpoint_could_hold_is_refused_by_name_before_the_first_step(self):
        run, code, said = self.attended(100001)
        self.assertNotEqual(code, 0)
        self.assertIn("100001 tensors are bound, and a model has at most 100000: merge small ones", said)
        self.assertIn("PR0305", said)
        self.assertEqual(run.events("outer_step_begun") + run.events("peer_seated"), [])

    @unittest.skipIf(os.environ.get("PRIME_SANITIZED"), "100 000 tensors take minutes under sanitizers; the release suite saves them")
    def test_as_many_tensors_as_can_be_bound_are_saved(self):
        run, code, said = self.attended(100000)
        self.assertEqual(code, 0, said)
        (saved,) = run.run_directory.glob("peers/*/checkpoints/step-000001")
        self.assertEqual(len(tensors_in(saved / "model.safetensors")), 100000)

    def test_a_place_where_no_checkpoint_fits_is_refused_before_the_first_step(self):
        with Run(1, minimum=1, outer_steps=1) as run:
            run.wait_for_end()
            (journal,) = run.run_directory.glob("peers/*/journal.jsonl")
            # The journal's path fits into the longest one, and that of a checkpoint's files does not.
            deep = run.directory
            left = 4090 - len(str(journal.relative_to(run.state))) - len(str(deep))
            for length in [200] * (left // 201) + [left % 201 - 1] * (left % 201 > 1):
                deep /= "d" * length
            done = subprocess.run([str(PRIMECTL), "up", str(run.manifest), "--local", "1", "--state-dir", str(deep)], env=run.env, capture_output=True,
                                  text=True, timeout=LIMIT_S, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("a checkpoint, tried out before the first step", done.stderr)
            self.assertIn("File name too long", done.stderr)
            (coordinator,) = deep.glob("*/coordinator/journal.jsonl")
            self.assertNotIn("outer_step_begun", coordinator.read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)
