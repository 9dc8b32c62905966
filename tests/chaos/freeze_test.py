"""SIGSTOP: evicted at the deadline, the run goes on; refused as stale after SIGCONT, and there again as a new peer."""

import contextlib
import os
import shlex
import signal
import subprocess
import unittest

from prime_run import LIMIT_S, PRIMECTL, Run, wait_until


@contextlib.contextmanager
def evicted_while_frozen():
    """A run of three, one of which is frozen and lost its seat: the run, that process, and the id that it had."""
    with Run(2, outer_steps=5000, dead_after="4s", up_flags=["--quorum", "3"], env={"PRIME_QUADRATIC_DELAY_MS": "5"}) as run:
        peer = run.join()
        run.wait_for("outer_step_committed", 2)
        os.kill(peer.pid, signal.SIGSTOP)
        yield run, peer, run.wait_for("peer_lost")[0]["peer"]


class Freeze(unittest.TestCase):
    def test_a_frozen_peer_is_evicted_and_refused_as_stale_when_it_thaws(self):
        with Run(2, outer_steps=10, dead_after="4s", held_after=2, up_flags=["--quorum", "3"]) as run:
            victim = run.join()
            run.wait_for("outer_step_committed", 2)
            agent = victim.pid
            os.kill(agent, signal.SIGSTOP)
            lost = run.wait_for("peer_lost")
            self.assertIn("no heartbeat", lost[0]["reason"])
            run.go_on()
            self.assertEqual(run.wait_for_end(), 0)
            commits = run.check(outer_steps=10, lost=1)
            self.assertEqual(len(commits[-1]["contributors"]), 2)
            os.kill(agent, signal.SIGCONT)
            wait_until("the thawed peer's end", lambda: victim.poll() is not None)
            self.assertIn(victim.returncode, (4, 1), run.join_log(0))
            self.assertRegex(run.join_log(0), "evicted.*(?s:.*)joining anew, which failed|coordinator was lost")
            if "evicted" in run.join_log(0).split("error:")[-1]:
                self.assertRegex(run.join_log(0).splitlines()[-1], r"^hint: `\S+ join INVITE .*--state-dir \S+`, with the invite that it had .*, takes part again")

    def test_a_joiner_whose_donor_is_frozen_is_given_the_state_by_another_one_and_keeps_its_seat(self):
        # 8 MB of state, of which a donor sends 1.25 MB/s.
        with Run(3, outer_steps=2, held_at=2, dead_after="4s", deadline="20s", env={"PRIME_QUADRATIC_ELEMENTS": "1000000"},
                 up_flags=("--quorum", "3", "--set", "local.network.cap=10Mbit/s", "--set", "local.network.shared_memory=false")) as run:
            run.wait_until_held()
            joiner = run.join()
            donor = run.wait_for("peer_fetching")[0]["donor"]
            frozen = next(peer["pid"] for peer in run.up["peers"] if peer["name"] == donor)
            os.kill(frozen, signal.SIGSTOP)
            self.assertEqual(run.wait_for("peer_lost")[0]["name"], donor)
            run.wait_for("peer_admitted", 4)
            run.hold.unlink()
            wait_until("the joiner's end", lambda: joiner.poll() is not None)
            self.assertEqual(joiner.returncode, 0, run.join_log(0))
            self.assertEqual([line["attempt"] for line in run.events("peer_fetching")], [1, 2])
            os.kill(frozen, signal.SIGCONT)
            self.assertEqual(run.wait_for_end(), 0)
            run.check(outer_steps=2, lost=1)

    def test_the_command_that_brings_an_evicted_peer_back_is_named_here_and_there(self):
        with evicted_while_frozen() as (run, peer, _):
            seen = subprocess.run([str(PRIMECTL), "status", run.up["run_id"], "--state-dir", str(run.state)], capture_output=True, text=True,
                                  timeout=LIMIT_S, check=False).stdout
            name = run.events("peer_lost")[0]["name"]
            self.assertIn(f"\n{name} is lost, and may come back by itself; else, on its machine, by\n", seen)
            line = seen.rstrip().splitlines()[-1].strip()
            self.assertEqual(shlex.split(line)[1:], ["join", run.up["invite"], "--name", name])
            # Nothing of it is left, as after a power cut: that very line brings it back.
            peer.kill()
            back = subprocess.Popen([str(PRIMECTL), *shlex.split(line)[1:], "--state-dir", str(run.directory / "back"), "--local-manifest", str(run.manifest)],
                                    env=run.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            run.processes.append(back)
            wait_until("a step of all three", lambda: len(run.events("outer_step_committed")[-1]["contributors"]) == 3)
            seen = subprocess.run([str(PRIMECTL), "status", run.up["run_id"], "--state-dir", str(run.state)], capture_output=True, text=True,
                                  timeout=LIMIT_S, check=False).stdout
            self.assertNotIn("is lost", seen)

    def test_a_thawed_peer_of_a_living_run_is_refused_as_stale_and_joins_anew(self):
        with evicted_while_frozen() as (run, peer, lost):
            os.kill(peer.pid, signal.SIGCONT)
            anew = run.wait_for("peer_admitted", 4)[-1]["peer"]
            self.assertNotEqual(anew, lost)
            wait_until("a step of all three", lambda: len(run.events("outer_step_committed")[-1]["contributors"]) == 3)
            self.assertRegex(run.join_log(0), "Rejoining as a new peer: no heartbeat")
            # The second life obeys as the first did.
            peer.send_signal(signal.SIGTERM)
            wait_until("the peer's end", lambda: peer.poll() is not None)
            self.assertEqual(peer.returncode, 0, run.join_log(0))
            run.check(lost=1)

    def test_who_is_told_to_end_while_it_is_evicted_does_not_join_anew(self):
        with evicted_while_frozen() as (run, peer, _):
            os.kill(peer.pid, signal.SIGTERM)
            os.kill(peer.pid, signal.SIGCONT)
            wait_until("the peer's end", lambda: peer.poll() is not None)
            self.assertIn(peer.returncode, (0, 4), run.join_log(0))
            self.assertEqual(len(run.events("peer_joining")), 3)

    def test_who_joins_anew_waits_for_a_coordinator_that_is_killed_just_then(self):
        with evicted_while_frozen() as (run, peer, _):
            os.kill(peer.pid, signal.SIGCONT)
            wait_until("the first life's end", lambda: [line for lines in run.peer_journals().values() for line in lines
                                                        if line["event"] == "peer_ended"])
            os.kill(run.coordinator_pid(), signal.SIGKILL)
            run.wait_for("coordinator_restarted")
            wait_until("a step of all three", lambda: len(run.events("outer_step_committed")[-1]["contributors"]) == 3)
            self.assertIsNone(peer.poll(), run.join_log(0))
            run.check(lost=1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
