"""Owns Python programs as members of a test: each a process of its own, with the package of the build tree, ended by its id."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

for folder in ("support", "chaos"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / folder))
from prime_run import Journal, Run  # noqa: E402
from waiting import LIMIT_S, wait_until  # noqa: E402

BUILD = pathlib.Path(os.environ.get("PRIME_BUILD", pathlib.Path(os.environ["PRIME_BIN"]).parent))
SOURCE = pathlib.Path(os.environ["PRIME_SOURCE"])
BIN = pathlib.Path(os.environ["PRIME_BIN"])
PYTHON = os.environ.get("PRIME_PYTHON") or str(SOURCE / ".venv" / "bin" / "python")
LACKS = os.environ.get("PRIME_PYTHON_LACKS") or ("" if list((BUILD / "python" / "prime_runtime").glob("_prime.*.so")) else "it was not built")


def has(*modules):
    if LACKS or not pathlib.Path(PYTHON).exists():
        return False
    return subprocess.run([PYTHON, "-c", f"import importlib.util as u; assert all(map(u.find_spec, {modules!r}))"], capture_output=True, check=False).returncode == 0


def main():
    if LACKS:
        print(f"skipped: no Python module: {LACKS}")
    unittest.main(verbosity=2)


def free_addresses(count):
    """Of a host of this process's own: until a member listens there, which takes it seconds, nothing else on this machine takes its port."""
    pid = os.getpid()
    host = f"127.{128 + (pid >> 16) % 64}.{pid >> 8 & 255}.{pid & 255}"
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((host, 0))
        return [f"{host}:{each.getsockname()[1]}" for each in sockets]


def environment(**more):
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PRIME")}
    return {**kept, "PYTHONPATH": str(BUILD / "python"), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1", "OMP_NUM_THREADS": "1",
            "PRIME_PRIMECTL": str(BIN / "primectl"), **more}


# The first optimizer of a process imports all of torch._dynamo to use these two functions: 2.8 s of a processor, for programs that compile nothing.
TORCH = """import sys, types
sys.modules["torch._dynamo"] = types.SimpleNamespace(disable=lambda function, *_, **__: function, graph_break=lambda: None)
import torch
"""

# What every member of a group begins with.
GROUP = """import os, signal, sys, time
import prime_runtime as prime
rank = int(os.environ["RANK"])
members = os.environ["MEMBERS"].split()
options = dict(rank=rank, members=members, key="a secret of the tests", timeout=float(os.environ.get("LIMIT", "60")))
"""


@unittest.skipIf(LACKS, LACKS)
class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="prime-python-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.started = []
        self.addCleanup(self.end)

    def end(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()

    def start(self, program, *arguments, **env):
        path = self.folder / f"program-{len(self.started)}.py"
        path.write_text(program)
        process = subprocess.Popen([PYTHON, "-X", "dev", "-W", "ignore", str(path), *map(str, arguments)], cwd=self.folder, env=environment(**env), stdin=subprocess.DEVNULL,
                                   start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.started.append(process)
        return process

    def finish(self, process, code=0):
        try:
            said, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGABRT)  # faulthandler shows where each thread stands, also of its children, which have the pipe, too
            said, _ = process.communicate()
            self.fail(f"it hangs:\n{said}")
        self.assertEqual(process.returncode, code, said)
        return said

    def group(self, program, size, **env):
        """The program on all ranks of a group; the processes."""
        members = " ".join(free_addresses(size))
        return [self.start(GROUP + program, RANK=str(rank), MEMBERS=members, **env) for rank in range(size)]

    def all_of(self, program, size, **env):
        """What the program says on all ranks, which end well."""
        return [self.finish(process) for process in self.group(program, size, **env)]

    def one(self, program, code=0, **env):
        return self.finish(self.start(program, **env), code)

    def until(self, path):
        return wait_until(path, lambda: (self.folder / path).exists())


class Trainers(Programs):
    """Runs whose trainers are programs."""

    def run_of(self, program, peers=2, up_flags=(), words=(), **manifest):
        """A run whose trainers are that program, in an interpreter each, which is given these words before it."""
        path = self.folder / "trainer.py"
        path.write_text(program)
        # An interpreter that is started again loads torch again: how long that takes is the machine's affair.
        manifest = {"deadline": "1h", "wait_limit": "1h", "stall_limit": "1h", **manifest}
        env = {key: value for key, value in environment(DONE=str(self.folder / "done")).items() if key not in os.environ}
        return Run(peers, trainer='", "'.join([PYTHON, *words, str(path)]), env={**env, "PRIME_QUADRATIC_ELEMENTS": "5000", **manifest.pop("env", {})}, up_flags=up_flags, **manifest)

    def joins(self, program, run, **env):
        """The program by itself, into that run."""
        return self.start(program, PRIMECTL_INVITE=run.up["invite"], XDG_STATE_HOME=str(run.directory / "joiner"), DONE=str(self.folder / "done"), **env)

    def ends(self, run, lost=0, outer_steps=6):
        code = run.wait_for_end()
        self.assertEqual(code, 0, run.trainer_logs())
        return run.check(outer_steps=outer_steps, lost=lost)

    def ended(self, trainers):
        """What so many programs have left under `DONE-ended-PEER`, which they write after their run: each text once."""
        def written():
            texts = {path: path.read_text() for path in self.folder.glob("done-ended-*")}
            return texts if len(texts) == trainers and all(texts.values()) else None
        texts = wait_until("the trainers' last words", written)
        for path in texts:
            path.unlink()
        return texts.values()

    def done(self):
        """What programs have left under `DONE`, by the rest of the name."""
        return {path.name.removeprefix("done-"): path.read_text() for path in self.folder.glob("done-*")}


__all__ = ["BIN", "BUILD", "GROUP", "Journal", "LACKS", "LIMIT_S", "PYTHON", "SOURCE", "TORCH", "Programs", "Run", "Trainers", "environment", "free_addresses", "has", "main", "wait_until"]
