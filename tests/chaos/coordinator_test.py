"""SIGKILL of the coordinator: it comes back by itself, and the run goes on with the same bits. Where nobody starts it again, or it is
frozen, every peer ends by itself with a named error, its state saved."""

import contextlib
import json
import os
import pathlib
import random
import re
import shlex
import signal
import socket
import subprocess
import unittest

from prime_run import LIMIT_S, PRIMECTL, Run, wait_until

STEPS = 40
SLOW = {"PRIME_QUADRATIC_DELAY_MS": "5", "PRIME_QUADRATIC_ELEMENTS": "300000"}


def uninterrupted():
    with Run(3, outer_steps=STEPS, env=SLOW) as run:
        assert run.wait_for_end() == 0
        return {c["revision"]: c["digest"] for c in run.check(outer_steps=STEPS)}


def bound(listener, address):
    try:
        listener.bind(address)
    except OSError:
        return False
    return True


class CoordinatorKilled(unittest.TestCase):
    def kill(self, run):
        """Kills the coordinator, and waits until another one serves the run."""
        before = run.coordinator_pid()
        with_members = len(run.events("coordinator_restarted"))
        os.kill(before, signal.SIGKILL)
        wait_until("the coordinator's return", lambda: run.coordinator_pid() != before and
                   (len(run.events("coordinator_restarted")) > with_members or run.events("run_done")))

    def test_the_run_goes_on_with_the_same_bits(self):
        digests = uninterrupted()
        for seed in range(int(os.environ.get("PRIME_CHAOS_RUNS", "3"))):
            moments = random.Random(seed)
            with Run(3, outer_steps=STEPS, held_at=STEPS, dead_after="20s", env=SLOW) as run:
                for step in (3, 12, 13, 25):
                    run.wait_for("outer_step_committed", step)
                    # In the middle of inner steps, of a reduce, of a vote: at any moment of a step.
                    wait_until("a moment of the step", lambda: moments.random() < 0.2)
                    self.kill(run)
                run.hold.unlink()
                self.assertEqual(run.wait_for_end(), 0, f"seed {seed}")
                commits = run.check(outer_steps=STEPS)
                self.assertEqual({c["revision"]: c["digest"] for c in commits}, digests, f"seed {seed}")
                self.assertEqual({c["epoch"] for c in commits}, {commits[0]["epoch"]}, "nobody was lost, so the view stays")
                restarted = run.events("coordinator_restarted")
                self.assertEqual(len(restarted), 4)
                self.assertEqual(run.events("peer_lost"), [])
                status = run.status()
                self.assertEqual(status["run"]["state"], "done")

    def test_one_that_stood_still_loses_nobody(self):
        with Run(3, outer_steps=60, held_at=60, dead_after="5s", grace="1min", env=SLOW) as run:
            run.wait_for("outer_step_committed", 3)
            os.kill(run.coordinator_pid(), signal.SIGSTOP)
            for name, lines in run.peer_journals().items():
                wait_until(f"{name} to look for it", lambda name=name: any(line["event"] == "coordinator_lost" for line in run.peer_journals()[name]))
            os.kill(run.coordinator_pid(), signal.SIGCONT)
            run.hold.unlink()
            self.assertEqual(run.wait_for_end(), 0)
            commits = run.check(outer_steps=60)
            self.assertEqual(len(commits[-1]["contributors"]), 3)

    def test_one_that_is_killed_while_the_run_finishes_ends_it_well(self):
        for seed in range(int(os.environ.get("PRIME_CHAOS_RUNS", "3"))):
            moments = random.Random(seed)
            with Run(3, outer_steps=3, dead_after="20s", env={"PRIME_QUADRATIC_ELEMENTS": "1000000"}) as run:
                run.wait_for("outer_step_committed", 3)
                wait_until("a moment of the end", lambda: moments.random() < 0.3)
                if run.ours(run.coordinator_pid()):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(run.coordinator_pid(), signal.SIGKILL)
                self.assertEqual(run.wait_for_end(), 0, f"seed {seed}")
                run.check(outer_steps=3)
                for name, lines in run.peer_journals().items():
                    self.assertEqual(lines[-1]["exit_code"], 0, f"seed {seed}: {name}: {lines[-1]}")

    def test_an_obstacle_that_goes_away_is_waited_out(self):
        with Run(2, outer_steps=100, dead_after="20s", env=SLOW) as run:
            run.wait_for("outer_step_committed", 2)
            host, port = run.up["coordinator"]["address"].rsplit(":", 1)
            os.kill(run.guard(), signal.SIGSTOP)
            os.kill(run.coordinator_pid(), signal.SIGKILL)
            wait_until("the coordinator's end", lambda: not run.ours(run.coordinator_pid()))
            with socket.socket() as taken:
                taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                wait_until("the port", lambda: bound(taken, (host, int(port))))
                taken.listen()
                starts = len(run.events("process_started"))
                os.kill(run.guard(), signal.SIGCONT)
                run.wait_for("process_started", starts + 2)  # it has failed, and tries again
                kept = "the coordinator, which is kept from going on: cannot listen at this address"
                wait_until("a status that tells it", lambda: (run.status()["run"]["waiting_for"] or "").startswith(kept))
            self.assertEqual(run.wait_for_end(), 0)
            run.check(outer_steps=100)

    def test_down_ends_a_guard_that_waits_for_an_obstacle_to_go_away(self):
        with Run(2, outer_steps=5000, dead_after="20s", env=SLOW) as run:
            run.wait_for("outer_step_committed", 2)
            guard = run.guard()
            decisions = run.run_directory / "coordinator" / "decisions.json"
            os.kill(guard, signal.SIGSTOP)
            os.kill(run.coordinator_pid(), signal.SIGKILL)
            wait_until("the coordinator's end", lambda: not run.ours(run.coordinator_pid()))
            decisions.write_text("{")
            os.kill(guard, signal.SIGCONT)
            wait_until("a status that tells it", lambda: "kept from going on" in (run.status()["run"]["waiting_for"] or ""))
            done = subprocess.run([PRIMECTL, "down", run.up["run_id"], "--state-dir", run.state], capture_output=True, text=True, timeout=LIMIT_S,
                                  check=False)
            self.assertIn("ended 2 peers and the coordinator", done.stdout, done.stderr)
            wait_until("the guard's end", lambda: not run.ours(guard))
            self.assertFalse(any(run.ours(peer["pid"]) for peer in run.up["peers"]))

    def test_a_log_that_cannot_be_opened_for_a_while_is_waited_out(self):
        with Run(2, outer_steps=60, dead_after="20s", env=SLOW) as run:
            run.wait_for("outer_step_committed", 2)
            guard = run.guard()
            log = run.run_directory / "coordinator" / "coordinator.log"
            log.unlink()
            log.mkdir()
            slept = self.sleeps(guard)
            os.kill(run.coordinator_pid(), signal.SIGKILL)
            wait_until("the guard's second try", lambda: not run.ours(guard) or self.sleeps(guard) >= slept + 3)
            log.rmdir()
            run.wait_for("coordinator_restarted")
            self.assertEqual(run.wait_for_end(), 0)
            run.check(outer_steps=60)

    @staticmethod
    def sleeps(pid):
        """How often a process has waited for something."""
        try:
            return int(re.search(r"voluntary_ctxt_switches:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])
        except OSError:
            return 0

    def test_one_that_is_killed_again_and_again_is_given_up_by_its_name(self):
        with Run(2, outer_steps=5000, grace="2s", env=SLOW) as run:
            run.wait_for("outer_step_committed", 1)
            guard = run.guard()

            def given_up():
                if run.ours(guard) and run.ours(run.coordinator_pid()):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(run.coordinator_pid(), signal.SIGKILL)
                return not run.ours(guard)

            wait_until("the guard's end", given_up)
            reason = run.status()["run"]["reason"]
            self.assertRegex(reason, "^the coordinator was lost: 10 restarts within .*; the last cause: the coordinator was lost: killed by SIGKILL")
            self.assertNotIn("trainer", reason)

    def test_without_its_decisions_it_refuses_to_guess(self):
        with Run(2, outer_steps=5000, dead_after="4s", grace="2s", env=SLOW) as run:
            run.wait_for("outer_step_committed", 2)
            os.kill(run.guard(), signal.SIGSTOP)
            os.kill(run.coordinator_pid(), signal.SIGKILL)
            (run.run_directory / "coordinator" / "decisions.json").unlink()
            guard = run.guard()
            os.kill(guard, signal.SIGCONT)
            wait_until("the guard's end", lambda: not run.ours(guard))
            for peer in run.up["peers"]:
                wait_until(f"the end of {peer['name']}", lambda pid=peer["pid"]: not run.ours(pid))
            run.check()
            status = run.status()["run"]
            self.assertEqual(status["state"], "failed")
            self.assertIn("decisions.json is gone", status["reason"])

    def test_a_peer_that_dies_meanwhile_is_lost_and_the_others_go_on(self):
        with Run(3, outer_steps=20, held_after=3, dead_after="20s", env=SLOW) as run:
            run.wait_for("outer_step_committed", 3)
            os.kill(run.up["peers"][0]["pid"], signal.SIGKILL)
            os.kill(run.coordinator_pid(), signal.SIGKILL)
            run.go_on()
            self.assertEqual(run.wait_for_end(), 0)
            commits = run.check(outer_steps=20, lost=1)
            self.assertEqual(len(commits[-1]["contributors"]), 2)

    def test_a_loss_that_was_decided_but_not_recorded_any_more_is_told_by_the_next_one(self):
        with Run(3, outer_steps=60, env=SLOW) as run:
            run.wait_for("outer_step_committed", 2)
            os.kill(run.guard(), signal.SIGSTOP)
            os.kill(run.up["peers"][0]["pid"], signal.SIGKILL)
            run.wait_for("peer_lost")
            os.kill(run.coordinator_pid(), signal.SIGKILL)
            wait_until("the coordinator's end", lambda: not run.ours(run.coordinator_pid()))  # until then it writes
            # As if it had been killed between the decision and its record.
            path = run.run_directory / "coordinator" / "journal.jsonl"
            path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if '"event":"peer_lost"' not in line))
            self.assertEqual(run.events("peer_lost"), [])
            os.kill(run.guard(), signal.SIGCONT)
            self.assertEqual(run.wait_for_end(), 0)
            run.check(outer_steps=60, lost=1)
            self.assertIn("just before the coordinator ended", run.events("peer_lost")[0]["reason"])

    def test_a_joiner_that_was_on_its_way_takes_its_seat_anew(self):
        with Run(2, outer_steps=60, held_at=40, env=SLOW) as run:
            run.wait_for("outer_step_committed", 2)
            joiner = run.join()
            run.wait_for("peer_joining", 3)
            self.kill(run)
            run.release(3)
            self.assertEqual(run.wait_for_end(), 0)
            wait_until("the joiner's end", lambda: joiner.poll() is not None)
            self.assertEqual(joiner.returncode, 0, run.join_log(0))
            commits = run.check(outer_steps=60)
            self.assertEqual(len(commits[-1]["contributors"]), 3)


