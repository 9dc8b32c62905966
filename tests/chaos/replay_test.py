"""`primectl replay`: from the coordinator's journal and what the peers have kept, every version of a run comes out as it was committed, to
the bit: under every algorithm, codec and schedule, with peers that come, go and die. And it tells what is missing, and what is not so."""

import json
import os
import shutil
import signal
import subprocess
import unittest

from overlapped import ENV, STEPS
from prime_run import LIMIT_S, PRIMECTL, Run, wait_until

KEEP = ["--set", "checkpoint.keep_contributions=true"]
SPREAD = {**ENV, "PRIME_QUADRATIC_SPREAD": "1"}  # so that the order of a sum is seen in its bits


def spoil(path):
    """One bit in the middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def settings(*keys):
    return [word for key in keys for word in ("--set", key)]


class Replay(unittest.TestCase):
    def run_of(self, peers, algorithm, *keys, fragments=1, start=None, **more):
        return Run(peers, up_flags=[*KEEP, *settings(*keys), "--quorum", str(start or peers)], env=SPREAD, algorithm=algorithm, fragments=fragments, outer_steps=STEPS,
                   inner_steps=8, lr=0.4, momentum=0.5, **more)

    def replay(self, run, *more):
        done = subprocess.run([PRIMECTL, "replay", run.up["run_id"], "--state-dir", run.state, "-o", "json", *more],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    def is_replayed(self, run, fragments=1):
        code, said = self.replay(run, "--contributions", run.directory)  # of joiners, too, whose files lie beside those of `up`
        self.assertEqual(code, 0, said)
        lines = run.coordinator()
        rounds = [line for line in lines if line["event"] == "round_committed"]
        self.assertEqual((said["rounds"], said["committed"], said["fragments"]), (len(rounds), len(rounds), fragments))
        self.assertEqual(said["contributions"], sum(len(line["contributors"]) for line in rounds))
        self.assertEqual(said["state"], next(line for line in lines if line["event"] == "run_done")["digest"])
        self.assertEqual(said["outer_step"], STEPS)

    def test_every_version_comes_out_to_the_bit(self):
        for peers, algorithm, keys, fragments in ((3, "diloco", (), 1),
                                                  (3, "diloco", ("sync.wire.codec=int8",), 2),
                                                  (2, "diloco", ("sync.wire.codec=int4", "sync.wire.feedback=true"), 1),
                                                  (3, "diloco", ("sync.wire.codec=int8", "sync.wire.rounding=stochastic", "sync.merge=radial"), 1),
                                                  (3, "streaming", ("sync.overlap=2",), 4),
                                                  (2, "eager", (), 1)):
            with self.subTest(algorithm=algorithm, keys=keys), self.run_of(peers, algorithm, *keys, fragments=fragments, in_flight=2) as run:
                self.assertEqual(run.wait_for_end(), 0)
                self.is_replayed(run, fragments)

    def test_of_decoupled_the_journal_is_a_tape(self):
        with self.run_of(2, "decoupled", "sync.quorum=1", "sync.grace=0s", fragments=4, in_flight=2, held_at=STEPS) as run:
            joiner = run.join()
            run.wait_for("reduce_started", outer_step=2)
            os.kill(run.coordinator_pid(), signal.SIGKILL)
            run.wait_for("coordinator_restarted")
            run.hold.unlink()
            self.assertEqual(run.wait_for_end(), 0)
            wait_until("the joiner's end", lambda: joiner.poll() is not None)
            self.is_replayed(run, 4)

    def test_a_try_that_was_void_is_no_part_of_it(self):
        with self.run_of(2, "diloco", start=3) as run:
            victim = run.join(env={"PRIME_FAULT": "agent@reducing:50:3"})
            self.assertEqual(run.wait_for_end(), 0)
            wait_until("the joiner's end", lambda: victim.poll() is not None)
            self.assertTrue([line for line in run.coordinator() if line["event"] == "outer_step_aborted"])
            self.is_replayed(run)

    def test_a_run_that_goes_on_from_another_one_is_replayed_from_there(self):
        with self.run_of(2, "diloco", "sync.wire.codec=int4", "sync.wire.feedback=true") as run:
            self.assertEqual(run.wait_for_end(), 0)
            first = run.up["run_id"]
            more = subprocess.run([PRIMECTL, "up", run.manifest, "--local", "2", "--state-dir", run.state, "--from", first, *KEEP,
                                   *settings("sync.wire.codec=int4", "sync.wire.feedback=true", f"train.outer_steps={2 * STEPS}")],
                                  env=run.env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            self.assertEqual(more.returncode, 0, more.stderr)
            (second,) = {path.name for path in run.state.iterdir()} - {first}
            run.up["run_id"] = second
            code, said = self.replay(run)
            self.assertEqual((code, said["rounds"], said["outer_step"]), (0, STEPS, 2 * STEPS), said)

    def test_what_is_missing_and_what_is_not_so_is_named(self):
        with self.run_of(2, "diloco") as run:
            self.assertEqual(run.wait_for_end(), 0)
            kept = sorted(run.run_directory.glob("peers/*/contributions/fragment-0/version-000003"))
            self.assertEqual(len(kept), 2)

            elsewhere = run.directory / "elsewhere" / "version-000003"
            shutil.move(kept[0], elsewhere)
            code, said = self.replay(run)
            self.assertEqual(code, 2)
            self.assertRegex(said, r"what peer \w+ brought to version 3 of fragment 0 is not below (?s:.*)\[PR0905\]\s+while replaying revision 3")
            code, said = self.replay(run, "--contributions", str(elsewhere.parent))
            self.assertEqual((code, said["equal"]), (0, True), said)

            spoil(kept[1] / "contribution.safetensors")
            code, said = self.replay(run, "--contributions", str(elsewhere.parent))
            self.assertEqual(code, 1)
            self.assertRegex(said, r"version-000003(?s:.*)contribution.safetensors(?s:.*)while replaying revision 3")

            journal = run.run_directory / "coordinator" / "journal.jsonl"
            text = journal.read_text()
            (line,) = [line for line in text.splitlines() if '"round_committed"' in line and json.loads(line)["version"] == 2]
            digest = json.loads(line)["digest"]
            other = digest[:-1] + ("0" if digest[-1] != "0" else "1")
            journal.write_text(text.replace(line, line.replace(digest, other)))
            code, said = self.replay(run, "--contributions", str(elsewhere.parent))
            self.assertEqual((code, said["equal"], said["rounds"]), (5, False, 1), said)
            self.assertEqual(said["difference"], {"revision": 2, "fragment": 0, "version": 2, "committed": other, "replayed": digest})

    def test_a_run_that_kept_nothing_says_which_key_would(self):
        with Run(2, env=ENV, outer_steps=STEPS, inner_steps=8) as run:
            self.assertEqual(run.wait_for_end(), 0)
            code, said = self.replay(run)
            self.assertEqual(code, 2)
            self.assertRegex(said, r"\[PR0905\](?s:.*)checkpoint.keep_contributions: true")


if __name__ == "__main__":
    unittest.main(verbosity=2)
