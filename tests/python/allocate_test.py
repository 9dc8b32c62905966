"""Memory that the session gives: what is published from it is read where it lies, and nothing else changes."""

import json
import os
import pathlib
import signal
import subprocess
import unittest

from programs import BIN, PYTHON, TORCH, Trainers, has, main, wait_until

# In memory of the session's (SHARED=1) or of its own.
MODULE = TORCH + """import os, signal, sys, time
import prime_runtime as prime
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 3), torch.nn.Linear(3, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
with prime.join() as run:
    if os.environ.get("SHARED"):
        run.share(model)
    run.bind(model, optimizer)
    for step in run:
        torch.manual_seed(step.samples.start * 10 + step.rank)
        inputs = torch.randn(16, 8)
        optimizer.zero_grad()
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        {extra}
        step.report(loss, 16)
    mapped = [line for line in open("/proc/self/maps") if "prime-session" in line]
    open(os.environ["DONE"] + "-" + run.peer, "w").write(str(len(mapped)))
"""
# A large tensor, and what the trainer and its agent have of it in memory at the end.
LARGE = """import os
import numpy
import prime_runtime as prime
def proportional(pid):
    # Of files, what a process has depends on who else has them mapped.
    return sum(int(line.split()[1]) * 1024 for line in open(f"/proc/{{pid}}/smaps_rollup") if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
with prime.join() as run:
    x = run.empty(8_000_000) if os.environ.get("SHARED") else numpy.zeros(8_000_000, dtype=numpy.float32)
    x[:] = 4
    run.bind_tensor("x", x)
    for step in run:
        x -= numpy.float32(0.1) * (x - numpy.float32(step.rank))
        step.report(1.0, 10)
        both = proportional(os.getpid()) + proportional(os.getppid())  # now: at the end the agent may be gone
        name = os.environ["DONE"] + "-" + str(step.rank)
        with open(name.replace("done-", "new-"), "w") as file:
            file.write(str(both))
        os.replace(name.replace("done-", "new-"), name)
""".replace("{{", "{").replace("}}", "}")
SHARED = {"SHARED": "1"}


