"""Owns real runs of real processes for the chaos tests: start, join, signal, wait by events, and the oracle that reads the journals."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from waiting import LIMIT_S, wait_until  # noqa: E402

BIN = pathlib.Path(os.environ["PRIME_BIN"])
PRIMECTL = BIN / "primectl"
QUADRATIC = BIN / "quadratic_trainer"
# Tensors of several chunks for each peer, for what happens in the middle of a reduce.
BULKY = {"PRIME_QUADRATIC_ELEMENTS": "2000000"}

MANIFEST = """version: 1
run: chaos
model: {{arch: llama, layers: 1, dim: 8, heads: 2, vocab: 256, context: 8}}
train: {{batch: 4, outer_steps: {outer_steps}, evaluate: {{every: {evaluate}, time_limit: {evaluate_limit}}}}}
sync: {{algorithm: {algorithm}, outer: {{nesterov: {{lr: {lr}, momentum: {momentum}}}}}, inner_steps: {inner_steps}, deadline: {deadline}, alone: {alone}, fragments: {{count: {fragments}}}, in_flight: {in_flight}}}
membership: {{peers: {minimum}..8, shards: {shards}, heartbeat: {{every: {beat}, dead_after: {dead_after}}}, wait_limit: {wait_limit}, coordinator_grace: {grace},
  correlated_loss: {correlated}, standby: {standby}}}
