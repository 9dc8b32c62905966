"""What is scarce or wrong: a full disk, a taken port, data that cannot be read; and what idle processes cost."""

import contextlib
import datetime
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

from prime_run import LIMIT_S, PRIMECTL, Run, wait_until

SOURCE = pathlib.Path(os.environ["PRIME_SOURCE"])


def cpu_ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


class Sick(unittest.TestCase):
    """One peer's values are no numbers any more, whenever it comes to that step."""

    def test_a_peer_that_diverges_alike_twice_ends_by_name_and_the_others_go_on(self):
        with Run(2, up_flags=("--quorum", "3"), deadline="1min") as run:
            sick = run.join(env={"PRIME_QUADRATIC_SPOILS": "3"}, flags=("--name", "sick"))
            wait_until("its end", lambda: sick.poll() is not None)
            # Tensor, index, step, inner step; after one restart and no more.
            what = "x[7] of the contribution to outer step 3; the loss of inner step 2 was the first that is not finite"
            self.assertIn(what, run.join_log(0))
            self.assertEqual(sick.returncode, 1)
            (journal,) = [lines for name, lines in run.peer_journals().items() if name.startswith("sick-")]
            restarts = [line for line in journal if line["event"] == "trainer_restarting"]
            self.assertEqual(len(restarts), 1)
            self.assertIn(what, restarts[0]["reason"])
            self.assertEqual(run.wait_for_end(), 0)
            commits = run.check(outer_steps=6, lost=1)
            self.assertEqual([len(commit["contributors"]) for commit in commits], [3, 3, 2, 2, 2, 2])
            lost = run.events("peer_lost")[0]
            self.assertEqual(lost["name"], "sick")
            self.assertIn(what, lost["reason"])
            begun = {event["outer_step"]: datetime.datetime.fromisoformat(event["t"]) for event in run.events("outer_step_begun")}
            for commit in commits:
                waited = datetime.datetime.fromisoformat(commit["t"]) - begun[commit["outer_step"]]
                self.assertLess(waited.total_seconds(), 60, "no longer than one deadline")


