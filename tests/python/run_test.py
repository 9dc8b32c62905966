"""prime.join between real processes: runs of Python trainers, with C++ ones, killed, interrupted, and misused by name."""

import json
import os
import re
import signal
import subprocess
import sys
import pathlib
import unittest

from programs import BIN, PYTHON, TORCH, Run, Trainers, environment, has, main, wait_until

# The trainer of tests/support/quadratic_trainer.cpp, bit for bit.
QUADRATIC = """import os, signal, sys, time
import prime_runtime as prime
import numpy
with prime.join() as run:
    x = numpy.full(int(os.environ["PRIME_QUADRATIC_ELEMENTS"]), 4, dtype=numpy.float32)
    run.bind_tensor("x", x)
    for step in run:
        time.sleep(float(os.environ.get("PRIME_QUADRATIC_DELAY_MS", 0)) / 1000)
        x -= numpy.float32(0.1) * (x - numpy.float32(step.rank))
        {extra}
        step.report(float((0.5 * (x - step.rank) ** 2).mean()), x.size, samples=0)
"""
# A module and an optimizer, whose steps depend on those before.
MODULE = TORCH + """import os, signal, sys, time
import prime_runtime as prime
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 1))
optimizer = torch.optim.{optimizer}(model.parameters(), lr=1e-2)
with prime.join() as run:
    run.bind(model, optimizer, evaluate=lambda index, of: (1.0 + index, of))
    for step in run:
        torch.manual_seed(step.samples.start * 10 + step.rank)
        inputs = torch.randn(16, 8)
        optimizer.zero_grad()
        loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        {extra}
        step.report(loss, 16)
    flat = torch.cat([value.detach().flatten().double() for value in model.parameters()])
    open(os.environ["DONE"] + "-" + run.peer, "w").write(f"{{flat.sum().item()}} {{int(optimizer.state[model[0].weight].get('step', 0))}}")
"""


