"""A run of which everything was killed goes on by `up --from` as if nothing had been: the same samples, the same bits after each outer step."""

import collections
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

from prime_run import BIN, LIMIT_S, PRIMECTL, Journal, Run, wait_until

STEPS = 20
EVERY = 10


def committed(journal):
    return {line["outer_step"]: line["digest"] for line in journal if line["event"] == "outer_step_committed"}


def samples(run_directory):
    """By outer step, the first samples of the ranges that were handed out, as the peers heard of them."""
    handed_out = collections.defaultdict(list)
    for path in run_directory.glob("peers/*/journal.jsonl"):
        for line in Journal(path).lines():
            if line["event"] == "outer_step_begun" and line["contributes"]:
                handed_out[line["outer_step"]].append(line["first_sample"])
    return {step: sorted(set(firsts)) for step, firsts in handed_out.items()}


def told(run_directory, event):
    return [line for path in run_directory.glob("peers/*/journal.jsonl") for line in Journal(path).lines() if line["event"] == event]


def wait_until_saved(run, step, peers):
    """With what `peers` trainers have for themselves. A state for which the disk has no time is not saved: a test that counts on one waits."""
    wait_until("the shared state on a disk", lambda: any(line["path"].endswith(f"step-{step:06}") for line in told(run.run_directory, "checkpoint_written")))
    wait_until("what each trainer has", lambda: sum(line["path"].endswith(f"private-{step:06}") for line in told(run.run_directory, "private_state_written")) == peers)