@unittest.skipUnless(has("torch", "numpy"), "there are no wheels torch and numpy")
class Allocate(Trainers):
    def digests(self, program, *, env=None, outer_steps=6, peers=2, **manifest):
        with self.run_of(program, env=env or {}, outer_steps=outer_steps, peers=peers, **manifest) as run:
            commits = self.ends(run, outer_steps=outer_steps)
            return [commit["digest"] for commit in commits]

    def test_no_copy_of_what_is_published_is_in_memory(self):
        digests, bytes_of = [], []
        for env in ({}, SHARED):
            digests.append(self.digests(LARGE, env=env, outer_steps=3))
            bytes_of.append([int(text) for _, text in sorted(self.done().items())])
        self.assertEqual(*digests)
        for own, shared in zip(*bytes_of, strict=True):
            self.assertGreater(own - shared, 0.9 * 32_000_000, bytes_of)

    def test_the_bits_are_those_of_memory_of_ones_own_in_every_algorithm_and_division(self):
        for manifest in ({}, {"fragments": 2}, {"algorithm": "delayed", "lr": 0.3, "momentum": 0.5}, {"up_flags": ["--set", "sync.mix=0.5"]},
                         {"fragments": 2, "up_flags": ["--set", "sync.fragments.pattern=sequential"]}):
            with self.subTest(manifest):
                program = MODULE.format(extra="pass")
                self.assertEqual(*(self.digests(program, env=env, **manifest) for env in ({}, SHARED)))
                self.assertEqual({int(text) > 0 for text in self.done().values()}, {True, False})
                for path in self.folder.glob("done-*"):
                    path.unlink()

    def test_three_peers_one_of_which_has_memory_of_its_own(self):
        program = MODULE.format(extra="pass").replace('if os.environ.get("SHARED")', "if int(run.peer, 16) % 2")
        self.assertEqual(self.digests(program, peers=3), self.digests(MODULE.format(extra="pass"), peers=3))

    def test_a_trainer_that_is_killed_goes_on_to_the_same_bits(self):
        died = self.folder / "died"
        dies = f"step.outer_step == 3 and step.index == 2 and step.rank == 1 and not os.path.exists('{died}') and (open('{died}', 'w').close(), os.kill(os.getpid(), signal.SIGKILL))"
        self.assertEqual(self.digests(MODULE.format(extra=dies), env=SHARED), self.digests(MODULE.format(extra="pass")))
        self.assertTrue(died.exists())

    def test_what_a_trainer_has_published_stays_when_it_is_killed(self):
        here, go = self.folder / "here", self.folder / "go"
        extra = f"""
        if step.outer_step == 2 and step.index == 3 and not os.path.exists('{go}'):
            if step.rank == 0:
                open('{here}.part', 'w').write(str(os.getpid())), os.rename('{here}.part', '{here}')
            while step.rank == 1 and not os.path.exists('{go}'):
                time.sleep(0.01)"""
        with self.run_of(MODULE.format(extra=extra), env=SHARED, deadline="1h", stall_limit="1h") as run:
            wait_until("the first trainer at its last step", here.exists)
            wait_until("its contribution", lambda: any(line["outer_step"] == 2 for line in run.coordinator() if line["event"] == "peer_ready"))
            os.kill(int(here.read_text()), signal.SIGKILL)
            wait_until("its next life", lambda: any(line["event"] == "trainer_restarting" for lines in run.peer_journals().values() for line in lines))
            go.touch()
            killed = [commit["digest"] for commit in self.ends(run)]
        self.assertEqual(killed, self.digests(MODULE.format(extra="pass")))

    def test_a_run_that_goes_on_is_exact(self):
        program = MODULE.format(extra="pass")
        whole = self.digests(program)
        with self.run_of(program, env=SHARED, outer_steps=3) as run:
            self.ends(run, outer_steps=3)
            done = subprocess.run([BIN / "primectl", "up", run.manifest, "--local", "2", "--from", run.up["run_id"], "--state-dir", run.state, "--set", "train.outer_steps=6", "-o", "json", "-q"],
                                  env=run.env, capture_output=True, text=True, timeout=600, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("does not go on exactly", done.stderr)
            result = json.loads(done.stdout.splitlines()[-1])
            self.assertEqual(result["digest"], whole[-1])

    def test_what_is_wrong_with_such_a_tensor_is_said_by_name(self):
        for program, wanted in (
            ("t = run.empty(3); run.bind_tensor('x', t); run.bind_tensor('y', t)", "`y` lies where `x` does, in memory of `allocate`"),
            ("t = run.empty(9); run.bind_tensor('x', t[:5]); run.bind_tensor('y', t[4:], 'private')", "`y` lies where `x` does"),
            ("t = run.empty(3); run.bind_tensor('x', t); t.resize_(100)", "not resizable"),
            ("t = run.empty(3); run.bind_tensor('x', t); t.untyped_storage().resize_(0)", "not resizable"),
            ("t = run.empty(3); run.bind_tensor('x', t)\n    for step in run: t.data = torch.ones(3); step.report(1.0, 1)", "`x` has moved since it was bound"),
            ("run.empty(2 ** 50)", "are left of this machine's memory"),
            ("run.empty((3, 0))", "memory for no value"),
            ("run.bind_tensor('x', torch.ones(3)); run.next(); run.empty(3)", "memory is given before the first step"),
            ("run.share(torch.nn.Linear(2, 2, dtype=torch.bfloat16))", "`weight` is of torch.bfloat16, on cpu; what can be shared is of float32, on the CPU"),
        ):
            with self.subTest(program), self.run_of(f"import os, sys, torch\nimport prime_runtime as prime\nwith prime.join() as run:\n    {program}\n", peers=1, minimum=1, restarts=0) as run:
                wait_until(wanted, lambda: wanted in run.trainer_logs() + json.dumps(run.peer_journals(), ensure_ascii=False))

    def test_a_tensor_outlives_its_session(self):
        with self.run_of("""import os, torch
import prime_runtime as prime
with prime.join() as run:
    t = run.empty((2, 3))
    for name in ("a", "b", "c"):  # given back, and given again
        run.empty(5)[:] = 7
    u = run.empty(4)
    assert u.sum() == 0
    t += 1
    run.bind_tensor("x", t)
    for step in run:
        t *= 0.5
        step.report(1.0, 1)
del run, step
assert t.shape == (2, 3) and 0 <= t.min() and (t == t[0, 0]).all()
t += 1
open(os.environ["DONE"] + "-well", "w").write(str(t.sum().item()))
""", peers=1, minimum=1) as run:
            self.ends(run)
            self.assertIn("well", self.done())


if __name__ == "__main__":
    main()
