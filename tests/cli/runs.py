"""Owns what the tests of whole runs share: a directory of their own, calls of primectl in it, and waits for what its journals tell."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import unittest

from primectl import LIMIT_S, PRIMECTL, check_schemas, environment, lives, primectl, temporary_directory, wait_until, write_manifest

SLOW = {"PRIME_QUADRATIC_DELAY_MS": "50"}


class RunCase(unittest.TestCase):
    def setUp(self):
        directory = temporary_directory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.addCleanup(self.end_everything)

    def end_everything(self):
        """What a failed test left: processes that carry this test's directory in their command line."""
        for entry in pathlib.Path("/proc").iterdir():
            try:
                mine = entry.name.isdigit() and str(self.directory).encode() in (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if mine:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(entry.name), signal.SIGKILL)

    def call(self, *arguments, env=None):
        return primectl(*arguments, state=self.directory, env=env)

    def start(self, *arguments, env=None):
        process = subprocess.Popen([PRIMECTL, *map(str, arguments)], env=environment(XDG_STATE_HOME=str(self.directory), **(env or {})), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process

    def up_detached(self, *arguments, env=None, **manifest):
        done = self.call("up", write_manifest(self.directory, **manifest), "-d", "-o", "json", *arguments, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def hold_at(self, step):
        """A file, and the environment of trainers that stay in this outer step while it is there: what a test does meanwhile is not late."""
        hold = self.directory / "hold"
        hold.touch()
        return hold, {**SLOW, "PRIME_QUADRATIC_HELD_AT": str(step), "PRIME_QUADRATIC_HELD_BY": str(hold)}

    def status(self, run=""):
        """Nothing as long as there is no such run."""
        done = self.call("status", *([run] if run else []), "-o", "json")
        return json.loads(done.stdout) if done.stdout else {}

    def wait_for_step(self, run, step):
        return wait_until(f"step {step}", lambda: (told := self.status(run)).get("run", {}).get("outer_step", -1) >= step and told)

    def finished(self, process):
        out, err = process.communicate(timeout=LIMIT_S)
        check_schemas(out)
        return process.returncode, out, err

    def trainer(self):
        return pathlib.Path(PRIMECTL).parent / "quadratic_trainer"

    def peer(self, run, name):
        return next((peer for peer in self.status(run)["peers"] if peer["name"] == name), {"state": "unknown"})

    def all_have_ended(self):
        """By now; what keeps an agent's memory ends a moment after it."""
        self.assertEqual([line for name, line in self.processes() if name != "prime-memory\n"], [])
        wait_until("the end of what keeps the agents' memory", lambda: self.running() == [])

    def running(self):
        return [line for _, line in self.processes()]

    def processes(self):
        """Names and command lines of ours, in this test's directory."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
                if str(self.directory).encode() in line:
                    found.append(((entry / "comm").read_text(), line))
            except OSError:
                continue
        return found

    def paste(self, line, folder=None):
        return subprocess.run(["/bin/sh", "-c", line], cwd=folder or self.directory, text=True, timeout=LIMIT_S, check=False,
                              env=environment(XDG_STATE_HOME=str(self.directory), **SLOW), capture_output=True, stdin=subprocess.DEVNULL)

    def step_of(self, run, state):
        return json.loads(self.call("status", run, "-o", "json", "--state-dir", state).stdout)["run"]["outer_step"]

    def active(self):
        """The one run that is not over."""
        runs = json.loads(self.call("ls", "-o", "json").stdout)["runs"]
        return next((run for run in runs if run["state"] in ("waiting", "training")), None)
