"""Copied tensors between real processes: neither averaged nor compared, a joiner takes its donor's, checkpoints have them."""

import json
import pathlib
import subprocess

from programs import BIN, PYTHON, Run, Trainers, has, main, wait_until

import unittest

# Each peer counts its inner steps in a copied tensor, in strides of its own: whose values these are can be told.
COUNTS = """import os, signal, sys, time
import numpy
import prime_runtime as prime
with prime.join() as run:
    x = numpy.full(5000, 4, dtype=numpy.float32)
    counts = numpy.full(3, {start}, dtype=numpy.float32)
    seen = numpy.full((), 7, dtype=numpy.int64)
    run.bind_tensor("x", x)
    run.bind_tensor("bn.counts", counts, "copied")
    run.bind_tensor("bn.seen", seen, "copied")
    first = None
    for step in run:
        first = first or (counts.copy(), int(seen), step)
        x -= numpy.float32(0.1) * (x - numpy.float32(step.rank))
        counts += step.rank + 1
        seen += 1
        {extra}
        step.report(float((0.5 * (x - step.rank) ** 2).mean()), x.size, samples=0)
    with open(os.environ["DONE"] + "-" + str(step.rank if first else "none"), "a") as file:
        file.write(f"{{first[0][0]:g}} {{first[1]}} {{counts[0]:g}}\\n")
"""
STOPS = """
        with open(os.environ["DONE"] + "-joiner", "w") as file:
            file.write(f"{first[0][0]:g} {first[1]} {first[2].outer_step}")
        break"""