class Limits(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="prime-limits-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def small_disk(self, size):
        small = self.folder / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(small)], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", str(small)], check=True)
        return small

    def fill(self, small):
        """Leaves room for journals and decisions, and for no checkpoint."""
        free = shutil.disk_usage(small).free
        (small / "fill").write_bytes(bytes(free - (1 << 20)))

    def disk_to_freeze(self):
        """A file system of its own, which `fsfreeze` can hold: whoever writes there meanwhile cannot even be killed."""
        image, disk = self.folder / "image", self.folder / "disk"
        disk.mkdir()
        with image.open("wb") as file:
            file.truncate(64 << 20)
        subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
        if (mount := subprocess.run(["mount", "-o", "loop", str(image), str(disk)], capture_output=True, text=True, check=False)).returncode != 0:
            self.skipTest(f"no loop device can be mounted here: {mount.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", str(disk)], capture_output=True, check=False)
        return disk

    @contextlib.contextmanager
    def frozen(self, disk):
        subprocess.run(["fsfreeze", "-f", str(disk)], check=True)
        try:
            yield
        finally:
            subprocess.run(["fsfreeze", "-u", str(disk)], capture_output=True, check=False)

    def up(self, *arguments, state=None, env=None):
        return subprocess.run([str(PRIMECTL), "up", *map(str, arguments), "--state-dir", str(state or self.folder / "state")], capture_output=True, text=True,
                              timeout=LIMIT_S, check=False, env={**os.environ, **(env or {})})

    def test_idle_processes_burn_less_than_two_percent_of_a_core(self):
        # Two of three peers: both wait for the third. CPU time, not speed: it does not depend on how busy the machine is.
        with Run(2, up_flags=["--quorum", "3"], beat="2s", dead_after="10s") as run:
            run.wait_for("peer_seated", 2)
            pids = [run.up["coordinator"]["pid"], *(peer["pid"] for peer in run.up["peers"])]
            before = {pid: cpu_ticks(pid) for pid in pids}
            clock = os.sysconf("SC_CLK_TCK")
            waited = 5
            with self.assertRaises(subprocess.TimeoutExpired):
                subprocess.run(["tail", "-f", "/dev/null"], timeout=waited, check=False)
            for pid in pids:
                self.assertLess((cpu_ticks(pid) - before[pid]) / clock / waited, 0.02, f"process {pid}")

    def without_descriptors(self, pid):
        """As if all that it may open were open: what it has stays."""
        allowed = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, allowed[1]))
        return lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, allowed)

    def test_an_agent_whose_descriptors_are_used_up_says_so_at_once_and_goes_on_when_some_are_free(self):
        with Run(2, outer_steps=60, dead_after="30s", env={"PRIME_QUADRATIC_DELAY_MS": "5"}, up_flags=("--quorum", "2"), held_at=3) as run:
            run.wait_until_held()
            starved = run.up["peers"][0]
            give_back = self.without_descriptors(starved["pid"])

            def reason():
                return next(peer["reason"] for peer in run.status()["peers"] if peer["name"] == starved["name"]) or ""
            wait_until("its word", lambda: "it can open no file and no connection: all 3 that `ulimit -n` allows" in reason())
            # Whoever knocks waits; the one who cannot open does not burn its core for that.
            with contextlib.ExitStack() as knocking:
                address = next(event["address"] for event in run.events("peer_joining") if event["name"] == starved["name"])
                port = int(re.search(r":(\d+)", address)[1])
                before = cpu_ticks(starved["pid"])
                for _ in range(20):
                    knock = knocking.enter_context(socket.socket())
                    knock.settimeout(LIMIT_S)
                    knock.connect(("127.0.0.1", port))
                with self.assertRaises(subprocess.TimeoutExpired):
                    subprocess.run(["tail", "-f", "/dev/null"], timeout=4, check=False)
                self.assertLess((cpu_ticks(starved["pid"]) - before) / os.sysconf("SC_CLK_TCK") / 4, 0.1)
            joiner = run.join(flags=("--name", "late"))
            run.wait_for("peer_joining", 3)
            give_back()
            wait_until("a status without it", lambda: "it can open no file" not in reason())
            run.release(3)
            self.assertEqual(run.wait_for_end(), 0)
            wait_until("the joiner's end", lambda: joiner.poll() is not None)
            self.assertEqual(joiner.returncode, 0, run.join_log(0))
            self.assertEqual(len(run.check(outer_steps=60)[-1]["contributors"]), 3)

    def test_a_trainer_that_its_agent_has_no_descriptors_to_start_waits_and_that_is_no_restart(self):
        with Run(2, outer_steps=6, deadline="1h", held_at=3, restarts=1) as run:
            run.wait_until_held()
            starved = run.up["peers"][0]
            give_back = self.without_descriptors(starved["pid"])

            def row():
                return next(peer for peer in run.status()["peers"] if peer["name"] == starved["name"])
            os.kill(row()["trainer_pid"], signal.SIGKILL)
            wait_until("the true cause", lambda: re.search(
                r"the trainer cannot be started yet: memory, descriptors or threads are used up: .*: all 3 descriptors that `ulimit -n` allows are open", row()["reason"] or ""))
            with self.assertRaises(subprocess.TimeoutExpired):
                subprocess.run(["tail", "-f", "/dev/null"], timeout=3, check=False)
            self.assertEqual(row()["restarts"], 1, "that it was killed; what was tried since is none")
            give_back()
            wait_until("a trainer", lambda: row()["trainer_pid"])
            self.assertNotIn("cannot be started", row()["reason"] or "")
            run.release(2)
            self.assertEqual(run.wait_for_end(), 0)
            run.check(outer_steps=6)

    def test_a_coordinator_that_can_open_no_file_for_what_it_decides_waits_for_one_and_says_so(self):
        with Run(2, outer_steps=6, deadline="1h", held_at=3) as run:
            run.wait_until_held()
            give_back = self.without_descriptors(run.coordinator_pid())
            run.release(2)
            waits = wait_until("its word", lambda: "a file descriptor" in (text := run.status()["run"]["waiting_for"] or "") and text)
            self.assertRegex(waits, r"a file descriptor for the coordinator's ledger: .* all 3 descriptors that `ulimit -n` allows are open \(`prlimit --pid \d+ --nofile=MORE`")
            give_back()
            self.assertEqual(run.wait_for_end(), 0)
            run.check(outer_steps=6)
            self.assertEqual(len(run.events("process_started")), 1, "the same coordinator went on")

    def test_a_coordinator_whose_descriptors_are_used_up_is_a_problem_that_status_tells(self):
        with Run(2, outer_steps=60, dead_after="30s", env={"PRIME_QUADRATIC_DELAY_MS": "5"}, held_at=3) as run:
            run.wait_until_held()
            give_back = self.without_descriptors(run.coordinator_pid())
            wait_until("its word", lambda: any("the coordinator: it can open no file" in problem for problem in run.status()["run"]["problems"]))
            joiner = run.join()
            give_back()
            wait_until("a status without it", lambda: not run.status()["run"]["problems"])
            run.release(3)
            self.assertEqual(run.wait_for_end(), 0)
            wait_until("the joiner's end", lambda: joiner.poll() is not None)
            run.check(outer_steps=60)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small file system")
    def test_a_ledger_whose_disk_stands_still_is_what_the_run_waits_for(self):
        disk = self.disk_to_freeze()
        with Run(2, outer_steps=5000, directory=disk, env={"PRIME_QUADRATIC_DELAY_MS": "5"}) as run:
            run.wait_for("outer_step_committed", 2)
            with self.frozen(disk):
                shown = wait_until("a status that names the disk", lambda: (
                    status := run.status()["run"]) and f"the disk of {run.run_directory}/coordinator/" in (status["waiting_for"] or "") and status)
                self.assertEqual(shown["state"], "waiting")
                self.assertIn("which takes no entry of the coordinator's ledger", shown["waiting_for"])
                since, until = (datetime.datetime.fromisoformat(shown[key]) for key in ("waiting_since", "waiting_until"))
                self.assertEqual(round((until - since).total_seconds()), 60, "as long as peers look for a coordinator")
                self.assertGreaterEqual((datetime.datetime.now(datetime.timezone.utc) - since).total_seconds(), 2)
            committed = len(run.events("outer_step_committed"))
            run.wait_for("outer_step_committed", committed + 2)
            wait_until("a run that trains", lambda: run.status()["run"]["state"] == "training")

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small file system")
    def test_a_coordinator_that_is_killed_while_its_disk_stands_still_leaves_the_disk_named_and_is_started_again(self):
        disk = self.disk_to_freeze()
        with Run(2, outer_steps=5000, directory=disk, env={"PRIME_QUADRATIC_DELAY_MS": "5"}) as run:
            run.wait_for("outer_step_committed", 2)
            named = f"the disk of {run.run_directory}/coordinator"
            with self.frozen(disk):
                def waits_for():
                    return run.status()["run"]["waiting_for"] or ""
                wait_until("a status that names the disk", lambda: named in waits_for())
                os.kill(run.coordinator_pid(), signal.SIGKILL)
                wait_until("its death and the disk", lambda: "it was killed, and cannot end" in (said := waits_for()) and named in said)
            run.wait_for("coordinator_restarted")
            run.wait_for("outer_step_committed", len(run.events("outer_step_committed")) + 2)
            wait_until("a run that trains", lambda: run.status()["run"]["state"] == "training")

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small file system")
    def test_down_says_that_it_waits_for_the_disk_of_the_ledger_and_the_run_ends_as_stopped(self):
        for waits in (True, False):
            disk = self.disk_to_freeze()
            with self.subTest(waits=waits), Run(2, outer_steps=5000, directory=disk, env={"PRIME_QUADRATIC_DELAY_MS": "5"}) as run:
                run.wait_for("outer_step_committed", 2)
                with self.frozen(disk):
                    down = subprocess.Popen([PRIMECTL, "down", run.up["run_id"], "--state-dir", run.state], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    said = wait_until("a word of down", down.stderr.readline)
                    self.assertIn(f"the disk of {run.run_directory}/coordinator/", said)
                    if not waits:
                        down.send_signal(signal.SIGINT)
                        said = wait_until("a word of the end", lambda: "warning" in (line := down.stderr.readline()) and line)
                        self.assertIn("the coordinator cannot end yet", said)
                out, errors = down.communicate(timeout=LIMIT_S)
                self.assertEqual(down.returncode, 0 if waits else 1, out + errors)
                self.assertNotIn("by force", out if waits else "")
                wait_until("the coordinator's end", lambda: not run.ours(run.guard()))
                self.assertIn("the run was stopped before its end: by its owner", run.status()["run"]["reason"])
            subprocess.run(["umount", "-l", str(disk)], check=True)
            shutil.rmtree(self.folder)
            self.folder.mkdir()

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small file system")
    def test_a_coordinator_whose_disk_stands_still_for_too_long_ends_and_its_peers_save_what_they_hold(self):
        disk = self.disk_to_freeze()
        with Run(0, up_flags=("--quorum", "1"), minimum=1, outer_steps=5000, directory=disk, grace="3s", dead_after="2s",
                 env={"PRIME_QUADRATIC_DELAY_MS": "5"}) as run:
            said = self.folder / "join.log"
            with open(said, "wb") as log:
                joiner = subprocess.Popen([str(PRIMECTL), "join", run.up["invite"], "--state-dir", str(self.folder / "elsewhere"), "--local-manifest",
                                           str(run.manifest)], env=run.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            self.addCleanup(joiner.kill)
            run.wait_for("outer_step_committed", 2)
            with self.frozen(disk):
                wait_until("the joiner's end", lambda: joiner.poll() is not None)
            self.assertIn("aved ", said.read_text())
            self.assertTrue(list((self.folder / "elsewhere").glob("*/peers/*/checkpoints/step-*")), said.read_text())

    def test_a_guard_that_has_no_descriptors_left_starts_the_coordinator_when_it_has_some_again(self):
        with Run(2, outer_steps=1_000_000, env={"PRIME_QUADRATIC_DELAY_MS": "5"}) as run:
            guard = run.guard()
            for number, limit in enumerate((7, 9, 11, 12)):
                run.wait_for("outer_step_committed", len(run.events("outer_step_committed")) + 1)
                usual = resource.prlimit(guard, resource.RLIMIT_NOFILE)
                resource.prlimit(guard, resource.RLIMIT_NOFILE, (limit, usual[1]))
                os.kill(run.coordinator_pid(), signal.SIGKILL)
                wait_until("a second try at least", lambda: any(
                    "descriptors that `ulimit -n` allows are open" in text for text in [json.dumps(run.status()["run"])]) or len(run.events("coordinator_restarted")) > number)
                resource.prlimit(guard, resource.RLIMIT_NOFILE, usual)
                run.wait_for("coordinator_restarted", number + 1)
            # Of one that was started and is gone again, too.
            self.assertEqual({each["guard_pid"] for each in run.events("process_started")}, {guard})

    def test_a_state_directory_that_is_moved_under_a_living_run_is_the_cause_and_the_run_goes_on_when_it_is_back(self):
        for back in (True, False):
            with self.subTest(back=back), Run(2, outer_steps=1_000_000, grace="1min" if back else "3s", dead_after="2s", retry="5s",
                                              env={"PRIME_QUADRATIC_DELAY_MS": "5"}) as run:
                run.wait_for("outer_step_committed", 2)
                moved = run.directory / "moved"
                run.state.rename(moved)
                cause = f"{run.run_directory} was moved to {moved / run.up['run_id']} while this run worked in it"

                def told():
                    seen = subprocess.run([str(PRIMECTL), "status", run.up["run_id"], "-o", "json", "--state-dir", str(moved)], capture_output=True, text=True,
                                          timeout=LIMIT_S, check=False)
                    return json.loads(seen.stdout)["run"] if seen.stdout else {}
                if back:
                    wait_until("the cause in status", lambda: cause in (told().get("waiting_for") or ""))
                    moved.rename(run.state)
                    run.wait_for("coordinator_restarted")
                    run.wait_for("outer_step_committed", len(run.events("outer_step_committed")) + 2)
                    self.assertEqual(subprocess.run([PRIMECTL, "down", run.up["run_id"], "--state-dir", run.state], capture_output=True, check=False).returncode, 0)
                else:
                    end = wait_until("the end", lambda: (run_now := told()).get("state") == "failed" and run_now)
                    self.assertIn(cause, end["reason"])
                    moved.rename(run.state)

    def test_a_port_that_is_taken_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen(1)
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            done = self.up(SOURCE / "manifests" / "quickstart.yaml", "--local", 2, "--listen", address)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"cannot listen at this address: {address}: address already in use", done.stderr)
        self.assertIn("hint:", done.stderr)

    def test_an_address_of_another_machine_or_of_nobody_is_named(self):
        for address, why in (("192.0.2.1:0", "cannot assign requested address"), ("nowhere.invalid:0", "nowhere.invalid")):
            done = self.up(SOURCE / "manifests" / "quickstart.yaml", "--listen", address)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("cannot listen at this address", done.stderr)
            self.assertIn(why, done.stderr)
            self.assertNotIn("in use", done.stderr)

    def test_data_that_cannot_be_read_is_named_before_anything_starts(self):
        done = self.up(SOURCE / "manifests" / "quickstart.yaml", "--set", "data.path=/nonexistent")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("the training data cannot be read: /nonexistent", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small file system")
    def test_a_full_disk_at_the_end_is_waited_for_and_nothing_half_written_is_left(self):
        small = self.small_disk("40m")
        with Run(1, minimum=1, outer_steps=3, env={"PRIME_QUADRATIC_ELEMENTS": "2000000"}, directory=small, held_at=2) as run:
            run.wait_for("outer_step_committed")
            self.fill(small)
            run.hold.unlink()
            run.wait_for("final_save_failed")
            self.assertIn("No space left on device", run.status()["run"]["checkpoint_problem"])
            self.assertEqual([str(path) for path in small.rglob("checkpoints/**/*")], [], "nothing half-written")
            (small / "fill").unlink()
            self.assertEqual(run.wait_for_end(), 0)
            (report,) = run.events("final_report")
            self.assertTrue(pathlib.Path(report["checkpoint"], "model.safetensors").exists())
            self.assertEqual(run.check(outer_steps=3)[-1]["digest"], run.events("run_done")[0]["digest"])

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small file system")
    def test_a_joiner_whose_disk_is_full_says_that_what_is_told_of_it_is_old(self):
        small = self.small_disk("40m")
        with Run(2, up_flags=("--quorum", "3"), outer_steps=5000, env={"PRIME_QUADRATIC_DELAY_MS": "20"}) as run:
            log = run.directory / "join-0.log"
            with open(log, "wb") as out:
                run.processes.append(subprocess.Popen([PRIMECTL, "join", run.up["invite"], "--name", "cramped", "--state-dir", small, "--local-manifest",
                                                       run.manifest], env=run.env, stdout=out, stderr=out, stdin=subprocess.DEVNULL))
            run.wait_for("outer_step_committed", 2)
            with contextlib.suppress(OSError), open(small / "fill", "wb", buffering=0) as fill:
                while fill.write(bytes(4096)):
                    pass

            def reason():
                seen = subprocess.run([str(PRIMECTL), "status", run.up["run_id"], "-o", "json", "--state-dir", str(small)], capture_output=True, text=True,
                                      timeout=LIMIT_S, check=False)
                return next((peer["reason"] for peer in json.loads(seen.stdout)["peers"] if peer["name"] == "cramped"), None) or ""
            wait_until("a status that says so", lambda: "its disk is full: its journal has no room" in reason())
            wait_until("a word of `join`", lambda: "is full: this peer goes on" in log.read_text())
            (small / "fill").unlink()
            wait_until("a status that is whole again", lambda: "its disk is full" not in reason())

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small file system")
    def test_down_waits_while_the_disk_is_full_and_kills_nobody_that_saves(self):
        small = self.small_disk("40m")
        with Run(1, minimum=1, outer_steps=1000, env={"PRIME_QUADRATIC_ELEMENTS": "2000000"}, directory=small, held_at=3) as run:
            run.wait_for("outer_step_committed", 2)
            self.fill(small)
            with subprocess.Popen([PRIMECTL, "down", run.up["run_id"], "--state-dir", run.state], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as down:
                says = iter(down.stderr.readline, "")
                wait_until("word of the full disk", lambda: "No space left on device" in next(says))
                (small / "fill").unlink()
                out, _ = down.communicate(timeout=LIMIT_S)
            self.assertEqual(down.returncode, 0, out)
            self.assertIn("saved ", out)
            self.assertNotIn("by force", out)

    def test_down_wakes_whom_it_ends_and_kills_nobody_that_holds_the_only_copy(self):
        with Run(2, outer_steps=1000, held_at=3) as run:
            run.wait_for("outer_step_committed", 2)
            agents = [row["pid"] for row in run.status()["peers"]]
            for agent in agents:
                os.kill(agent, signal.SIGSTOP)
            done = subprocess.run([PRIMECTL, "down", run.up["run_id"], "--state-dir", run.state], capture_output=True, text=True, timeout=LIMIT_S, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("saved ", done.stdout)
            self.assertNotIn("by force", done.stdout)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small file system")
    def test_a_disk_that_stands_still_is_waited_for_by_name_until_the_only_copy_is_saved(self):
        disk = self.disk_to_freeze()
        with Run(1, minimum=1, outer_steps=1000, directory=disk, held_at=3) as run:
            run.wait_for("outer_step_committed", 2)
            with self.frozen(disk):
                down = subprocess.Popen([PRIMECTL, "down", run.up["run_id"], "--state-dir", run.state], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                said = wait_until("a word of down", down.stderr.readline)
                state = run.status()["run"]["state"]
            out, _ = down.communicate(timeout=LIMIT_S)
            self.assertRegex(said, r"Waiting for the disk of \S+, which takes no entry|has not saved outer step 2")
            self.assertEqual(state, "waiting", "it is not over: the only copy is in memory")
            self.assertEqual(down.returncode, 0, out)
            self.assertIn("step-000002", out)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small file system")
    def test_a_disk_that_stays_full_is_given_up_by_name(self):
        small = self.small_disk("40m")
        with Run(1, minimum=1, outer_steps=1000, retry="0s", env={"PRIME_QUADRATIC_ELEMENTS": "2000000"}, directory=small, held_at=3) as run:
            run.wait_for("outer_step_committed", 2)
            self.fill(small)
            done = subprocess.run([PRIMECTL, "down", run.up["run_id"], "--state-dir", run.state], capture_output=True, text=True, timeout=LIMIT_S, check=False)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("could not save its state", done.stderr)
            self.assertIn("No space left on device", done.stderr)

    def test_an_evaluation_that_takes_long_is_no_stall_and_has_a_limit_of_its_own(self):
        held = self.folder / "evaluating"
        held.touch()
        with Run(2, outer_steps=2, stall_limit="5s", env={"PRIME_QUADRATIC_EVALUATES_WHILE": str(held)}) as run:
            run.wait_for("final_state_saved")
            with self.assertRaises(subprocess.TimeoutExpired):
                subprocess.run(["tail", "-f", "/dev/null"], timeout=7, check=False)  # longer than a trainer may be without a sign of life
            held.unlink()
            self.assertEqual(run.wait_for_end(), 0)
            self.assertEqual([line for lines in run.peer_journals().values() for line in lines if line["event"] == "trainer_restarting"], [])
            self.assertEqual(run.events("final_report")[0]["held_out_tokens"], 2, "each peer has evaluated its part")
        held.touch()
        with Run(2, outer_steps=2, evaluate_limit="0s", env={"PRIME_QUADRATIC_EVALUATES_WHILE": str(held)}) as run:
            self.assertEqual(run.wait_for_end(), 0)
            (report,) = run.events("final_report")
            self.assertIn("train.evaluate.time_limit", report["evaluation_problem"])
            self.assertTrue(pathlib.Path(report["checkpoint"], "model.safetensors").exists())
            self.assertIn("train.evaluate.time_limit", run.status()["run"]["evaluation_problem"])

    def test_all_peers_evaluate_on_the_way_and_the_parts_are_added(self):
        with Run(3, outer_steps=3, evaluate=1, every=1) as run:
            self.assertEqual(run.wait_for_end(), 0)
            self.assertEqual(run.events("final_save_failed"), [], "the last checkpoint on the way is the final one")
            commits = run.check(outer_steps=3)
            self.assertEqual([line.get("held_out_tokens") for line in commits], [None, 3, 3])

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small file system")
    def test_a_disk_that_is_too_small_or_becomes_full_is_named_whatever_it_breaks(self):
        small = self.folder / "small"
        small.mkdir()
        manifest = self.folder / "run.yaml"
        with Run(1, minimum=1, outer_steps=2) as other:
            manifest.write_text(other.manifest.read_text())
            wait_until("its end", lambda: other.events("process_ended"))
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], check=True)
        try:
            with contextlib.suppress(OSError):
                (small / "fill").write_bytes(bytes(1 << 20))
            done = self.up(manifest, "-d", state=small / "state")
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("No space left on device", done.stderr)
            self.assertEqual([entry.name for entry in (small / "state").iterdir()], [])
        finally:
            subprocess.run(["umount", "-l", str(small)], check=True)
        for size in ("16k", "64k"):
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(small)], check=True)
            try:
                done = self.up(manifest, "--local", 2, "--set", "train.outer_steps=100000", "--set", "membership.coordinator_grace=4s", "--set", "checkpoint.retry=0s", state=small / "state",
                               env={"PRIME_QUADRATIC_ELEMENTS": "1000"})
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                error = [line for line in done.stderr.splitlines() if line.startswith("error:")][-1]
                self.assertIn(str(small), error, done.stderr)
                self.assertIn("No space left on device", error)
                self.assertIn("PR0701", error)
            finally:
                subprocess.run(["umount", "-l", str(small)], check=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
