"""What a trainer of Python may run into: interrupts in threads, sessions that are collected, tensors of every kind and size."""

import json
import os
import unittest

from programs import TORCH, Run, Trainers, has, main, wait_until

ROOM_BYTES = 18 << 30  # of memory that is available, for a tensor above 2 GiB of a peer alone
ENDLESS = {"outer_steps": 100_000, "up_flags": ["--quorum", "2"], "minimum": 2, "env": {"PRIME_QUADRATIC_ELEMENTS": "5000"}}


def available():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))


@unittest.skipUnless(has("torch", "numpy"), "there are no wheels torch and numpy")
class Edges(Trainers):
    def test_ctrl_c_that_a_notebook_sends_to_a_thread_that_waits_leaves_the_run(self):
        with Run(1, **ENDLESS) as run:
            said = self.finish(self.joins("""
import ctypes, threading
import numpy, prime_runtime as prime
x = numpy.ones(5000, dtype=numpy.float32)
waits, ends = threading.Event(), []
def train():
    try:
        with prime.join() as run:
            run.bind_tensor("x", x)
            for step in run:
                if step.outer_step == 2:
                    waits.set()
                    threading.Event().wait(0.2)
                step.report(1.0, 1)
    except KeyboardInterrupt:
        ends.append("interrupted")
thread = threading.Thread(target=train)
thread.start()
waits.wait()
ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(KeyboardInterrupt))
thread.join()
print(ends)
""", run))
            self.assertEqual(said, "['interrupted']\n")
            run.wait_for("peer_left")
            self.assertEqual(run.events("peer_lost"), [])

    def test_a_run_that_is_collected_with_a_cycle_in_the_middle_of_a_step_leaves(self):
        with Run(1, **ENDLESS) as run:
            said = self.finish(self.joins("""
import gc, warnings
import numpy, prime_runtime as prime
warnings.simplefilter("always")
def train():
    run = prime.join()
    run.bind_tensor("x", numpy.ones(5000, dtype=numpy.float32))
    run.itself = run
    step = run.next()
    step.report(1.0, 1)
    return next(iter(run)).samples
samples = train()
gc.collect()
print("goes on", len(samples))
""", run))
            self.assertRegex(said, "(?s)ResourceWarning: a run was neither left nor closed.*goes on 4")
            run.wait_for("peer_left")

    def test_a_script_that_joined_by_itself_takes_its_peer_with_it_when_it_is_killed_or_fails(self):
        program = """import os, signal
import numpy, prime_runtime as prime
with prime.join() as run:
    run.bind_tensor("x", numpy.ones(5000, dtype=numpy.float32))
    for step in run:
        if step.outer_step == 2:
            {}
        step.report(1.0, 1)
"""
        for extra, code, event, wanted in (("os.kill(os.getpid(), signal.SIGKILL)", -9, "peer_left", ""), ("raise ValueError('of its own')", 1, "peer_lost", "ValueError: of its own")):
            with self.subTest(extra), Run(1, **{**ENDLESS, "deadline": "1h", "stall_limit": "1h"}) as run:
                self.finish(self.joins(program.format(extra), run), code)
                gone = run.wait_for(event)
                self.assertIn(wanted, json.dumps(gone or run.events(event)))

    def test_parameters_that_are_not_contiguous_are_averaged_like_those_that_are(self):
        program = TORCH + """
import prime_runtime as prime
torch.manual_seed(0)
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.turned = torch.nn.Parameter(torch.randn(5, 7).t(){})
        self.image = torch.nn.Parameter(torch.randn(2, 3, 4, 5){})
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
with prime.join() as run:
    run.bind(model, optimizer)
    for step in run:
        optimizer.zero_grad()
        loss = ((model.turned - step.rank) ** 2).sum() + (model.image ** 2).mean()
        loss.backward()
        optimizer.step()
        step.report(loss, 1)
"""
        digests = []
        for made in ((".contiguous()", ""), ("", ".contiguous(memory_format=torch.channels_last)")):
            with self.run_of(program.format(*made)) as run:
                digests.append([commit["digest"] for commit in self.ends(run)])
        self.assertEqual(*digests)

    def test_what_is_not_finite_is_refused_in_the_model_and_no_matter_elsewhere(self):
        program = """import numpy
import prime_runtime as prime
with prime.join() as run:
    x, copied, private = (numpy.ones(3, dtype=numpy.float32) for _ in range(3))
    run.bind_tensor("x", x)
    run.bind_tensor("copied", copied, "copied")
    run.bind_tensor("private", private, "private")
    for step in run:
        {}[1] = float("{}")
        step.report(1.0, 1)
"""
        for name in ("copied", "private"):
            with self.subTest(name), self.run_of(program.format(name, "nan")) as run:
                self.ends(run)
        with self.run_of(program.format("x", "-inf"), peers=1, minimum=1, restarts=0) as run:
            wanted = "a tensor holds NaN or infinity: x[1] of the contribution to outer step 1"
            wait_until(wanted, lambda: wanted in run.trainer_logs() + json.dumps(run.peer_journals()) + json.dumps(run.coordinator()))

    def test_buffers_and_roles_that_cannot_be_bound_are_refused_by_name(self):
        for program, wanted in (
            ("m = torch.nn.Linear(2, 2); m.register_buffer('phase', torch.ones(2, dtype=torch.complex64)); run.bind(m)", "the buffer `phase` is of torch.complex64"),
            ("run.bind_tensor('x', torch.ones(3), 'mine')", "`mine` is no role of a tensor: averaged, copied or private"),
            ("m = torch.nn.Linear(2, 2); m.register_buffer('größe', torch.ones(2)); run.bind(m)", "[PR0305]"),
            ("run.bind_tensor('x', torch.ones(3, dtype=torch.bool))", "is of a type that is not known here"),
            ("run.bind_tensor('x', torch.ones(3).numpy()[::2])", "`x` is not contiguous"),
            ("run.bind_tensor('x', b'bytes')", "`x` is no tensor that can be written to"),
        ):
            with self.subTest(program), self.run_of(f"import os, sys, torch\nimport prime_runtime as prime\nwith prime.join() as run:\n    {program}\n", peers=1, minimum=1, restarts=0) as run:
                wait_until(wanted, lambda: wanted in run.trainer_logs() + json.dumps(run.peer_journals(), ensure_ascii=False))

    def test_a_tensor_above_2_gib(self):
        if (room := available()) < ROOM_BYTES:
            self.skipTest(f"{room >> 30} GiB of memory are available, and {ROOM_BYTES >> 30} are needed")
        program = """import os
import numpy
import prime_runtime as prime
with prime.join() as run:
    x = run.empty(2 ** 29 + 1024)
    x[-1] = 4
    run.bind_tensor("x", x)
    for step in run:
        x[0] += 1
        x[-1] -= 1
        step.report(1.0, 1)
    open(os.environ["DONE"] + "-well", "w").write(f"{x[0] > 0} {x[1]:g} {x[-1] < 4} {x.nbytes}")
"""
        with self.run_of(program, peers=1, minimum=1, outer_steps=2, deadline="10min", dead_after="2min", stall_limit="10min") as run:
            self.ends(run, outer_steps=2)
            self.assertEqual(self.done()["well"], f"True 0 True {4 * (2 ** 29 + 1024)}")


if __name__ == "__main__":
    main()
