"""Runs under each algorithm to which anything happens, by seed: agents, trainers and the coordinator are killed, processes are frozen for a moment,
connections are cut, peers come and leave. Whatever it was, the run comes to its end, nobody ends by a fault of the program, all hold the same bits,
and each version is what a replay makes of what the peers brought.

PRIME_MONKEY_SEEDS=1..20 plays those instead of one for each algorithm; PRIME_MONKEY_ALGORITHMS="eager delayed" only these."""

import os
import pathlib
import random
import re
import signal
import subprocess
import time
import unittest

from fragments_test import ELEMENTS, TENSORS
from prime_run import LIMIT_S, PRIMECTL, Run, wait_until
from reconnect_test import Proxy

ALGORITHMS = {"diloco": {}, "delayed": {"sync.overlap": 8}, "eager": {}, "streaming": {"sync.overlap": 2}, "decoupled": {"sync.quorum": 2, "sync.grace": "50ms"}}
ENV = {"PRIME_QUADRATIC_TENSORS": str(TENSORS), "PRIME_QUADRATIC_ELEMENTS": str(ELEMENTS), "PRIME_QUADRATIC_DELAY_MS": "5",
       "PRIME_QUADRATIC_SPREAD": "1"}
STEPS = 40
CODECS = ("none", "int8", "int4")


class Monkey:
    def __init__(self, run, proxy, draw):
        self.run, self.proxy, self.draw = run, proxy, draw
        self.peers = []  # joiners that nobody has killed
        self.done = []
        self.join()
        self.join()

    def join(self):
        if len(self.peers) < 4:
            self.peers.append(self.run.join())

    def kill(self):
        if len(self.peers) > 1:
            victim = self.peers.pop(self.draw.randrange(len(self.peers)))
            victim.kill()
            victim.wait()
            self.join()

    def leave(self):
        if len(self.peers) > 1:
            self.draw.choice(self.peers).send_signal(signal.SIGTERM)

    def freeze(self, pid):
        try:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self.draw.uniform(0.05, 1))
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def freeze_peer(self):
        self.freeze(self.draw.choice(self.run.up["peers"])["pid"])

    def freeze_coordinator(self):
        self.freeze(self.run.coordinator_pid())

    def kill_coordinator(self):
        restarts = len(self.run.events("coordinator_restarted"))
        pid = self.run.coordinator_pid()
        if self.run.ours(pid):
            os.kill(pid, signal.SIGKILL)
            wait_until("the coordinator", lambda: len(self.run.events("coordinator_restarted")) > restarts or not self.run.ours(self.run.guard()))

    def kill_trainer(self):
        lines = self.draw.choice(list(self.run.peer_journals().values()))
        pids = [line["trainer_pid"] for line in lines if line["event"] == "trainer_bound"]
        if pids and "quadratic_trainer" in self.command_of(pids[-1]) and len(pids) < 3:  # which is as often as the manifest lets it
            os.kill(pids[-1], signal.SIGKILL)

    def cut(self):
        self.proxy.ask("cut")

    @staticmethod
    def command_of(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
        except OSError:
            return ""

    def play(self):
        actions = [self.cut, self.cut, self.join, self.kill, self.leave, self.freeze_peer, self.freeze_coordinator, self.kill_coordinator, self.kill_trainer]
        while not self.run.events("run_done") and self.run.ours(self.run.guard()):
            action = self.draw.choice(actions)
            self.done.append(action.__name__)
            action()
            time.sleep(self.draw.uniform(0, 0.7))


class Monkeys(unittest.TestCase):
    def play(self, algorithm, seed):
        draw = random.Random(f"{algorithm} {seed}")
        fragments = draw.choice((2, 4)) if algorithm in ("streaming", "decoupled") else draw.choice((1, 4)) if algorithm == "diloco" else 1
        keys = {"checkpoint.keep_contributions": "true", "sync.wire.codec": draw.choice(CODECS), **ALGORITHMS[algorithm]}
        if keys["sync.wire.codec"] == "int4":
            keys["sync.wire.feedback"] = "true"
        flags = ["--quorum", "2", *(word for key, value in keys.items() for word in ("--set", f"{key}={value}"))]
        with Run(2, up_flags=flags, env=ENV, algorithm=algorithm, fragments=fragments, in_flight=2, outer_steps=STEPS, inner_steps=8, lr=0.4, momentum=0.5) as run:
            at = re.search(r"prime://([^/]+)/", run.up["invite"])[1]
            with Proxy(at) as proxy:
                run.up["invite"] = run.up["invite"].replace(at, proxy.address)
                monkey = Monkey(run, proxy, draw)
                monkey.play()
                self.assertEqual(run.wait_for_end(), 0, monkey.done)
                for peer in monkey.peers:
                    wait_until("a joiner's end", lambda peer=peer: peer.poll() is not None)
            self.judge(run, monkey)

    def judge(self, run, monkey):
        run.check(outer_steps=STEPS, lost=len(run.events("peer_lost")))
        for log in [*run.directory.glob("*.log"), *run.directory.glob("*/*/peers/*/*.log"), *run.directory.glob("*/*/coordinator/*.log")]:
            self.assertNotRegex(log.read_text(errors="replace"), "broken invariant|PR0001|PR0507|Sanitizer", f"{log}: {monkey.done}")
        for lines in [run.coordinator(), *run.peer_journals().values()]:
            for line in lines:
                self.assertNotRegex(str(line.get("reason", "")), "PR0001|PR0507", f"{line}: {monkey.done}")
        replay = subprocess.run([PRIMECTL, "replay", run.up["run_id"], "--state-dir", run.state, "--contributions", run.directory], capture_output=True,
                                text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(replay.returncode, 0, f"{replay.stdout}{replay.stderr}{monkey.done}")

    def test_whatever_happens(self):
        first, last = (int(seed) for seed in os.environ.get("PRIME_MONKEY_SEEDS", "1..1").split(".."))
        for seed in range(first, last + 1):
            for algorithm in os.environ.get("PRIME_MONKEY_ALGORITHMS", " ".join(ALGORITHMS)).split():
                with self.subTest(algorithm=algorithm, seed=seed):
                    self.play(algorithm, seed)


if __name__ == "__main__":
    unittest.main(verbosity=2)