def kill_everything(run):
    """The guard first: it would start the coordinator again."""
    pids = [run.guard(), run.coordinator_pid()]
    for peer in run.status()["peers"]:
        pids += [peer["pid"], peer.get("trainer_pid")]
    for pid in filter(None, pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in pids[:2] + [peer["pid"] for peer in run.up["peers"]]:
        wait_until("the end", lambda pid=pid: not run.ours(pid))


class GoneOn:
    """The run that goes on from another one, watched until its end."""

    def __init__(self, run, peers, *more, source=None, env=None):
        before = set(run.state.iterdir())
        self.done = subprocess.run([str(word) for word in (PRIMECTL, "up", run.manifest, "--local", peers, "--from", source or run.up["run_id"], "-o", "json",
                                                           "--state-dir", run.state, *more)], env=env or run.env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.said = " ".join(self.done.stderr.split())
        made = [path for path in set(run.state.iterdir()) - before if (path / "coordinator").exists()]
        self.directory = made[0] if made else None

    def journal(self):
        return Journal(self.directory / "coordinator" / "journal.jsonl").lines()


class Resume(unittest.TestCase):
    ENV = {"PRIME_QUADRATIC_MOMENTUM": "1", "PRIME_QUADRATIC_ELEMENTS": "20000"}

    def start(self, peers, *, env=None, flags=(), **manifest):
        values = {"outer_steps": STEPS, "every": EVERY, "inner_steps": 4, **manifest}
        values.setdefault("minimum", peers)
        return Run(peers, env={**self.ENV, **(env or {})}, up_flags=flags, **values)

    def undisturbed(self, peers, **how):
        with self.start(peers, **how) as run:
            self.assertEqual(run.wait_for_end(), 0)
            return committed(run.coordinator()), samples(run.run_directory)

    @contextlib.contextmanager
    def killed_in(self, step, peers, *, env=None, every=EVERY, **how):
        """A run of which everything was killed when its trainers had done two inner steps of that outer step and all before it was saved."""
        trace = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="prime-resume-")), "trace")
        keep_something = (env or {}).get("PRIME_QUADRATIC_MOMENTUM") != ""
        with self.start(peers, env={"PRIME_QUADRATIC_TRACE": str(trace), **(env or {})}, every=every, held_at=f"{step}.2", held_after=every, **how) as run:
            for saved in range(every, step, every):
                wait_until_saved(run, saved, peers if keep_something else 0)
                run.go_on(until=saved + every)
            wait_until("two inner steps of each", lambda: trace.exists() and trace.read_text().count(f" {step} 1\n") == peers)
            kill_everything(run)
            run.hold.unlink()
            yield run

    def compare(self, on, after, digests, ranges):
        self.assertEqual(on.done.returncode, 0, on.done.stderr)
        self.assertEqual(committed(on.journal()), {step: digest for step, digest in digests.items() if step > after})
        self.assertEqual(samples(on.directory), {step: firsts for step, firsts in ranges.items() if step > after})

    def test_ten_outer_steps_the_end_of_everything_and_ten_more_are_twenty(self):
        for peers, manifest in ((2, {}), (3, {"fragments": 3, "in_flight": 2})):
            for record_every in (0, 1):
                how = {"flags": ("--set", f"local.record_every={record_every}"), **manifest}
                with self.subTest(peers=peers, record_every=record_every):
                    digests, ranges = self.undisturbed(peers, env={"PRIME_QUADRATIC_TENSORS": "5"}, **how)
                    with self.killed_in(EVERY + 3, peers, env={"PRIME_QUADRATIC_TENSORS": "5"}, **how) as run:
                        on = GoneOn(run, peers)
                        self.compare(on, EVERY, digests, ranges)
                        self.assertIn(f"(after outer step {EVERY}), each trainer with what one had for itself then", on.said)
                        self.assertNotIn("does not go on exactly", on.said)
                        self.assertEqual(len(told(on.directory, "private_state_taken")), peers)

    def test_what_down_and_the_end_of_a_run_save_is_gone_on_from_exactly(self):
        digests, ranges = self.undisturbed(2)
        with self.start(2, every=0, held_at="5.2", flags=("--set", "local.record_every=1")) as run:
            run.wait_until_held()
            subprocess.run([PRIMECTL, "down", run.up["run_id"], "--state-dir", run.state], check=True, capture_output=True, timeout=LIMIT_S)
            run.wait_for_end()
            run.hold.unlink()
            self.compare(GoneOn(run, 2), 4, digests, ranges)
        with self.start(2, every=0, outer_steps=7) as run:
            self.assertEqual(run.wait_for_end(), 0)
            self.compare(GoneOn(run, 2, "--set", f"train.outer_steps={STEPS}"), 7, digests, ranges)

    def test_what_a_codec_lost_comes_back_too(self):
        flags = ("--set", "sync.wire.codec=int4", "--set", "sync.wire.feedback=true")
        how = {"env": {"PRIME_QUADRATIC_SPREAD": "1"}, "flags": flags}
        digests, ranges = self.undisturbed(2, **how)
        with self.killed_in(EVERY + 3, 2, **how) as run:
            self.compare(GoneOn(run, 2, *flags), EVERY, digests, ranges)

    def test_a_checkpoint_that_was_being_written_is_passed_over(self):
        digests, ranges = self.undisturbed(2)
        for place in (f"saving:{EVERY}", f"saving:100:{EVERY}"):  # before anything of it is written; between what trainers have, and the state
            with self.subTest(place=place), self.start(2, env={"PRIME_FAULT": f"agent@{place}"}, every=5, held_after=5) as run:
                wait_until_saved(run, 5, 2)
                run.go_on()
                for peer in run.up["peers"]:
                    wait_until("the end of the agents", lambda pid=peer["pid"]: not run.ours(pid))
                kill_everything(run)
                env = {key: value for key, value in run.env.items() if key != "PRIME_FAULT"}
                self.compare(GoneOn(run, 2, env=env), 5, digests, ranges)

    def test_what_one_peer_had_not_saved_is_told_and_an_older_state_that_is_whole_goes_before(self):
        digests, ranges = self.undisturbed(2)
        with self.killed_in(EVERY + 3, 2, every=5) as run:
            lost = sorted(run.run_directory.glob("peers/*/checkpoints/private-000010"))[0]
            self.assertEqual(len(list(run.run_directory.glob("peers/*/checkpoints/step-000010"))), 1, "one saves the shared state")
            shutil.rmtree(lost)
            on = GoneOn(run, 2)
            self.compare(on, 5, digests, ranges)
            newest = next(run.run_directory.glob("peers/*/checkpoints/step-000010"))
            self.assertIn("passes over outer step 10", on.said)
            self.assertIn(f"--from {newest}", on.said)
            chosen = GoneOn(run, 2, source=newest)
            self.assertEqual(chosen.done.returncode, 0, chosen.done.stderr)
            self.assertIn("does not go on exactly", chosen.said)
            self.assertIn("had is not here", chosen.said)
            self.assertEqual(min(committed(chosen.journal())), EVERY + 1)
            self.assertNotEqual(committed(chosen.journal())[STEPS], digests[STEPS], "what trainers keep for themselves matters here")
            self.assertIn("had is not here", next(line for line in chosen.journal() if line["event"] == "run_continues")["fresh"])

    def test_what_is_damaged_is_named_with_what_to_do(self):
        with self.killed_in(EVERY + 1, 2, every=5) as run:
            path = sorted(run.run_directory.glob("peers/*/checkpoints/private-000010"))[1]
            file = path / "private.safetensors"
            data = bytearray(file.read_bytes())
            data[-1] ^= 1
            file.write_bytes(data)
            refused = GoneOn(run, 2)
            self.assertEqual(refused.done.returncode, 1, refused.done.stderr)
            self.assertIn("PR0702", refused.said)
            self.assertIn(f"{path}: private.safetensors has other bytes; without {path}, which somebody has to remove, `--from` goes on", refused.said)
            shutil.rmtree(path)
            self.assertEqual(GoneOn(run, 2).done.returncode, 0)

    def test_who_goes_on_with_fewer_peers_or_other_private_tensors_hears_that_trainers_begin_fresh(self):
        with self.killed_in(6, 3, every=5) as run:
            fewer = GoneOn(run, 2, "--set", "membership.peers=2..8")
            self.assertEqual(fewer.done.returncode, 0, fewer.done.stderr)
            self.assertIn("the checkpoint is of 3 peers, and 2 start here", fewer.said)
            self.assertEqual(told(fewer.directory, "private_state_taken"), [])
            other = GoneOn(run, 3, env={**run.env, "PRIME_QUADRATIC_MOMENTUM": "other"})
            self.assertEqual(other.done.returncode, 0, other.done.stderr)
            self.assertEqual(len(told(other.directory, "private_state_fresh")), 3)
            self.assertIn("began with fresh private state: it binds other private tensors", other.said)

    def test_who_keeps_nothing_for_itself_goes_on_without_a_word(self):
        with self.killed_in(6, 2, env={"PRIME_QUADRATIC_MOMENTUM": ""}, every=5) as run:
            self.assertEqual(list(run.run_directory.glob("peers/*/checkpoints/private-*")), [])
            on = GoneOn(run, 2)
            self.assertEqual(on.done.returncode, 0, on.done.stderr)
            self.assertNotIn("exactly", on.said)

    def test_what_a_lost_peer_left_undone_is_done_first_by_who_goes_on(self):
        with self.start(3, every=3, minimum=2, held_at=3, outer_steps=1000, env={"PRIME_QUADRATIC_DELAY_MS": "20"}, flags=("--set", "checkpoint.keep=1000")) as run:
            run.wait_until_held()
            victim = run.up["peers"][1]
            journal = Journal(next(run.run_directory.glob(f"peers/{victim['name']}-*/journal.jsonl")))
            (begun,) = wait_until("its third step", lambda: [line for line in journal.lines() if line["event"] == "outer_step_begun" and line["outer_step"] == 3])
            its = begun["first_sample"]
            os.kill(victim["pid"], signal.SIGKILL)
            run.wait_for("peer_lost")
            run.release(3)
            run.wait_for("outer_step_committed", outer_step=4)
            wait_until("what each trainer has", lambda: len(list(run.run_directory.glob("peers/*/checkpoints/private-000003"))) == 2)
            (checkpoint,) = wait_until("the shared state on a disk", lambda: list(run.run_directory.glob("peers/*/checkpoints/step-000003")))
            kill_everything(run)
            state = json.loads((checkpoint / "prime" / "state.json").read_text())
            self.assertEqual((state["given_back"], len(state["members"])), ([its], 2))
            before, handed_out = committed(run.coordinator()), samples(run.run_directory)
            on = GoneOn(run, 2, "--set", "train.outer_steps=6", source=checkpoint)
            self.assertEqual(on.done.returncode, 0, on.done.stderr)
            self.assertIn(its, samples(on.directory)[4])
            self.assertEqual(samples(on.directory)[4], handed_out[4])
            self.assertEqual(committed(on.journal())[4], before[4])

    def test_the_trainers_of_shards_go_on_each_in_its_place(self):
        meet = self.enterContext(tempfile.TemporaryDirectory(prefix="prime-meet-"))
        how = {"shards": 2, "minimum": 1, "trainer": BIN / "grid_trainer", "every": 4, "outer_steps": 10, "env": {"PRIME_GRID_MEET": meet, "PRIME_GRID_MOMENTUM": "1", "PRIME_QUADRATIC_DELAY_MS": "10"}}
        with self.start(2, **how) as run:
            self.assertEqual(run.wait_for_end(), 0)
            whole = committed(run.coordinator())
        with self.start(2, held_at=6, **how) as run:
            run.wait_until_held()
            wait_until("what each trainer has", lambda: len(list(run.run_directory.glob("peers/*/checkpoints/private-000004*"))) == 4)
            wait_until("the state of each shard", lambda: len(list(run.run_directory.glob("peers/*/checkpoints/step-000004"))) == 2)
            kill_everything(run)
            run.hold.unlink()
            on = GoneOn(run, 2)
            self.assertEqual(on.done.returncode, 0, on.done.stderr)
            self.assertEqual(committed(on.journal()), {step: digest for step, digest in whole.items() if step > 4})
            self.assertEqual(len(told(on.directory, "private_state_taken")), 4)

    def test_as_many_are_kept_as_checkpoints_and_one(self):
        with self.start(2, every=2, held_after=2) as run:
            for saved in range(2, STEPS, 2):
                wait_until_saved(run, saved, 2)
                run.go_on(until=saved + 2)
            self.assertEqual(run.wait_for_end(), 0)
            kept = sorted((path.parent.parent.name, path.name) for path in run.run_directory.glob("peers/*/checkpoints/private-*"))
            names = ["private-000016", "private-000018", "private-000020"]  # `checkpoint.keep` is 2
            self.assertEqual([name for _, name in kept], names * 2)