@unittest.skipUnless(has("torch", "numpy"), "there are no wheels torch and numpy")
class Copied(Trainers):
    def test_a_joiner_takes_its_donors_and_residents_keep_their_own(self):
        for residents in (1, 2):
            with self.subTest(residents), self.run_of(COUNTS.format(start=0, extra="time.sleep(0.005)"), peers=residents, outer_steps=100_000, minimum=1,
                                                      up_flags=["--quorum", str(residents)]) as run:
                run.wait_for("outer_step_committed", 3)
                joined = self.joins(COUNTS.format(start=1000, extra=STOPS), run)
                self.finish(joined)
                counts, seen, outer_step = self.done()["joiner"].split()
                steps = int(seen) - 7  # that its donor had made when it published what was fetched; the peer that fetched may be in a commit after that
                self.assertIn((int(outer_step) - 1) * 4 - steps, (0, 4, 8))
                self.assertIn(float(counts), [steps * (rank + 1) for rank in range(residents)])
                run.wait_for("peer_left")

    def test_a_trainer_that_is_killed_has_its_own_again(self):
        died = self.folder / "died"
        extra = f"step.outer_step == 3 and step.index == 2 and step.rank == 1 and not os.path.exists('{died}') and (open('{died}', 'w').close(), os.kill(os.getpid(), signal.SIGKILL))"
        with self.run_of(COUNTS.format(start=0, extra=extra)) as run:
            self.ends(run)
        self.assertEqual(self.done(), {"0": "0 7 24\n", "1": "16 15 48\n"})

    def test_one_that_dies_before_it_has_published_has_those_of_the_state(self):
        died = self.folder / "died"
        extra = f"""
        if not os.path.exists('{died}') and step.index == 2:
            open('{died}', 'w').close()
            os.kill(os.getpid(), signal.SIGKILL)
        if os.path.exists('{died}'):
            with open(os.environ["DONE"] + "-joiner", "w") as file:
                file.write(f"{{first[0][0]:g}} {{first[1]}}")
            break"""
        # It leaves when it has been there twice: how long that takes is no matter.
        with self.run_of(COUNTS.format(start=0, extra="time.sleep(0.005)"), peers=1, outer_steps=100_000, minimum=1, up_flags=["--quorum", "1"]) as run:
            run.wait_for("outer_step_committed", 3)
            path = self.folder / "joiner.py"
            path.write_text(COUNTS.format(start=1000, extra=extra))
            joined = subprocess.run([BIN / "primectl", "join", run.up["invite"], "--state-dir", run.directory / "joiner", "--", PYTHON, path], env=run.env, capture_output=True, text=True,
                                    timeout=600, check=False)
            self.assertEqual(joined.returncode, 0, joined.stderr)
        self.assertTrue(died.exists())
        first, seen = self.done()["joiner"].split()
        self.assertEqual(int(first), int(seen) - 7, "what its donor had counted, and not 1000 more")

    def checkpoint(self, run):
        return pathlib.Path(run.events("final_state_saved")[-1]["checkpoint"])

    def test_a_run_that_goes_on_has_each_peers_own_and_those_of_the_checkpoint_on_new_ones(self):
        with self.run_of(COUNTS.format(start=0, extra="pass"), outer_steps=3) as run:
            self.ends(run, outer_steps=3)
            self.assertEqual(self.done(), {"0": "0 7 12\n", "1": "0 7 24\n"})
            checkpoint = self.checkpoint(run)
            self.assertEqual(json.loads((checkpoint / "prime" / "state.json").read_text())["copied_tensors"], 2)
            said = self.one(f"""
from safetensors.torch import load_file
model = load_file("{checkpoint}/model.safetensors")
print({{name: (str(value.dtype), tuple(value.shape), value.flatten()[0].item()) for name, value in model.items() if name != "x"}})
""") if has("safetensors") else None
            saved = 12.0 if said is None or "12.0" in said else 24.0
            if said is not None:
                self.assertEqual(eval(said), {"bn.counts": ("torch.float32", (3,), saved), "bn.seen": ("torch.int64", (), 19)})
            for peers in (2, 3):
                for path in self.folder.glob("done-*"):
                    path.unlink()
                flags = ["--quorum", str(peers), "--from", str(checkpoint)]
                with self.subTest(peers), self.run_of(COUNTS.format(start=1000, extra="pass"), peers=peers, outer_steps=5, up_flags=flags) as again:
                    self.ends_at(again, 5)
                    begins = {rank: text.split()[:2] for rank, text in self.done().items()}
                    if peers == 2:
                        self.assertEqual(begins, {"0": ["12", "19"], "1": ["24", "19"]})
                    else:
                        self.assertEqual(begins, {str(rank): [f"{saved:g}", "19"] for rank in range(3)})

    def ends_at(self, run, outer_step):
        self.assertEqual(run.wait_for_end(), 0, run.trainer_logs())
        self.assertEqual(run.events("run_done")[-1]["outer_step"], outer_step)

    def test_who_binds_others_is_refused_by_name(self):
        with self.run_of(COUNTS.format(start=0, extra="pass"), peers=1, outer_steps=100_000, minimum=1, up_flags=["--quorum", "1"]) as run:
            run.wait_for("outer_step_committed")
            for other in ('"bn.count", counts', '"bn.counts", counts[:2].copy()', '"bn.counts", counts.astype("int32")'):
                with self.subTest(other):
                    program = COUNTS.format(start=0, extra="pass").replace('"bn.counts", counts', other)
                    self.assertIn("prime_runtime._errors.Error: the trainer's tensors differ from the run's", self.finish(self.joins(program, run), 1))
            for bad, wanted in (('"x", counts', "`x` is bound as copied, and in another role, too"), ('"bn.seen", counts', "`bn.seen` is bound twice"),
                                ('"b", counts.astype("float64")', "what is copied or private is of f32, bf16, f16, i64, i32 or u8")):
                with self.subTest(bad):
                    program = COUNTS.format(start=0, extra="pass").replace('"bn.counts", counts', bad)
                    self.assertIn(wanted, self.finish(self.joins(program, run), 1))

    def test_statistics_of_a_module_come_with_its_parameters(self):
        program = """import os, time, torch
import prime_runtime as prime
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
with prime.join() as run:
    run.bind(model, torch.optim.SGD(model.parameters(), lr=0.0))
    for step in run:
        if os.environ.get("JOINS"):
            with open(os.environ["DONE"] + "-joiner", "w") as file:
                file.write(f"{int(model[1].num_batches_tracked)} {model[1].running_mean.abs().min().item():.1f}")
            break
        time.sleep(0.005)
        model(torch.full((16, 4), 100.0) + torch.randn(16, 4))
        step.report(1.0, 16)
"""
        with self.run_of(program, peers=1, outer_steps=100_000, minimum=1, up_flags=["--quorum", "1"]) as run:
            run.wait_for("outer_step_committed", 3)
            self.finish(self.joins(program, run, JOINS="1"))
        tracked, mean = self.done()["joiner"].split()
        self.assertEqual(int(tracked) % 4, 0)
        self.assertGreaterEqual(int(tracked), 12)
        self.assertGreater(float(mean), 0.1)


if __name__ == "__main__":
    main()
