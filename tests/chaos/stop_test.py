"""A run that is stopped is saved, and goes on from there as if nothing had been: `down`, `leave` of all, and `up --from`."""

import contextlib
import json
import pathlib
import subprocess
import unittest

from prime_run import LIMIT_S, PRIMECTL, Run, wait_until

SLOW = {"PRIME_QUADRATIC_DELAY_MS": "5", "PRIME_QUADRATIC_ELEMENTS": "100000"}
STEPS = 30


def command(run, *words):
    return subprocess.run([str(word) for word in (PRIMECTL, *words, "--state-dir", run.state)], env=run.env, capture_output=True, text=True,
                          timeout=LIMIT_S, check=False)


def saved_states(run):
    return [json.loads((pathlib.Path(line["path"]) / "prime" / "state.json").read_text())
            for lines in run.peer_journals().values() for line in lines if line["event"] == "checkpoint_written"]


class Stop(unittest.TestCase):
    def uninterrupted(self):
        with Run(3, outer_steps=STEPS, env=SLOW) as run:
            self.assertEqual(run.wait_for_end(), 0)
            return {c["revision"]: c["digest"] for c in run.check(outer_steps=STEPS)}

    def go_on(self, run, source, digests):
        """The rest of the run in one of its own, with the same bits in the end."""
        done = command(run, "up", run.manifest, "--local", "3", "--from", source, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Continuing", done.stderr)
        result = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual((result["state"], result["outer_step"], result["digest"]), ("done", STEPS, digests[STEPS]))

    def test_down_saves_what_was_trained_and_another_run_goes_on_with_the_same_bits(self):
        digests = self.uninterrupted()
        with Run(3, outer_steps=STEPS, held_at=10, env=SLOW) as run:
            run.wait_for("outer_step_committed", 4)
            done = command(run, "down", run.up["run_id"], "-o", "json")
            self.assertEqual(done.returncode, 0, done.stderr)
            told = json.loads(done.stdout)
            self.assertEqual((told["ended"], told["killed"], len(told["saved"])), (4, 0, 3))
            run.wait_for_end()
            revision = run.check()[-1]["revision"]
            states = saved_states(run)
            self.assertEqual([(s["revision"], s["state"]) for s in states], [(revision, digests[revision])] * 3)
            status = run.status()["run"]
            self.assertEqual((status["state"], status["outer_step"]), ("failed", revision))
            self.assertIn("PR0510", status["reason"])
            run.hold.unlink()
            self.go_on(run, told["saved"][0], digests)
            # By the run's id the newest of its peers' checkpoints is found; a step too few leaves nothing to do.
            self.go_on(run, run.up["run_id"], digests)
            self.go_on(run, run.run_directory, digests)
            over = command(run, "up", run.manifest, "--from", run.up["run_id"], "--set", f"train.outer_steps={revision}", "--local", "2")
            self.assertEqual(over.returncode, 2)
            self.assertIn("nothing is left to train", over.stderr)

    def test_the_last_who_leaves_saves_the_state(self):
        with Run(3, outer_steps=STEPS, held_at=10, env=SLOW) as run:
            run.wait_for("outer_step_committed", 2)
            done = command(run, "leave", "--run", run.up["run_id"])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotEqual(run.wait_for_end(), 0)
            commits = run.check()
            states = saved_states(run)
            self.assertEqual([(s["revision"], s["state"]) for s in states], [(commits[-1]["revision"], commits[-1]["digest"])])
            self.assertIn("PR0510", run.events("run_stopped")[0]["reason"])

    def test_a_save_that_fails_is_told(self):
        for words in (("down",), ("leave", "--run")):
            with Run(2, outer_steps=1000, retry="0s", env=SLOW) as run:
                run.wait_for("outer_step_committed", 2)
                for peer in run.run_directory.glob("peers/*/"):
                    (peer / "checkpoints").write_text("in the way")
                done = command(run, *words, run.up["run_id"])
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn("could not save", done.stderr)
                self.assertIn("PR0701", done.stderr)
                nothing = command(run, "up", run.manifest, "--local", "2", "--from", run.up["run_id"])
                self.assertEqual(nothing.returncode, 2)
                self.assertIn("has no checkpoint", nothing.stderr)
        empty = command(run, "up", run.manifest, "--from", "")
        self.assertEqual(empty.returncode, 2)

    def test_an_earlier_checkpoint_does_not_hide_that_the_last_state_was_not_saved(self):
        with Run(2, outer_steps=1000, every=2, retry="0s", held_after=3, env=SLOW) as run:
            happened = lambda event: any(line["event"] == event for lines in run.peer_journals().values() for line in lines)
            wait_until("a checkpoint on the way", lambda: happened("checkpoint_written"))
            for peer in run.run_directory.glob("peers/*/"):
                with contextlib.suppress(FileNotFoundError):
                    (peer / "checkpoints").rename(peer / "earlier")
                (peer / "checkpoints").write_text("in the way")
            run.go_on()
            wait_until("one that fails", lambda: happened("checkpoint_failed"))
            done = command(run, "down", run.up["run_id"])
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertEqual(done.stderr.count("could not save its state"), 2, done.stderr)
            self.assertIn("saved before that: ", done.stdout)

    def test_a_damaged_or_foreign_checkpoint_is_refused_with_its_cause(self):
        with Run(2, outer_steps=3, env=SLOW) as run:
            self.assertEqual(run.wait_for_end(), 0)
            checkpoint = pathlib.Path(run.events("final_report")[0]["checkpoint"])
            more = ("--set", "train.outer_steps=5", "--local", "2")
            missing = command(run, "up", run.manifest, "--from", "/no/such/checkpoint", *more)
            self.assertEqual(missing.returncode, 3, missing.stderr)
            run.env["PRIME_QUADRATIC_ELEMENTS"] = "1000"
            foreign = command(run, "up", run.manifest, "--from", checkpoint, *more)
            self.assertEqual(foreign.returncode, 4, foreign.stderr)
            self.assertIn("tensor 0 is `x` [1000] here and `x` [100000] there", foreign.stderr)
            model = checkpoint / "model.safetensors"
            data = bytearray(model.read_bytes())
            data[-1] ^= 1
            model.write_bytes(data)
            damaged = command(run, "up", run.manifest, "--from", checkpoint, *more)
            self.assertEqual(damaged.returncode, 1, damaged.stderr)
            self.assertIn("PR0702", damaged.stderr)
            self.assertIn("model.safetensors", damaged.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