class CoordinatorLost(unittest.TestCase):
    def lose(self, strike, grace="2s"):
        with Run(3, outer_steps=5000, dead_after="4s", grace=grace, env={"PRIME_QUADRATIC_DELAY_MS": "5"}) as run:
            run.wait_for("outer_step_committed", 3)
            strike(run)
            for peer in run.up["peers"]:
                wait_until(f"the end of {peer['name']}", lambda pid=peer["pid"]: not run.ours(pid))
            revisions = set()
            for name, lines in run.peer_journals().items():
                ended = lines[-1]
                self.assertEqual(ended["event"], "process_ended")
                self.assertIn("coordinator was lost", ended["reason"])
                self.assertEqual(ended["exit_code"], 1)
                saved = [line for line in lines if line["event"] == "checkpoint_written"]
                self.assertEqual(len(saved), 1, f"{name} saved its state")
                state = json.loads((pathlib.Path(saved[0]["path"]) / "prime" / "state.json").read_text())
                revisions.add(json.dumps(state, sort_keys=True))
            # All stand at the last commit that they heard of: the same one, or two that follow each other.
            self.assertLessEqual(len(revisions), 2)
            state = run.status()["run"]["state"]
            if state == "failed":
                seen = subprocess.run([str(PRIMECTL), "status", run.up["run_id"], "--state-dir", str(run.state)], capture_output=True, text=True,
                                      timeout=LIMIT_S, check=False)
                self.assertIn(f"--from {run.up['run_id']}", seen.stdout, "the way on")
            return state

    def test_killed_with_its_guard(self):
        def strike(run):
            guard = run.guard()
            os.kill(guard, signal.SIGKILL)  # the coordinator ends with it
            wait_until("the coordinator's end", lambda: not run.ours(run.coordinator_pid()))
            wait_until("a status that tells it", lambda: "and its guard with it" in (run.status()["run"]["waiting_for"] or ""))
            self.assertIsNone(run.status()["coordinator"]["pid"], "no dead process is shown as one that lives")
        self.assertEqual(self.lose(strike, grace="12s"), "failed")

    def test_frozen(self):
        self.lose(lambda run: os.kill(run.coordinator_pid(), signal.SIGSTOP))

    def joiner_says(self, strike, reason):
        """What a person sees who has joined in the foreground, from the loss on."""
        with Run(2, outer_steps=5000, dead_after="4s", grace="3s", env={"PRIME_QUADRATIC_DELAY_MS": "5"}) as run:
            joiner = run.join(flags=("--name", "ada"))
            wait_until("its first step", lambda: "Committed" in run.join_log(0))
            strike(run)
            at = re.escape(re.search(r"prime://([^/]+)/", run.up["invite"])[1].split(",")[0])
            wait_until("its word", lambda: re.search(
                rf"Waiting for the coordinator at .*{at}.*: {reason}.* \(since \d\d:\d\d:\d\dZ, until \d\d:\d\d:\d\dZ\); then this peer saves what it holds", run.join_log(0)))
            wait_until("its end", lambda: joiner.poll() is not None)
            log = run.join_log(0)
            self.assertEqual(joiner.returncode, 1, log)
            self.assertNotIn("FILE", log)
            line = re.search(r"(?m)^hint: when the run is served again, this `join` takes part in it anew; `(.+)` goes on from outer step \d+, which is in (.+)$", log)
            self.assertIsNotNone(line, log)
            self.assertIn("/checkpoints/step-", line[2])
            self.assertTrue(pathlib.Path(line[2]).is_dir())
            # The line leads there, on: a run of one, which ends at once.
            words = [str(PRIMECTL), *shlex.split(line[1])[1:], "-d", "-o", "json", "--set", "membership.peers=1..8", "--set",
                     f"local.trainer_command=[{run.env['PRIME_BIN']}/quadratic_trainer]"]
            done = subprocess.run(words, env=run.env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            again = json.loads(done.stdout)["run_id"]
            state = pathlib.Path(json.loads(done.stdout)["state_dir"]).parent
            subprocess.run([str(PRIMECTL), "down", again, "--state-dir", str(state)], capture_output=True, timeout=LIMIT_S, check=True)

    def test_a_joiner_in_the_foreground_says_at_once_whom_it_waits_for(self):
        def kill_both(run):
            os.kill(run.guard(), signal.SIGKILL)
        self.joiner_says(kill_both, "its connection closed")

    def test_a_joiner_in_the_foreground_says_so_of_one_that_stands_still(self):
        self.joiner_says(lambda run: os.kill(run.coordinator_pid(), signal.SIGSTOP), "silent for")

    def test_one_that_stood_still_is_told_in_the_step_that_it_delayed(self):
        with Run(2, outer_steps=60, dead_after="20s", env={"PRIME_QUADRATIC_DELAY_MS": "5"}, foreground=True) as run:
            run.wait_for("outer_step_committed", 3)
            pid = run.coordinator_pid()
            os.kill(pid, signal.SIGSTOP)
            with self.assertRaises(subprocess.TimeoutExpired):
                subprocess.run(["tail", "-f", "/dev/null"], timeout=3, check=False)
            os.kill(pid, signal.SIGCONT)
            (stood,) = run.wait_for("coordinator_stood_still")
            self.assertGreaterEqual(stood["for_s"], 2)
            self.assertEqual(run.wait_for_end(), 0)
            wait_until("the end of `up`", lambda: run.attended.poll() is not None)


if __name__ == "__main__":
    unittest.main(verbosity=2)