@unittest.skipUnless(has("torch", "numpy"), "there are no wheels torch and numpy")
class Runs(Trainers):
    def test_python_peers_and_cpp_peers_come_to_the_bits_of_cpp_peers_alone(self):
        cpp = {"env": {"PRIME_QUADRATIC_DELAY_MS": "1"}}
        with Run(2, **cpp, up_flags=["--quorum", "2"]) as run:
            self.assertEqual(run.wait_for_end(), 0)
            alone = [commit["digest"] for commit in run.check(outer_steps=6)]
        with self.run_of(QUADRATIC.format(extra=""), env={"PRIME_QUADRATIC_ELEMENTS": "200000"}) as run:
            python = [commit["digest"] for commit in self.ends(run)]
        self.assertEqual(python, alone)

    def test_a_python_peer_in_a_run_of_cpp_peers_has_their_digests(self):
        with Run(1, outer_steps=6, up_flags=["--quorum", "2"], minimum=2, env={"PRIME_QUADRATIC_ELEMENTS": "5000"}) as run:
            joined = self.start(QUADRATIC.format(extra=""), PRIMECTL_INVITE=run.up["invite"], PRIME_QUADRATIC_ELEMENTS="5000", XDG_STATE_HOME=str(run.directory / "joiner"))
            self.assertEqual(run.wait_for_end(), 0)
            self.finish(joined)
            commits = run.check(outer_steps=6)
            self.assertEqual({len(commit["contributors"]) for commit in commits}, {2})

    def test_a_module_and_its_optimizer_in_each_state_that_torch_makes_late(self):
        for optimizer in ("AdamW", "SGD", "NAdam"):
            with self.subTest(optimizer), self.run_of(MODULE.format(optimizer=optimizer, extra=""), evaluate=2) as run:
                self.ends(run)
                done = [path.read_text() for path in self.folder.glob("done-*")]
                self.assertEqual(len(done), 2)
                self.assertEqual(len(set(done)), 1, done)
                self.assertEqual(done[0].split()[1], "0" if optimizer == "SGD" else "24")
                for path in self.folder.glob("done-*"):
                    path.unlink()

    def test_an_interpreter_that_is_killed_goes_on_with_the_bits_of_one_that_was_not(self):
        died = self.folder / "died"
        dies = f"step.outer_step == 3 and step.index == 2 and step.rank == 1 and not os.path.exists('{died}') and (open('{died}', 'w').close(), os.kill(os.getpid(), signal.SIGKILL))"
        digests = []
        for extra in ("pass", dies):
            with self.run_of(MODULE.format(optimizer="AdamW", extra=extra)) as run:
                digests.append([commit["digest"] for commit in self.ends(run)])
                restarts = [line for lines in run.peer_journals().values() for line in lines if line["event"] == "trainer_restarting"]
                self.assertEqual(len(restarts), int(extra == dies), run.trainer_logs())
        self.assertEqual(*digests)

    def test_an_exception_is_told_and_the_trainer_is_started_again(self):
        died = self.folder / "died"
        extra = f"""
        if step.outer_step == 2 and step.rank == 1 and not os.path.exists('{died}'):
            open('{died}', 'w').close()
            raise ValueError("größe of the batch")"""
        with self.run_of(QUADRATIC.format(extra=extra)) as run:
            self.ends(run)
            (restart,) = [line for lines in run.peer_journals().values() for line in lines if line["event"] == "trainer_restarting"]
            self.assertIn("ValueError: größe of the batch", restart["reason"])

    def test_sys_exit_and_break_leave_the_run(self):
        for extra in ("step.outer_step == 2 and sys.exit(0)", "\n        if step.outer_step == 2: break"):
            with self.subTest(extra), Run(1, outer_steps=8, up_flags=["--quorum", "2"], minimum=1, env={"PRIME_QUADRATIC_ELEMENTS": "5000"}) as run:
                joined = self.start(QUADRATIC.format(extra=extra), PRIMECTL_INVITE=run.up["invite"], PRIME_QUADRATIC_ELEMENTS="5000", XDG_STATE_HOME=str(run.directory / "joiner"))
                self.finish(joined)
                self.assertEqual(run.wait_for_end(), 0)
                self.assertEqual(len(run.events("peer_left")), 1)
                run.check(outer_steps=8)

    def test_what_follows_the_loop_is_done_to_its_end(self):
        program = QUADRATIC.format(extra="pass") + """
time.sleep(4)  # who did not wait would have ended it by now
open(os.environ["DONE"] + "-saved-" + str(os.getpid()), "w").write("saved")
"""
        with self.run_of(program) as run:
            self.ends(run)
            self.assertEqual(list(self.done().values()), ["saved", "saved"])

    def test_ctrl_c_while_it_waits_leaves_the_run(self):
        with Run(1, outer_steps=100000, up_flags=["--quorum", "2"], minimum=2, env={"PRIME_QUADRATIC_ELEMENTS": "5000"}) as run:
            program = QUADRATIC.format(extra="step.outer_step == 2 and open('second', 'w').close()").replace("for step in run:", "open('waits', 'w').close()\n    for step in run:")
            joined = self.start(program, PRIMECTL_INVITE=run.up["invite"], PRIME_QUADRATIC_ELEMENTS="5000", XDG_STATE_HOME=str(run.directory / "joiner"))
            self.until("second")
            joined.send_signal(signal.SIGINT)
            self.assertIn("KeyboardInterrupt", self.finish(joined, -signal.SIGINT))
            run.wait_for("peer_left")
            self.assertEqual(run.events("peer_lost"), [])

    def test_another_thread_ends_the_wait_of_one_that_trains_and_leaves(self):
        with Run(1, outer_steps=100000, up_flags=["--quorum", "2"], minimum=2, env={"PRIME_QUADRATIC_ELEMENTS": "5000"}) as run:
            said = self.one("""
import threading, time
import numpy, prime_runtime as prime
run = prime.join()
x = numpy.ones(5000, dtype=numpy.float32)
run.bind_tensor("x", x)
began = threading.Event()
ends = []
def train():
    try:
        for step in run:
            began.set()
            step.report(1.0, 1)
    except prime.Error as error:
        ends.append(error.name)
thread = threading.Thread(target=train)
thread.start()
began.wait()
run.interrupt()
thread.join()
run.leave()
print(ends)
""", PRIMECTL_INVITE=run.up["invite"], PRIME_QUADRATIC_ELEMENTS="5000", XDG_STATE_HOME=str(run.directory / "joiner"))
            self.assertEqual(said, "['Interrupted']\n")
            run.wait_for("peer_left")

    def test_the_agent_is_killed(self):
        with Run(1, outer_steps=100000, up_flags=["--quorum", "2"], minimum=2, env={"PRIME_QUADRATIC_ELEMENTS": "5000"}) as run:
            program = QUADRATIC.format(extra="step.outer_step == 2 and step.index == 0 and os.kill(int(open(f'/proc/{os.getpid()}/task/{os.getpid()}/children').read().split()[0]), signal.SIGKILL)")
            joined = self.start(program, PRIMECTL_INVITE=run.up["invite"], PRIME_QUADRATIC_ELEMENTS="5000", XDG_STATE_HOME=str(run.directory / "joiner"))
            self.assertIn("the agent was lost", self.finish(joined, 1))

    def test_what_cannot_be_bound_is_refused_by_name(self):
        for program, wanted in (
            ("class Odd(torch.nn.Module):\n        def __init__(self):\n            super().__init__(); self.größe = torch.nn.Parameter(torch.ones(3))\n    run.bind(Odd())", "[PR0305]"),
            ("run.bind(torch.nn.Linear(2, 2).half())", "`weight` is of torch.float16; averaged tensors are of float32 or bfloat16"),
            ("run.bind(torch.nn.Linear(2, 2, device='meta'))", "`weight` has no memory of its own"),
            ("run.bind_tensor('x', torch.ones(3, dtype=torch.float64))", "[PR0305]"),
            ("run.bind_tensor('x', torch.ones(0))", "[PR0305]"),
            ("run.bind_tensor('x', __import__('numpy').ones((3, 3), 'float32').T[:, :2])", "`x` is not contiguous"),
            ("run.bind_tensor('x', torch.ones(3)); run.bind_tensor('x', torch.ones(3)); run.next()", "[PR0305]"),
            ("run.bind(torch.nn.Linear(2, 2), torch.optim.LBFGS(torch.nn.Linear(2, 2).parameters()))", "the optimizer LBFGS has no state yet, and is not known here"),
            ("m = torch.nn.Linear(2, 2); run.bind(m, torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), momentum=0.9))", "the optimizer has a parameter that the model has not"),
            ("run.bind_tensor('x', torch.ones(3)); run.bind_blob('b', 4, lambda: b'12345', print); run.next().report(1.0, 1)\n    for step in run: step.report(1.0, 1)", "`b` has 5 bytes, and was bound with a capacity of 4"),
            ("run.bind_tensor('x', torch.ones(3)); run.bind_blob('b', 4, lambda: 1 / 0, print)\n    for step in run: step.report(1.0, 1)", "ZeroDivisionError"),
            ("m = torch.nn.Linear(2, 2); run.bind(m)\n    for step in run: m.double(); step.report(1.0, 1)", "`weight` has moved since it was bound"),
            ("t = torch.ones(3); run.bind_tensor('x', t)\n    for step in run: t.resize_(100000); step.report(1.0, 1)", "`x` has moved since it was bound"),
            ("t = torch.ones(3); run.bind_tensor('x', t)\n    for step in run: t.untyped_storage().resize_(0); step.report(1.0, 1)", "`x` has moved since it was bound"),
            ("t = torch.ones(3); run.bind_tensor('x', t)\n    for step in run: step.report(1.0, 1); step.report(1.0, 1)", "this step was reported already"),
            ("m = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2).double())\n    try: run.bind(m)\n    except prime.Error: m[1].float(); run.bind(m)\n    try: run.bind(m)\n    finally: raise RuntimeError(run.next().index)", "RuntimeError: 0"),
            ("m = torch.nn.Linear(2, 2); run.bind(m); run.bind(torch.nn.ModuleDict({'other': torch.nn.Linear(2, 2)}), None); raise RuntimeError(run.next().index)", "RuntimeError: 0"),
            ("m = torch.nn.Linear(2, 2); run.bind(m); run.bind(m)", "`weight` is bound twice"),
            ("run.bind('x')", "a str is no nn.Module"),
            ("prime.join()", "this process has joined already"),
            ("run.bind_tensor('x', torch.ones(3)); step = run.next()\n    for wrong in (dict(tokens=-1), dict(tokens=1, samples=10**6)):\n        try: step.report(1.0, **wrong)\n        except prime.Error as error: assert error.name == 'Usage'\n    step.report(1.0, 1); raise RuntimeError(run.next().index)", "RuntimeError: 1"),
            ("run.bind_tensor('x', torch.ones(3)); run.next(); run.next()", "a step was not reported, and is given once more"),
            ("run.bind_tensor('x', torch.ones(3))\n    for step in run: step.report(1.0, -1)", "`tokens` is -1: it is how many, from 0 on"),
            ("run.bind_tensor('x', torch.ones(3))\n    for step in run: step.report(1.0, 0)", "no token was reported since the last publication"),
            ("t = torch.ones(3); run.bind_tensor('x', t)\n    for step in run: t[1] = float('nan'); step.report(1.0, 1)", "a tensor holds NaN or infinity"),
            ("run.bind_tensor('x', torch.ones(3)); step = run.next()\n    if os.fork() == 0:\n        try: run.next()\n        finally: os._exit(print(sys.exc_info()[1]) or 0)\n    os.wait(); raise SystemExit", "a session cannot be used after fork"),
        ):
            with self.subTest(program), self.run_of(f"import os, sys, torch\nimport prime_runtime as prime\nwith prime.join() as run:\n    {program}\n", peers=1, minimum=1, restarts=0) as run:
                def told():
                    return run.trainer_logs() + json.dumps(run.peer_journals(), ensure_ascii=False)

                wait_until("the trainer's end", lambda: "trainer_restarting" in told() or "trainer_gave_up" in told() or "Traceback" in told() or wanted in told())
                wait_until(wanted, lambda: wanted in told())

    def test_ranks_of_torchrun_and_srun_are_shards_of_replicas(self):
        program = """import os, sys
import numpy, prime_runtime as prime
with prime.join(shards=2) as run:
    assert run.shards == 2
    x = numpy.full(100 + run.shard, 4, dtype=numpy.float32)
    run.bind_tensor("x", x)
    for step in run:
        x -= numpy.float32(0.1) * (x - numpy.float32(step.rank))
        step.report(float(step.rank), x.size)
"""
        trainer = self.folder / "trainer.py"
        trainer.write_text(program)
        torchrun = str(pathlib.Path(PYTHON).parent / "torchrun")
        with Run(0, outer_steps=4, shards=2, minimum=2, up_flags=["--quorum", "2"]) as run:
            told = {"PRIMECTL_INVITE": run.up["invite"], "XDG_STATE_HOME": str(run.directory / "joiner")}
            ranks = [subprocess.Popen([torchrun, "--nproc-per-node=2", "--master-port=0", trainer], env=environment(**told), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)]
            ranks += [subprocess.Popen([PYTHON, trainer], env=environment(SLURM_PROCID=str(rank), SLURM_NTASKS="2", SLURM_JOB_ID="77", SLURM_STEP_ID="3", **told),
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(2)]
            self.started += ranks
            code = run.wait_for_end()
            said = [self.finish(each) for each in ranks]
            self.assertEqual(code, 0, said)
            seats = {(line["replica"], line["shard"]) for line in run.coordinator() if "replica" in line and "peer" in line}
            names = {name for name, _ in seats}
            self.assertEqual(len(seats), 4, seats)
            self.assertEqual(names - {name for name in names if re.fullmatch(r"torchrun-[0-9a-f]{8}-0", name)}, {"slurm-77-3-0"})
            self.assertEqual({len(commit["contributors"]) for commit in run.events("outer_step_committed")}, {2})

    def test_a_launch_that_does_not_fit_the_run_is_refused_by_name(self):
        program = "import prime_runtime as prime\nprime.join(shards=int(__import__('sys').argv[1]))"
        with Run(1, outer_steps=100000, minimum=1, env={"PRIME_QUADRATIC_ELEMENTS": "5000"}) as run:
            told = {"PRIMECTL_INVITE": run.up["invite"], "XDG_STATE_HOME": str(run.directory / "joiner")}
            for shards, env, wanted in ((2, {}, "no launcher says which of the 2 shards"), (2, {"RANK": "0", "WORLD_SIZE": "3"}, "WORLD_SIZE is 3: 2 processes hold one model"),
                                        (0, {}, "at least one process"), (2, {"RANK": "1", "WORLD_SIZE": "2"}, "shard")):
                with self.subTest(wanted):
                    process = self.start(program, shards, **told, **env)
                    self.assertIn(wanted, self.finish(process, 1))

    def test_up_and_join_name_a_trainer_by_its_command_line(self):
        path = self.folder / "my trainer.py"
        path.write_text(QUADRATIC.format(extra="open(os.environ['DONE'] + sys.argv[1], 'w').close()"))
        env = {key: value for key, value in environment(DONE=str(self.folder / "done")).items() if key not in os.environ}
        with Run(1, outer_steps=6, minimum=2, trainer="/nowhere", up_flags=["--quorum", "2", "--trainer", f"{PYTHON} '{path}' '-from up'"],
                 env={**env, "PRIME_QUADRATIC_ELEMENTS": "5000"}) as run:
            joined = subprocess.run([BIN / "primectl", "join", run.up["invite"], "--state-dir", run.directory / "joiner", "--", PYTHON, path, "--name"],
                                    env=run.env, capture_output=True, text=True, timeout=600, check=False)
            self.assertEqual(joined.returncode, 0, joined.stderr)
            self.assertEqual(run.wait_for_end(), 0)
            self.assertEqual({len(commit["contributors"]) for commit in run.check(outer_steps=6)}, {2})
            self.assertEqual(sorted(path.name for path in self.folder.glob("done*")), ["done--name", "done-from up"])

    def test_a_run_that_is_dropped_warns_and_leaves(self):
        with Run(1, outer_steps=100000, up_flags=["--quorum", "2"], minimum=2, env={"PRIME_QUADRATIC_ELEMENTS": "5000"}) as run:
            said = self.one("""
import gc, warnings
import prime_runtime as prime
warnings.simplefilter("always")
run = prime.join()
del run
gc.collect()
print("goes on")
""", PRIMECTL_INVITE=run.up["invite"], XDG_STATE_HOME=str(run.directory / "joiner"))
            self.assertRegex(said, "(?s)ResourceWarning: a run was neither left nor closed.*goes on")

    def test_an_invite_that_is_none_and_a_run_that_is_not_there(self):
        for invite, name in (("", "Usage"), ("prime://nonsense", "ProcessFailed"), ("prime://127.0.0.1:1/quickstart#AAAA", "ProcessFailed")):
            said = self.one(f"""
import prime_runtime as prime
try:
    prime.join({invite!r}, timeout=20)
except prime.Error as error:
    print(error.name)
""", XDG_STATE_HOME=str(self.folder))
            self.assertEqual(said, name + "\n")

    def test_ten_thousand_tensors(self):
        program = """import numpy
import prime_runtime as prime
with prime.join() as run:
    x = numpy.full((10_000, 3), 4, dtype=numpy.float32)
    for number, row in enumerate(x):
        run.bind_tensor(f"layer.{number}", row)
    for step in run:
        x -= numpy.float32(0.1) * (x - numpy.float32(step.rank))
        step.report(1.0, 1)
    assert x.max() - x.min() < 1e-6 and 0 < x[0, 0] < 4
"""
        with self.run_of(program) as run:
            self.ends(run)

    def test_the_loader_follows_the_leases_and_every_sample_is_used_once(self):
        program = """import os, torch
import prime_runtime as prime
with prime.join() as run:
    x = torch.zeros(8)
    run.bind_tensor("x", x)
    seen = []
    for step, batch in run.data(torch.utils.data.TensorDataset(torch.arange(10_000)), shuffle=False):
        seen += batch[0].tolist()
        x += 1
        step.report(1.0, 1)
    open(os.environ["DONE"] + "-" + run.peer, "w").write(" ".join(map(str, seen)))
"""
        with self.run_of(program) as run:
            self.ends(run)
            seen = sorted(int(each) for path in self.folder.glob("done-*") for each in path.read_text().split())
            self.assertEqual(seen, list(range(2 * 6 * 4 * 4)))

    def test_what_a_step_waits_for_its_samples_is_told(self):
        program = """import os, time, torch
import prime_runtime as prime
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 100
    def __getitem__(self, at):
        time.sleep(0.02)
        return at
with prime.join() as run:
    x = torch.zeros(8)
    run.bind_tensor("x", x)
    for step, batch in run.data(Slow()):
        x += 1
        if step.outer_step <= 2:
            step.report(1.0, 1)
        else:
            step.report(1.0, 1, data_wait_s=0)
"""
        with self.run_of(program) as run:
            self.ends(run)
            told = [(event["outer_step"], event["data_wait"]) for event in run.coordinator() if event["event"] == "peer_ready" and event["weight"] > 0]
            self.assertTrue(all(wait > 0 if outer_step <= 2 else wait == 0 for outer_step, wait in told), told)
            self.assertEqual({outer_step for outer_step, _ in told}, set(range(1, 7)))


if __name__ == "__main__":
    main()
