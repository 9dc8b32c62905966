"""Standby coordinators with a real etcd: who leads is killed with its guard, frozen or cut off from etcd, and the run goes on elsewhere
with the same bits, or ends by name. Nobody ever decides beside the leader."""

import json
import os
import pathlib
import signal
import subprocess
import unittest

from prime_run import LIMIT_S, PRIMECTL, Journal, Run, wait_until
from etcd import PROGRAM, Etcd

STEPS = 40
SLOW = {"PRIME_QUADRATIC_DELAY_MS": "5", "PRIME_QUADRATIC_ELEMENTS": "300000"}
LEASE = "2s"


class Standby:
    """A coordinator that stands by, with files of its own as on another machine."""

    def __init__(self, run, etcd, name="standby"):
        self.state = run.directory / name
        done = subprocess.run([PRIMECTL, "standby", run.up["invite"], "--etcd", etcd.url, "-d", "-o", "json", "--state-dir", self.state],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)
        if done.returncode != 0:
            raise AssertionError(f"standby: exit {done.returncode}\n{done.stderr}")
        self.started = json.loads(done.stdout)
        self.address = self.started["address"]
        self.journal = Journal(pathlib.Path(self.started["state_dir"]) / "coordinator" / "journal.jsonl")

    def events(self, name):
        return [line for line in self.journal.lines() if line["event"] == name]

    def wait_for(self, name, count=1):
        return wait_until(f"{count} × {name} at the standby", lambda: (found := self.events(name)) and len(found) >= count and found)

    def status(self):
        out = subprocess.run([PRIMECTL, "status", self.started["run_id"], "-o", "json", "--state-dir", self.state], capture_output=True,
                             text=True, timeout=LIMIT_S, check=False)
        return json.loads(out.stdout)


class StandbyRun(Run):
    """A run whose coordinators keep their decisions in `etcd`; the standbys are ended with it."""

    def __init__(self, etcd, peers=3, lease=LEASE, **options):
        self.etcd = etcd
        self.standbys = []
        super().__init__(peers, standby=f"{{etcd: ['{etcd.url}'], lease: {lease}}}", **options)

    def stand_by(self):
        self.standbys.append(Standby(self, self.etcd, f"standby-{len(self.standbys)}"))
        return self.standbys[-1]

    def wait_until_known(self, standby):
        """By every peer: until then nobody would find it."""
        def known():
            return all(any(standby.address in line["addresses"] for line in lines if line["event"] == "coordinators")
                       for lines in self.peer_journals().values())
        wait_until("all peers to know the standby", known)

    def __exit__(self, failed, *rest):
        for standby in self.standbys:
            for line in standby.events("process_started"):
                for pid in (line["guard_pid"], line["pid"]):
                    if str(standby.state).encode() in command_line(pid):
                        os.kill(pid, signal.SIGCONT)
                        os.kill(pid, signal.SIGKILL)
            if failed:
                for line in standby.journal.lines()[-30:]:
                    print({key: value for key, value in line.items() if key not in ("digest", "seq", "contributors")})
        super().__exit__(failed, *rest)

    def decided(self):
        """What all coordinators committed, in the order of the revisions; a line that two of them tell is the same twice."""
        commits = {}
        for lines in (self.coordinator(), *(standby.journal.lines() for standby in self.standbys)):
            for line in lines:
                if line["event"] == "outer_step_committed":
                    same = {key: line[key] for key in ("epoch", "revision", "digest", "contributors", "weight")}
                    assert commits.setdefault(line["revision"], same) == same, f"two coordinators decided revision {line['revision']}"
        revisions = sorted(commits)
        assert revisions == list(range(1, len(revisions) + 1)), revisions
        for name, lines in self.peer_journals().items():
            for line in lines:
                if line["event"] == "outer_step_committed":
                    assert line["digest"] == commits[line["revision"]]["digest"], f"{name}: revision {line['revision']}"
        return commits

    def wait_for_peers(self):
        for peer in self.up["peers"]:
            wait_until(f"the end of {peer['name']}", lambda pid=peer["pid"]: not self.ours(pid))
        return [lines[-1] for lines in self.peer_journals().values()]


def command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def undisturbed():
    with Run(3, outer_steps=STEPS, env=SLOW) as run:
        assert run.wait_for_end() == 0
        return {c["revision"]: c["digest"] for c in run.check(outer_steps=STEPS)}


@unittest.skipUnless(PROGRAM, "etcd is not installed: `./dev setup --test` installs it")
class StandbyTakesOver(unittest.TestCase):
    def test_a_machine_that_is_gone_for_good_is_taken_over_with_the_same_bits(self):
        digests = undisturbed()
        with Etcd() as etcd, StandbyRun(etcd, outer_steps=STEPS, dead_after="20s", env=SLOW) as run:
            standby = run.stand_by()
            run.wait_until_known(standby)
            run.wait_for("outer_step_committed", 5)
            os.kill(run.guard(), signal.SIGKILL)  # the coordinator ends with it
            wait_until("the coordinator's end", lambda: not run.ours(run.coordinator_pid()))
            standby.wait_for("run_done")
            for last in run.wait_for_peers():
                self.assertEqual(last["exit_code"], 0, last)
            standby.wait_for("process_ended")
            commits = run.decided()
            self.assertEqual({revision: c["digest"] for revision, c in commits.items()}, digests)
            self.assertEqual({c["epoch"] for c in commits.values()}, {commits[1]["epoch"]}, "nobody was lost, so the view stays")
            self.assertEqual(standby.status()["run"]["state"], "done")


if __name__ == "__main__":
    unittest.main(verbosity=2)
