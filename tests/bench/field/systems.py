"""Owns how each system is started, joined and read: a class for each, all with the same words.

`start` starts all three peers, `join` one more; `pids` are the peers' first processes by name; `steps` are the lines of figures.py so far.
"""

import datetime
import json
import pathlib
import socket
import subprocess

from figures import INNER_STEPS, PEERS, read_steps
from processes import LIMIT_S, Stuck, wait_until

HERE = pathlib.Path(__file__).resolve().parent

# What the peers of the others have, too: model.py.
MANIFEST = """version: 1
run: field
model: {{arch: llama, layers: 2, dim: 96, heads: 4, vocab: 256, context: 128}}
data: {{source: text, path: "{data}", tokenizer: bytes}}
train: {{batch: 16, outer_steps: 1000000, optimizer: {{adamw: {{lr: 1e-3}}}}, schedule: {{constant: {{}}}}, evaluate: {{every: 0}}}}
sync: {{algorithm: diloco, inner_steps: {inner}, outer: {{nesterov: {{lr: 0.7, momentum: 0.5}}}}}}
membership: {{peers: 2..8}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Us:
    """prime: the steps are in the journals of the coordinator and of the agents."""

    name = "us"

    def __init__(self, processes, data, programs, _python):
        self.processes, self.programs = processes, programs
        self.folder = processes.folder
        self.manifest = self.folder / "run.yaml"
        self.manifest.write_text(MANIFEST.format(data=data, inner=INNER_STEPS))
        self.pids, self.ids = {}, {}

    def start(self):
        command = [self.programs / "primectl", "up", self.manifest, "--local", str(PEERS), "-d", "-o", "json", "--state-dir", self.folder / "state",
                   "--set", "local.threads=1"]
        done = subprocess.run([str(word) for word in command], env=self.processes.environment(), capture_output=True, text=True,
                              timeout=LIMIT_S, check=False)
        if done.returncode != 0:
            raise Stuck(f"primectl up: exit code {done.returncode}: {done.stderr.strip().splitlines()[-1:]}")
        said = json.loads(done.stdout)
        self.invite, self.run = said["invite"], pathlib.Path(said["state_dir"])
        for peer in said["peers"]:
            self.pids[peer["name"]], self.ids[peer["name"]] = peer["pid"], peer["id"]

    def join(self):
        process = self.processes.start("joiner", [self.programs / "primectl", "join", self.invite, "--name", "joiner", "--state-dir",
                                                  self.folder / "joiner", "--set", "local.threads=1"])
        self.pids["joiner"] = process.pid
        return "joiner"

    def check(self):
        for line in self.journal(self.run / "coordinator" / "journal.jsonl"):
            if line["event"] in ("run_failed", "run_stopped"):
                raise Stuck(f"{line['event']}: {line['reason']}")

    @staticmethod
    def journal(path):
        text = path.read_text() if path.exists() else ""
        lines = [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]
        for line in lines:
            line["t"] = datetime.datetime.fromisoformat(line["t"].replace("Z", "+00:00")).timestamp()
        return lines

    def steps(self):
        """A peer has trained when its contribution is with its agent, ready to be reduced, and resumes when it is told to train on."""
        ready = {}
        for line in self.journal(self.run / "coordinator" / "journal.jsonl"):
            if line["event"] == "peer_ready":
                ready[line["name"], line["outer_step"]] = line["t"]
        found = []
        for path in self.folder.glob("*/*/peers/*/journal.jsonl"):
            found += self.steps_of(path.parent.name.rpartition("-")[0], self.journal(path), ready)
        return found

    @staticmethod
    def steps_of(name, lines, ready):
        found, begun, own = [], {}, None
        for line in lines:
            if line["event"] == "process_started":
                own = line["peer"]
            elif line["event"] == "outer_step_begun":
                begun[line["outer_step"]] = line["t"]
                if found and found[-1]["step"] == line["outer_step"] - 1:
                    found[-1]["resumed"] = line["t"]
            elif line["event"] == "outer_step_committed" and (name, line["outer_step"]) in ready and line["outer_step"] in begun:
                step = line["outer_step"]
                found.append({"peer": name, "step": step, "begun": begun[step], "trained": ready[name, step], "resumed": line["t"],
                              "members": len(line["contributors"]), "contributed": own in line["contributors"], "digest": line["digest"]})
        return found


class Python:
    """What the two others share: peers are programs of this folder, and write their steps themselves."""

    def __init__(self, processes, data, _programs, python):
        self.processes, self.data, self.python = processes, data, python
        self.folder = processes.folder
        self.pids = {}

    def launch(self, name, *more):
        process = self.processes.start(name, [self.python, "-B", HERE / f"peer_{self.name}.py", "--name", name, "--data", self.data, "--events",
                                              self.folder / f"{name}.jsonl", *more])
        self.pids[name] = process.pid

    def peers(self):
        return [f"peer-{index}" for index in range(PEERS)]

    def start(self):
        self.before()
        for name in self.peers():
            self.launch(name, *self.flags())

    def join(self):
        self.launch("joiner", *self.flags())
        return "joiner"

    def check(self):
        self.processes.check()

    def steps(self):
        return [step for path in sorted(self.folder.glob("*.jsonl")) for step in read_steps(path.read_text(), path.name)]


class Torchft(Python):
    name = "torchft"

    def before(self):
        self.address = f"127.0.0.1:{free_port()}"
        lighthouse = pathlib.Path(self.python).with_name("torchft_lighthouse")
        self.processes.start("lighthouse", [lighthouse, "--min_replicas", "2", "--bind", self.address, "--heartbeat_timeout_ms", "5000"])

    def flags(self):
        return ["--lighthouse", f"http://{self.address}"]


class Hivemind(Python):
    name = "hivemind"

    def before(self):
        told = self.folder / "bootstrap.address"
        self.processes.start("bootstrap", [self.python, "-B", HERE / "peer_hivemind.py", "--name", "bootstrap", "--data", self.data, "--events", told,
                                           "--initial", "none"])
        wait_until("address of the DHT", lambda: told.exists() and told.read_text().endswith("\n"), alive=self.check)
        self.address = told.read_text().strip()

    def flags(self):
        return ["--initial", self.address]


ALL = {kind.name: kind for kind in (Us, Torchft, Hivemind)}
