"""The kernel kills a process for want of memory: whoever supervises it, and whoever asks later, says so."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import unittest
import uuid

from prime_run import PRIMECTL, LIMIT_S, Run, wait_until
from waiting import lives

MIB = 1 << 20
ROOM = 600 * MIB
# Takes memory, and is never the one that is killed for it, until the kernel has killed somebody: what that one had, others need.
EATER = """
import sys
def killed():
    with open(sys.argv[1]) as counters:
        return next(int(line.split()[1]) for line in counters if line.startswith("oom_kill "))
open("/proc/self/oom_score_adj", "w").write("-1000")
before = killed()
taken = []
while killed() == before and len(taken) < 4096:
    taken.append(b"x" * (1 << 20))
"""


class Group:
    """A cgroup with little room, of whichever version has the memory controller here."""

    def __init__(self):
        first = pathlib.Path("/sys/fs/cgroup/memory")
        self.path = (first if first.is_dir() else pathlib.Path("/sys/fs/cgroup")) / f"prime-{uuid.uuid4().hex[:8]}"
        self.before = self.own(first.is_dir())
        self.path.mkdir()
        self.counters = self.path / ("memory.oom_control" if first.is_dir() else "memory.events")
        limit = self.path / ("memory.limit_in_bytes" if first.is_dir() else "memory.max")
        try:
            limit.write_text(str(ROOM))
        except OSError:
            self.path.rmdir()
            raise

    @staticmethod
    def own(first):
        """Where the test itself belongs."""
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            number, names, path = line.split(":", 2)
            if "memory" in names.split(",") if first else number == "0":
                return pathlib.Path("/sys/fs/cgroup/memory" if first else "/sys/fs/cgroup") / path.lstrip("/")
        return None

    @contextlib.contextmanager
    def born_here(self):
        """Processes that are started meanwhile belong to it."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            (self.before / "cgroup.procs").write_text(str(os.getpid()))

    def starve(self, pid):
        """The kernel takes this process, when there is no room left."""
        pathlib.Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
        with self.born_here():
            eater = subprocess.Popen([sys.executable, "-c", EATER, str(self.counters)])
        self.eater = eater
        wait_until("the kernel's choice", lambda: not lives(pid))
        eater.kill()
        eater.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in (self.path / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (self.before / "cgroup.procs").write_text(pid)
        with contextlib.suppress(OSError):
            self.path.rmdir()


def why_not():
    try:
        with Group() as group, group.born_here():
            return None
    except OSError as error:
        return f"no cgroup with a limit of memory can be made here: {error}"


WHY_NOT = why_not()
FOR_WANT = "for want of memory: its cgroup is at its limit"  # where somebody waited for the process
SINCE = "the kernel has killed processes of its cgroup for want of memory since it began"


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Starved(unittest.TestCase):
    def status(self, run, state):
        out = subprocess.run([str(PRIMECTL), "status", run.up["run_id"], "-o", "json", "--state-dir", str(state)], capture_output=True, text=True,
                             timeout=LIMIT_S, check=False)
        return json.loads(out.stdout)

    def agent_of(self, run, joiner):
        """As this place numbers it, wherever it runs."""
        def find():
            for entry in pathlib.Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    line = (entry / "cmdline").read_bytes().split(b"\0")
                    if line[0] == str(PRIMECTL).encode() and str(joiner).encode() in line:
                        return int(entry.name)
            return None
        return wait_until("the agent", find)

    def joiner_is_starved(self, *before):
        with Group() as group, Run(2, up_flags=("--quorum", "3"), outer_steps=5000, env={"PRIME_QUADRATIC_DELAY_MS": "20"}) as run:
            joiner = run.directory / "joiner"
            with group.born_here(), open(run.directory / "join-0.log", "wb") as log:
                run.processes.append(subprocess.Popen([*before, PRIMECTL, "join", run.up["invite"], "--name", "hungry", "--state-dir", joiner,
                                                       "--local-manifest", run.manifest], env=run.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL))
            run.wait_for("outer_step_committed", 2)
            group.starve(self.agent_of(run, joiner))
            lost = run.wait_for("peer_lost")[0]
            self.assertEqual(lost["name"], "hungry")
            seen = [peer for peer in self.status(run, joiner)["peers"] if peer["name"] == "hungry"]
            self.assertIn("its agent is gone; " + SINCE, seen[0]["reason"])

    def test_an_agent_that_nobody_watches(self):
        self.joiner_is_starved()

    def test_an_agent_in_a_pid_namespace_seen_from_outside(self):
        self.joiner_is_starved("unshare", "--pid", "--fork", "--mount-proc")

    def test_a_trainer_that_its_agent_starts_again(self):
        with Group() as group:
            with group.born_here():
                run = Run(2, outer_steps=5000, env={"PRIME_QUADRATIC_DELAY_MS": "20"})
            with run:
                run.wait_for("outer_step_committed", 2)
                group.starve(run.status()["peers"][0]["trainer_pid"])
                restarted = wait_until("the restart", lambda: [line for lines in run.peer_journals().values() for line in lines
                                                               if line["event"] == "trainer_restarting"])
                self.assertIn("killed by SIGKILL, " + FOR_WANT, restarted[0]["reason"])

    def test_a_coordinator_that_its_guard_starts_again(self):
        with Group() as group:
            with group.born_here():
                run = Run(2, outer_steps=5000, env={"PRIME_QUADRATIC_DELAY_MS": "20"})
            with run:
                run.wait_for("outer_step_committed", 2)
                group.starve(run.coordinator_pid())
                restarted = run.wait_for("coordinator_restarted")[0]
                self.assertEqual(restarted["reason"], "the one before it was killed by SIGKILL, " + FOR_WANT)
                committed = len(run.events("outer_step_committed"))
                run.wait_for("outer_step_committed", committed + 2)
                run.check()

    def test_an_agent_of_up_that_watches_its_run(self):
        with Group() as group:
            with group.born_here():
                run = Run(1, foreground=True, minimum=1, outer_steps=5000, env={"PRIME_QUADRATIC_DELAY_MS": "20"})
            with run:
                run.wait_for("outer_step_committed", 2)
                group.starve(run.status()["peers"][0]["pid"])
                wait_until("the end of up", lambda: run.attended.poll() is not None)
                self.assertIn("is gone without a word; " + SINCE, (run.directory / "up.log").read_text())
                self.assertNotEqual(run.attended.returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