topology: {{ring: {ring}}}
trust: {{transport: {transport}}}
checkpoint: {{every: {every}, keep: 2, retry: {retry}}}
local: {{trainer: {{restarts: {restarts}, within: 10min, stall_limit: {stall_limit}}}, trainer_command: ["{trainer}"]}}
"""


class Journal:
    """The whole lines of a journal that grows, as dictionaries. Reads what is new only: waits ask for it again and again."""

    def __init__(self, path):
        self.path = path
        self.offset = 0
        self.found = []

    def lines(self):
        with contextlib.suppress(FileNotFoundError), open(self.path, "rb") as file:
            if os.fstat(file.fileno()).st_size < self.offset:  # a test has written it anew
                self.offset, self.found = 0, []
            file.seek(self.offset)
            new = file.read()
            whole = new[:new.rfind(b"\n") + 1]
            self.found += [json.loads(line) for line in whole.decode(errors="replace").splitlines()]
            self.offset += len(whole)
        return self.found


def on(machine, command):
    """The command line, of a network namespace where one is named."""
    return [str(part) for part in (["ip", "netns", "exec", machine] if machine else []) + [*command]]


class Run:
    """One run in its own directory. Ends every process that it started, by id."""

    def __init__(self, peers, *, env=None, up_flags=(), machine=None, held_at=None, held_after=None, foreground=False, directory=None, **manifest):
        """`held_at` is an outer step that does not end before `release`: what the test does meanwhile cannot come too late.
        It may be `step.inner`: the trainers stay after that many inner steps.
        `held_after` is the last outer step that they make before `go_on`.
        `foreground`: `up` watches its run; its process is `attended`."""
        values = dict(outer_steps=6, inner_steps=4, deadline="20s", alone="wait", minimum=2, beat="100ms", dead_after="10s",
                      transport="tls", restarts=3, wait_limit="2min", grace="1min", correlated="continue", ring="join_order", every=0, standby="{}", shards=1, fragments=1, in_flight=1, algorithm="diloco", lr=0.7, momentum=0.9, trainer=QUADRATIC, stall_limit="1min", evaluate=0, evaluate_limit="10min", retry="10min")
        if held_at or held_after:
            values.update(deadline="1h", stall_limit="1h")
        values.update(manifest)
        self.fragments = values["fragments"]
        self.decoupled = values["algorithm"] == "decoupled"  # fragments are of different steps
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="prime-chaos-", dir=directory))
        self.state = self.directory / "state"
        self.manifest = self.directory / "run.yaml"
        self.manifest.write_text(MANIFEST.format(**values))
        self.processes = []
        self.journals = {}
        self.machine = machine
        self.env = {**os.environ, "PRIME_QUADRATIC_ELEMENTS": "200000", **(env or {})}
        self.hold = self.directory / "hold"
        self.held_at = held_at
        if held_at or held_after:
            self.go_on(until=held_after or "")
            self.env |= {"PRIME_QUADRATIC_HELD_AT": str(held_at or "nowhere"), "PRIME_QUADRATIC_HELD_BY": str(self.hold)}
        command = [PRIMECTL, "up", self.manifest, "--local", str(peers), "-o", "json", "--state-dir", self.state, *up_flags]
        if foreground:
            self.attend(command)
            return
        command.append("-d")
        done = subprocess.run(on(machine, command), env=self.env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        if done.returncode != 0:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise AssertionError(f"up: exit {done.returncode}\n{done.stderr}")
        self.up = json.loads(done.stdout)
        self.run_directory = pathlib.Path(self.up["state_dir"])

    def attend(self, command):
        """What `up -d` says in JSON is gathered from what a watching one leaves and says."""
        said = self.directory / "up.log"
        with open(said, "wb") as log, open(self.directory / "up.json", "wb") as result:
            self.attended = subprocess.Popen(on(self.machine, command), env=self.env, stdout=result, stderr=log, stdin=subprocess.DEVNULL)
        self.processes.append(self.attended)
        invite = wait_until("the line to join by", lambda: re.search(rb"prime://[^'\s]+", said.read_bytes()))[0].decode()
        (self.run_directory,) = (path.parent.parent for path in self.state.glob("*/coordinator/journal.jsonl"))
        self.up = {"run_id": self.run_directory.name, "invite": invite, "state_dir": str(self.run_directory)}
        self.up["peers"] = self.status()["peers"]
        self.up["coordinator"] = {"pid": self.coordinator_pid()}

    def __enter__(self):
        return self

    def __exit__(self, failed, cause, trace):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        # The guard first: it would start the coordinator again.
        for pid in [self.guard(), self.up["coordinator"]["pid"], *(peer["pid"] for peer in self.up["peers"])]:
            if self.ours(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
                    os.kill(pid, signal.SIGKILL)
        if failed:
            print("".join(traceback.format_exception(failed, cause, trace)))  # first: of a long output the beginning is what is kept
            self.tell_what_happened()
        if failed and os.environ.get("PRIME_CHAOS_KEEP"):
            print(f"kept {self.directory}")
        else:
            shutil.rmtree(self.directory, ignore_errors=True)

    def tell_what_happened(self):
        """The last that the coordinator and the joiners said, for whoever reads of the failure elsewhere."""
        for line in [line for line in self.coordinator() if line["event"] not in ("waiting", "peer_ready")][-40:]:
            print({key: value for key, value in line.items() if key not in ("digest", "seq", "contributors")})
        for log in sorted(self.directory.glob("*.log")):  # of `up` that watches, and of joiners
            print(f"{log.stem}:", *log.read_text(errors="replace").splitlines()[-6:], sep="\n  ")

    def guard(self):
        """The process that starts the coordinator again."""
        return self.events("process_started")[-1]["guard_pid"]

    def coordinator_pid(self):
        """Of the coordinator that serves the run now."""
        return self.events("process_started")[-1]["pid"]

    def ours(self, pid):
        """True while `pid` is a process of this run: ids are used again."""
        try:
            return str(self.state).encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    def join(self, *, env=None, flags=(), machine=None):
        """A peer that joins in the foreground of this test; the process is returned."""
        with open(self.directory / f"join-{len(self.processes)}.log", "wb") as log:
            process = subprocess.Popen(on(machine or self.machine, [PRIMECTL, "join", self.up["invite"], "--state-dir",
                                                                    self.directory / f"joiner-{len(self.processes)}",
                                                                    "--local-manifest", self.manifest, *flags]),
                                       env={**self.env, **(env or {})}, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def join_log(self, index):
        return (self.directory / f"join-{index}.log").read_text(errors="replace")

    def status(self):
        out = subprocess.run([str(PRIMECTL), "status", self.up["run_id"], "-o", "json", "--state-dir", str(self.state)], capture_output=True,
                             text=True, timeout=LIMIT_S, check=False)
        return json.loads(out.stdout)

    def journal(self, path):
        return self.journals.setdefault(path, Journal(path)).lines()

    def coordinator(self):
        return self.journal(self.run_directory / "coordinator" / "journal.jsonl")

    def peer_journals(self):
        """By peer directory, all peers of this machine: those of `up` and the joiners'."""
        found = {}
        for path in self.directory.glob("*/*/peers/*/journal.jsonl"):  # not deeper: checkpoints come and go there
            found[path.parent.name] = self.journal(path)
        return found

    def trainer_logs(self):
        """What the trainers of `up` printed, one after the other."""
        return "".join(path.read_text(errors="replace") for path in self.run_directory.glob("peers/*/trainer.log"))

    def events(self, name):
        return [line for line in self.coordinator() if line["event"] == name]

    def wait_for(self, name, count=1, **fields):
        """Waits until the coordinator has recorded `count` such events."""
        def enough():
            matching = [e for e in self.events(name) if all(e.get(k) == v for k, v in fields.items())]
            return matching if len(matching) >= count else None
        return wait_until(f"{count} × {name} {fields}", enough)

    def wait_until_held(self):
        """Until each peer of this machine has applied all that is committed before the held step: a state fetched now is not overtaken."""
        last = int(str(self.held_at).split(".")[0]) - 1

        def applied(lines):
            return any(line["event"] == "outer_step_committed" and line["outer_step"] == last for line in lines)
        wait_until(f"outer step {self.held_at}", lambda: (found := self.peer_journals()) and all(applied(lines) for lines in found.values()))

    def go_on(self, until=""):
        """The trainers of `held_after` do, and stay behind that outer step; `held_at` goes on to hold."""
        told = self.hold.with_suffix(".new")
        told.write_text(str(until))
        told.rename(self.hold)

    def release(self, members):
        """Lets go the held outer step, once so many peers were admitted in all."""
        wait_until(f"{members} members", lambda: len({e["peer"] for e in self.events("peer_admitted")}) >= members)
        self.hold.unlink()

    def wait_for_end(self):
        """Waits until the coordinator and all agents of `up` have ended; the coordinator's exit code."""
        guard = self.guard()
        wait_until("the coordinator's end", lambda: not self.ours(guard))
        last = self.events("process_ended")
        for peer in self.up["peers"]:
            wait_until(f"the end of {peer['name']}", lambda pid=peer["pid"]: not self.ours(pid))
        return last[-1]["exit_code"]

    def check(self, *, outer_steps=None, lost=0):
        """The oracle: one lineage, equal bits, true divisors, named losses."""
        peers = self.peer_journals()  # before the coordinator's, which is ahead of them in a run that goes on
        coordinator = self.coordinator()
        commits = []  # of the lineage that stands
        for line in coordinator:
            if line["event"] == "outer_step_committed":
                commits.append(line)
                assert self.decoupled or line["revision"] == self.fragments * len(commits), "law 2: revisions follow one another"
            if line["event"] == "rolled_back":
                commits = commits[:line["outer_step"]]
                assert commits[-1]["digest"] == line["digest"], "a rollback leads to the bits that were committed"
        if outer_steps is not None:
            assert len(commits) == outer_steps, f"{len(commits)} of {outer_steps} outer steps were committed"
        said = {}  # by each peer and step; a trainer that was started again has less of some fragments
        weight = 0  # of the last round
        for line in coordinator:
            if line["event"] == "peer_ready":
                said.setdefault(line["peer"], {}).setdefault(line["outer_step"], set()).add(line["weight"])
            if line["event"] == "round_committed":
                weight = sum(line["weights"])
                for peer, brought in zip(line["contributors"], line["weights"], strict=True):
                    of_step = said[peer].get(line["version"]) or said[peer][max(said[peer])]  # a late one said it of an earlier step
                    assert brought in of_step - {0}, f"law 4: {peer} weighs {brought}, and said {said[peer]}"
            if line["event"] == "outer_step_committed":
                assert weight == line["weight"], f"law 4: weight {line['weight']}, contributors bring {weight}"
                assert len(line["contributors"]) >= 1
        told_of = {(c["epoch"], c["revision"]): c for c in coordinator if c["event"] == "outer_step_committed"}
        seen = 0
        for name, lines in peers.items():
            for line in lines:
                if line["event"] != "outer_step_committed":
                    continue
                seen += 1
                told = told_of.get((line["epoch"], line["revision"]))
                assert told, f"law 2: {name} applied revision {line['revision']} that was not committed"
                for field in ("digest", "contributors", "weight"):
                    assert line[field] == told[field], f"law 3: {name} revision {line['revision']}: {field} {line[field]} against {told[field]}"
        assert seen > 0 or not commits, "no peer recorded a commit"
        gone = [line for line in coordinator if line["event"] == "peer_lost"]
        assert len(gone) == lost, f"{len(gone)} peers were lost, {lost} expected: {[g['reason'] for g in gone]}"
        assert all(g["reason"] for g in gone), "each loss names its cause"
        return commits
