"""The connection of a peer to its coordinator breaks, and the peer lives: it keeps its seat and its work. One that was killed is known at once all the same."""

import contextlib
import os
import re
import signal
import subprocess
import unittest

from prime_run import BIN, BULKY, Run, wait_until

LIMIT_S = 60


class Proxy:
    """The fault-proxy between one peer and the coordinator."""

    def __init__(self, target):
        self.process = subprocess.Popen([BIN / "fault-proxy", "--listen", "127.0.0.1:0", "--target", target], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        self.address = self.process.stdout.readline().removeprefix("listening at ").strip()

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        answer = self.process.stdout.readline().strip()
        assert answer == "ok", answer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()


class Reconnect(unittest.TestCase):
    @contextlib.contextmanager
    def swarm(self, peers=2, **manifest):
        """`up`'s peers, and one behind a proxy whose trainer tells of each inner step. All are members from the first step on."""
        with Run(peers, up_flags=("--quorum", str(peers + 1)), **manifest) as run:
            at = re.search(r"prime://([^/]+)/", run.up["invite"])[1]
            with Proxy(at) as proxy:
                run.up["invite"] = run.up["invite"].replace(at, proxy.address)
                yield run, proxy

    def join(self, run, **env):
        self.trace = run.directory / "trace"
        self.hold_one = run.directory / "hold-one"
        self.hold_one.touch()
        run.join(env={"PRIME_QUADRATIC_TRACE": str(self.trace), "PRIME_QUADRATIC_HELD_BY": str(self.hold_one), **env}, flags=("--name", "far"))

    def far(self, run, name):
        """What the peer behind the proxy has recorded of that kind."""
        return [line for peer, lines in run.peer_journals().items() if peer.startswith("far-") for line in lines if line["event"] == name]

    def breaks_and_heals(self, run, proxy, how):
        returned = len(run.events("peer_returned"))
        proxy.ask(how)
        self.assertEqual(run.wait_for("peer_returned", returned + 1)[-1]["name"], "far")
        self.assertEqual(self.far(run, "coordinator_back")[-1]["event"], "coordinator_back")

    def nobody_began_anew(self, run, outer_steps):
        self.assertEqual(run.wait_for_end(), 0)
        wait_until("the joiner's end", lambda: run.processes[0].poll() is not None)
        self.assertEqual(run.processes[0].returncode, 0, run.join_log(0))
        commits = run.check(outer_steps=outer_steps)
        self.assertTrue(all(len(commit["contributors"]) == 3 for commit in commits), commits)
        self.assertEqual(run.events("peer_refused"), [])
        self.assertEqual(len(run.events("peer_admitted")), 3)
        self.assertEqual(len({event["trainer_pid"] for event in run.events("peer_ready") if event["name"] == "far"}), 1)
        self.assertEqual(self.far(run, "trainer_restarting"), [])
        done = [line.split() for line in self.trace.read_text().splitlines()]
        self.assertEqual(len({pid for pid, _, _ in done}), 1)
        self.assertEqual([(int(outer), int(inner)) for _, outer, inner in done],
                         [(outer, inner) for outer in range(1, outer_steps + 1) for inner in range(4)], "each inner step once")
        self.assertEqual({peer["digest"] for peer in run.status()["peers"]}, {commits[-1]["digest"]})

    def test_in_the_midst_of_a_step(self):
        with self.swarm(outer_steps=5, deadline="1h", stall_limit="1h", dead_after="2min") as (run, proxy):
            self.join(run, PRIME_QUADRATIC_HELD_AT="3")
            run.wait_for("outer_step_begun", outer_step=3)
            wait_until("the step's beginning", lambda: len(self.far(run, "outer_step_begun")) == 3)
            self.breaks_and_heals(run, proxy, "cut")
            self.breaks_and_heals(run, proxy, "cut")
            self.hold_one.unlink()
            self.nobody_began_anew(run, 5)
            self.assertEqual(len(self.far(run, "outer_step_begun")), 5)

    def test_in_the_midst_of_a_reduce(self):
        with self.swarm(outer_steps=4, deadline="1h", stall_limit="1h", dead_after="5min", env=BULKY) as (run, proxy):
            self.join(run, PRIME_QUADRATIC_HELD_AT="2")
            run.wait_for("peer_ready", 2, outer_step=2)
            frozen = run.up["peers"][0]["pid"]
            os.kill(frozen, signal.SIGSTOP)  # the reduce cannot end
            self.hold_one.unlink()
            wait_until("the reduce", lambda: len(self.far(run, "reduce_started")) == 2)
            self.breaks_and_heals(run, proxy, "cut")
            os.kill(frozen, signal.SIGCONT)
            self.nobody_began_anew(run, 4)
            self.assertEqual([event["cause"] for event in run.events("outer_step_aborted")], ["peer_away"])

    def test_when_a_router_has_forgotten_the_connection_and_nobody_hears_of_it(self):
        with self.swarm(outer_steps=4, deadline="1h", stall_limit="1h", dead_after="20s") as (run, proxy):
            self.join(run, PRIME_QUADRATIC_HELD_AT="2")
            wait_until("the step's beginning", lambda: len(self.far(run, "outer_step_begun")) == 2)
            self.breaks_and_heals(run, proxy, "forget")
            self.hold_one.unlink()
            self.nobody_began_anew(run, 4)

    def test_one_that_was_killed_is_lost_at_once(self):
        with self.swarm(outer_steps=6, dead_after="1h", deadline="1h", stall_limit="1h") as (run, proxy):
            self.join(run, PRIME_QUADRATIC_HELD_AT="2")
            wait_until("the step's beginning", lambda: len(self.far(run, "outer_step_begun")) == 2)
            pids = {peer["name"]: peer["pid"] for peer in run.status()["peers"]}
            os.kill(pids["far"], signal.SIGKILL)
            lost = run.wait_for("peer_lost")[0]
            self.assertRegex(lost["reason"], "its process is gone: [0-9.:]+ refuses connections")
            self.assertEqual(run.wait_for_end(), 0)
            run.check(outer_steps=6, lost=1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