class Trainer(unittest.TestCase):
    @unittest.skipUnless((BIN / "prime-trainer").exists(), "this build has no prime-trainer")
    def test_prime_trainer_goes_on_with_its_moments(self):
        data = self.enterContext(tempfile.TemporaryDirectory(prefix="prime-resume-"))
        for name in range(8):
            pathlib.Path(data, f"{name}.txt").write_text("".join(f"{name} and {i}, {i * i}\n" for i in range(900)))
        last = 100
        how = {"minimum": 2, "trainer": BIN / "prime-trainer", "inner_steps": 8, "every": 4, "outer_steps": last,
               "up_flags": ["--set", f"data.path={data}", "--set", "model.context=64", "--set", "local.record_every=7", "--set", f"checkpoint.keep={last}"]}
        with Run(2, **how) as run:
            self.assertEqual(run.wait_for_end(), 0)
            whole = committed(run.coordinator())
        with Run(2, **how) as run:
            saved = lambda what, event: collections.Counter(line["path"].rsplit("-", 1)[1] for line in told(run.run_directory, event) if what in line["path"])
            wait_until("a state with what both trainers have", lambda: [
                step for step, count in saved("private-", "private_state_written").items() if count == 2 and saved("step-", "checkpoint_written")[step]])
            kill_everything(run)
            self.assertLess(max(committed(run.coordinator())), last)
            on = GoneOn(run, 2, *how["up_flags"])
            self.assertEqual(on.done.returncode, 0, on.done.stderr)
            after = min(committed(on.journal())) - 1
            self.assertGreaterEqual(after, 4)
            self.assertEqual(committed(on.journal()), {step: digest for step, digest in whole.items() if step > after})


if __name__ == "__main__":
    unittest.main(verbosity=2)
