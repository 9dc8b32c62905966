"""Whole runs with real processes: up in the foreground and detached, join, leave, status, logs, down, and every way in which up ends."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import unittest

from primectl import BIN, LIMIT_S, PRIMECTL, environment, write_manifest
from runs import SLOW, RunCase, lives, wait_until


class Runs(RunCase):
    # What a run shows -----------------------------------------------------------------------------------------------------

    def test_up_shows_a_table_and_a_summary_without_escape_bytes(self):
        done = self.call("up", write_manifest(self.directory), "--local", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertRegex(lines[0], r"^ step +loss +held-out +tok/s +peers +reduce +wire +note$")
        for step in (1, 2, 3):
            self.assertRegex(lines[step], rf"^ +{step} +\d+\.\d+ .* 2/2 ")
        self.assertIn("Done 3 outer steps", done.stdout)
        self.assertIn("equal on all 2 peers", done.stdout)
        self.assertIn("Checkpoint /", done.stdout)
        self.assertIn("prime://", done.stderr)
        self.assertIn("for the final evaluation", done.stderr, "silence between the last step and the end")
        self.assertNotIn("\x1b", done.stdout + done.stderr)

    def test_who_waits_long_is_told_what_for_and_since_when(self):
        done = self.call("up", write_manifest(self.directory, outer_steps=1), "--local", 1, env={"PRIME_QUADRATIC_DELAY_MS": "4500"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"\n +Waiting for inner steps of [a-z-]+; .* \(for 1\d\.\ds\)\n")

    def test_after_done_stands_the_line_that_goes_on(self):
        done = self.call("up", write_manifest(self.directory), "--local", 1, "--set", "train.outer_steps=2")
        self.assertEqual(done.returncode, 0, done.stderr)
        (line,) = re.findall(r"\n +Go on (.*)\n", done.stderr)
        self.assertIn("--set train.outer_steps=4 ", line)
        self.assertNotIn("train.outer_steps=2", line)
        again = self.paste(line)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("Done 4 outer steps, the last 2 of them in ", again.stdout)
        over = self.call("up", write_manifest(self.directory), "--local", 1, "--set", "train.outer_steps=4", "--from", re.search(r"Ready (\S+)", again.stderr)[1])
        self.assertIn("`--set train.outer_steps=8` trains as long again", over.stderr)

    def test_the_result_is_the_only_line_of_json(self):
        done = self.call("up", write_manifest(self.directory), "--local", 2, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual((result["schema"], result["state"], result["outer_step"]), ("primectl.result/1", "done", 3))
        self.assertTrue(pathlib.Path(result["checkpoint"]).is_dir())
        status = self.status(result["run_id"])
        self.assertEqual(status["run"]["digest"], result["digest"])
        self.assertEqual({peer["digest"] for peer in status["peers"]}, {result["digest"]})
        self.assertEqual({peer["state"] for peer in status["peers"]}, {"left"})

    def test_at_the_level_debug_the_logs_tell_the_reason_of_each_decision(self):
        done = self.call("up", write_manifest(self.directory), "--local", 2, "-o", "json", "--log-level", "debug")
        self.assertEqual(done.returncode, 0, done.stderr)
        (run,) = (path.parent for path in self.directory.glob("primectl/*/coordinator"))
        said = (run / "coordinator" / "coordinator.log").read_text()
        for reason in (r"[a-z-]+ is welcome", r"[a-z-]+ is ready for step 2", r"all voted for the same digest", r"the final state is saved"):
            self.assertRegex(said, rf"(?m)^\d{{4}}-\S+Z debug coordinator: {reason}$")
        agents = "".join(path.read_text() for path in run.rglob("*.log") if path.name != "coordinator.log")
        for machine, reason in (("peer", "welcome"), ("peer", "trains"), ("peer", "voted"), ("reduce worker", r".+")):
            self.assertRegex(agents, rf"(?m)^\d{{4}}-\S+Z debug {machine}: {reason}$")

    def test_without_a_level_the_logs_are_silent_of_reasons(self):
        done = self.call("up", write_manifest(self.directory), "--local", 1, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        for log in self.directory.glob("primectl/*/**/*.log"):
            self.assertNotIn(" debug ", log.read_text())

    def test_a_run_of_one_starts_alone_when_the_manifest_says_so(self):
        done = self.call("up", write_manifest(self.directory), "-q", "-o", "json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_reader_that_goes_away_ends_the_run(self):
        process = self.start("up", write_manifest(self.directory, outer_steps=1000), "--local", "1", env=SLOW)
        self.assertIn("step", process.stdout.readline())
        process.stdout.close()
        self.assertEqual(process.wait(LIMIT_S), 130)
        self.assertIn("Stopped: ", self.call("status").stdout)

    def test_output_that_cannot_be_written_ends_the_run_with_its_cause(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([PRIMECTL, "up", write_manifest(self.directory, outer_steps=1000), "--local", "1"], stdout=full,
                                  env=environment(XDG_STATE_HOME=str(self.directory), **SLOW), stderr=subprocess.PIPE, text=True,
                                  timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("write the output: No space left on device [PR0701]", done.stderr)
        self.assertNotIn("nobody reads", done.stderr)
        self.all_have_ended()

    def test_closed_streams_get_no_other_file_s_place(self):
        script = f'exec "{PRIMECTL}" up "{write_manifest(self.directory)}" --local 2 <&- >&- 2>&-'
        done = subprocess.run(["/bin/sh", "-c", script], env=environment(XDG_STATE_HOME=str(self.directory)), timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.status()["run"]["state"], "done")

    # A run in the background ----------------------------------------------------------------------------------------------

    def test_a_detached_run_is_seen_joined_left_and_ended(self):
        up = self.up_detached("--local", 2, outer_steps=10000, env=SLOW)
        self.assertEqual(up["schema"], "primectl.up/1")
        self.assertEqual(len(up["peers"]), 2)
        invite_file = pathlib.Path(up["state_dir"]) / "invite"
        self.assertEqual(invite_file.read_text().strip(), up["invite"])
        self.assertEqual(invite_file.stat().st_mode & 0o777, 0o600)
        told = self.wait_for_step(up["run_id"], 1)
        self.assertEqual(told["coordinator"], {key: up["coordinator"][key] for key in ("pid", "address")})
        self.assertEqual(up["coordinator"]["addresses"][0]["address"], up["coordinator"]["address"])
        # Status has them in the order of their seats, which is who came first.
        self.assertCountEqual([peer["pid"] for peer in told["peers"]], [peer["pid"] for peer in up["peers"]])
        key = up["invite"].split("#")[1].encode()
        for pid in [up["coordinator"]["pid"], *(peer["pid"] for peer in up["peers"])]:
            self.assertNotIn(key, pathlib.Path(f"/proc/{pid}/cmdline").read_bytes(), "a key in the process list")
            self.assertEqual(os.getsid(pid), pid, "it has a terminal's session")

        joined = self.call("join", "-d", "-o", "json", "--name", "late-joiner", "--set", f"local.trainer_command=[{self.trainer()}]",
                           env={**SLOW, "PRIMECTL_INVITE": f" {up['invite']}\n"})
        self.assertEqual(joined.returncode, 0, joined.stderr)
        peer = json.loads(joined.stdout)["peer"]
        self.assertEqual(peer["name"], "late-joiner")
        wait_until("the joiner to train", lambda: self.peer(up["run_id"], "late-joiner")["state"] in ("training", "reducing"))

        self.assertEqual(self.call("leave", "late", "--run", up["run_id"]).returncode, 0)
        wait_until("the leave to be seen", lambda: self.peer(up["run_id"], "late-joiner")["state"] == "left")
        self.assertFalse(lives(peer["pid"]))
        logs = self.call("logs", "--run", up["run_id"]).stdout
        self.assertIn("late-joiner", logs)
        self.assertIn("outer step committed", logs)
        self.assertNotIn("late-joiner ", self.call("logs", "coordinator", "--since", "1ms").stdout)

        ended = json.loads(self.call("down", up["run_id"], "-o", "json").stdout)
        self.assertEqual((ended["ended"], ended["killed"]), (3, 0))
        self.assertIn("stopped", self.call("status", up["run_id"]).stdout)
        self.assertEqual(self.status(up["run_id"])["run"]["state"], "failed", "version 1 of the schema has no other word")
        self.assertIn("PR0510", self.status(up["run_id"])["run"]["reason"])
        self.assertEqual(self.call("status", up["run_id"], "--check").returncode, 0)
        self.assertIn("run stopped", self.call("logs", "--run", up["run_id"]).stdout)
        for pid in [up["coordinator"]["pid"], *(peer["pid"] for peer in up["peers"])]:
            self.assertFalse(lives(pid))

    def test_the_lines_that_up_prints_paste_into_a_shell(self):
        # As somebody starts it from a build folder that no PATH names, with a blank that a shell would split at.
        folder = self.directory / "a build"
        folder.mkdir()
        (folder / "primectl").symlink_to(PRIMECTL)
        state = self.directory / "the state"
        manifest = write_manifest(self.directory, outer_steps=10000)

        paste = self.paste
        up = paste(f"'a build/primectl' up '{manifest}' -d --state-dir '{state}'")
        self.assertEqual(up.returncode, 0, up.stderr)
        status, down, join = [line for line in up.stdout.splitlines() if "primectl" in line]
        done = paste(status)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        done = paste(f"{join} -d --name bob --state-dir '{state}' --set 'local.trainer_command=[{self.trainer()}]'")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = paste(done.stdout.splitlines()[-1])
        self.assertIn("bob left", done.stdout, done.stderr)
        self.assertEqual(paste(down).returncode, 0)

        shown = self.start("up", write_manifest(self.directory, outer_steps=10000), env=SLOW)
        while "prime://" not in (line := shown.stderr.readline()):
            self.assertNotEqual(line, "")
        done = paste(f"{line.strip()} -d --set 'local.trainer_command=[{self.trainer()}]'")
        self.assertEqual(done.returncode, 0, done.stderr)
        shown.send_signal(signal.SIGINT)
        self.finished(shown)
        self.call("down")

    def test_peers_of_the_same_name_are_told_apart_by_their_ids(self):
        up = self.up_detached(outer_steps=10000, env=SLOW)
        join = ["join", up["invite"], "-d", "--set", f"local.trainer_command=[{self.trainer()}]", "--name"]
        ways = []
        for name in ("bob", "bobby"):
            done = self.call(*join, name, env=SLOW)
            self.assertEqual(done.returncode, 0, done.stderr)
            ways.append(re.search(r" leave (\S+) --run", done.stdout)[1])
        self.assertEqual(ways, ["bob", "bobby"])
        # On one machine a name is given once; another machine's peer may have it.
        for flags in ([], ["-d"]):
            done = self.call(*[word for word in join if word != "-d"], "bob", *flags, env=SLOW)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, rf"`--name bob`: peer [0-9a-f]{{16}} of {up['run_id']} has this name on this machine, and runs; give another one")
        other = ["--state-dir", self.directory / "elsewhere"]
        self.assertEqual(self.call(*join, "bob", *other, env=SLOW).returncode, 0)
        wait_until("both", lambda: len([peer for peer in self.status(up["run_id"])["peers"] if peer["name"] == "bob" and peer["state"] == "training"]) == 2)
        shown = re.findall(r"(?m)^bob \(([0-9a-f]{8})\) ", self.call("status", up["run_id"]).stdout)
        self.assertEqual(len(shown), 2)
        here = next(peer["id"] for peer in self.status(up["run_id"])["peers"] if peer["name"] == "bob" and peer["pid"])
        self.assertIn(here[:8], shown)
        self.assertEqual(self.call("leave", here[:8]).returncode, 0)
        self.assertEqual(self.call("leave", "bob", *other).returncode, 0)
        # Who left gives its name back.
        self.assertEqual(self.call(*join, "bob", env=SLOW).returncode, 0)
        self.assertEqual(self.call("down").returncode, 0)

    def test_whose_process_is_gone_is_not_said_to_come_back_by_itself(self):
        up = self.up_detached("--local", 2, outer_steps=10000, env=SLOW)
        self.wait_for_step(up["run_id"], 1)
        os.kill(up["peers"][0]["pid"], signal.SIGKILL)
        name = up["peers"][0]["name"]
        wait_until("the loss to be seen", lambda: self.peer(up["run_id"], name)["state"] == "lost")
        said = self.call("status").stdout
        self.assertIn(f"\n{name} is lost, and its process is gone; a new peer takes its place by\n\n  ", said)
        self.assertNotIn("by itself", said)
        self.assertEqual(self.call("down").returncode, 0)

    def test_the_last_who_leaves_is_told_how_to_go_on(self):
        up = self.up_detached(outer_steps=10000, env=SLOW)
        self.wait_for_step(up["run_id"], 1)
        names = [peer["id"] for peer in self.status(up["run_id"])["peers"]]
        told = [self.call("leave", name).stdout for name in names]
        self.assertIn("go on from there by\n\n  ", told[-1])
        self.assertIn(f"--from {up['run_id']}", told[-1])
        for other in told[:-1]:
            self.assertNotIn("go on from", other)

    def test_the_embedding_example_serves_an_agent_and_joins_by_itself(self):
        # The variable that `join` reads stays in the environment of the trainers, where it means nothing.
        # It is the third of three that the run begins with: so the run does not end before it is there.
        up = self.up_detached("--local", 2, "--quorum", 3, trainer=BIN / "embed", outer_steps=300, env={"PRIMECTL_INVITE": "of another run"})
        waits = "waits for peers: 2 of 3 are ready"
        wait_until("a status that tells it", lambda: [peer["reason"] for peer in self.status(up["run_id"])["peers"]] == [waits, waits])
        # It finds primectl beside itself, whatever PATH says.
        alone = subprocess.run([BIN / "embed"], capture_output=True, text=True, timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL,
                               env=environment(XDG_STATE_HOME=str(self.directory / "elsewhere"), PATH="/nowhere", PRIMECTL_INVITE=up["invite"]))
        self.assertEqual(alone.returncode, 0, alone.stderr)
        self.assertIn("mean over 3 peers", alone.stdout)
        status = wait_until("the end", lambda: (told := self.status(up["run_id"]))["run"]["state"] in ("done", "failed") and told)
        self.assertEqual(status["run"]["state"], "done", status)
        self.assertIn("state " + status["run"]["digest"], alone.stdout)

    def test_join_in_the_foreground_tells_what_it_does(self):
        hold, held = self.hold_at(5)
        up = self.up_detached(outer_steps=12, env=held)
        self.wait_for_step(up["run_id"], 1)
        joiner = self.start("join", up["invite"], "--local-manifest", self.directory / "run.yaml", "--state-dir", self.directory / "elsewhere", env=SLOW)
        said = ""
        while "Entered" not in said:
            said += (line := joiner.stderr.readline())
            self.assertNotEqual(line, "", said)
        hold.unlink()
        code, out, err = self.finished(joiner)
        self.assertEqual((code, out), (0, ""), said + err)
        for word in ("Joining", "Welcome", "Fetching", "Entered", "Committed", "Done"):
            self.assertIn(word, said + err)

    def test_a_joiner_in_the_foreground_that_is_made_to_leave_says_so(self):
        up = self.up_detached(outer_steps=10000, env=SLOW)
        joiner = self.start("join", up["invite"], "--name", "guest", "--set", f"local.trainer_command=[{self.trainer()}]", env=SLOW)
        while "Committed" not in (line := joiner.stderr.readline()):
            self.assertNotEqual(line, "")
        self.assertEqual(self.call("leave", "guest").returncode, 0)
        code, out, err = self.finished(joiner)
        self.assertEqual((code, out), (0, ""))
        self.assertRegex(err, r"(^|\n) +Left with revision \d+\n$")
        self.call("down")

    def test_status_watch_gives_one_object_per_line_until_the_end(self):
        up = self.up_detached(outer_steps=5, env=SLOW)
        done = self.call("status", up["run_id"], "--watch", "-o", "json")
        objects = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(objects[-1]["run"]["state"], "done")
        self.assertEqual([o["run"]["outer_step"] for o in objects], sorted(o["run"]["outer_step"] for o in objects))

    def test_status_watch_into_a_pipe_gives_one_line_per_change(self):
        up = self.up_detached(outer_steps=5, env=SLOW)
        done = self.call("status", up["run_id"], "--watch")
        lines = done.stdout.splitlines()
        for line in lines:
            self.assertRegex(line, rf"^{up['run_id']}  (waiting|training|done)  step \d")
        self.assertEqual(len(lines), len(set(lines)))
        self.assertRegex(lines[-1], r"  done  step 5  .*  checkpoint /")

    # How it ends otherwise ------------------------------------------------------------------------------------------------

    def test_a_taken_address_is_one_clear_error_and_nothing_is_left(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            done = self.call("up", write_manifest(self.directory), "-q", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("PR0703", done.stderr)
        self.all_have_ended()
        self.assertEqual(list((self.directory / "primectl").iterdir()), [], "what never began is no run that failed")

    def test_a_trainer_that_cannot_work_ends_the_run_with_its_cause(self):
        done = self.call("up", write_manifest(self.directory, trainer="/bin/false"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("PR0601", done.stderr)
        self.assertNotIn("Saved", done.stderr, "before the first step there is nothing to save")
        told = self.status()["run"]
        self.assertEqual(told["state"], "failed")
        self.assertIn("PR0601", told["reason"])
        self.all_have_ended()

    def test_a_trainer_that_finds_no_libtorch_gets_the_hint_of_doctor(self):
        trainer = self.directory / "lacking"
        trainer.write_text("#!/bin/sh\necho 'prime-trainer: error while loading shared libraries: libtorch_cpu.so: cannot open shared object file' >&2\nexit 127\n")
        trainer.chmod(0o755)
        done = self.call("up", write_manifest(self.directory, trainer=trainer), "--local", 1)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("libtorch_cpu.so", done.stderr)
        self.assertRegex(done.stderr, r"\nhint: it needs libtorch: `lib/prime/torch`, beside `bin`, .*TORCH_PREFIX")

    def test_a_wrong_key_is_refused(self):
        up = self.up_detached(outer_steps=10000, env=SLOW)
        address, key = up["invite"].split("#")
        wrong = address + "#" + ("B" if key[0] == "A" else "A") + key[1:]
        for more in ([], ["-d"]):
            done = self.call("join", wrong, *more, "--state-dir", self.directory / "elsewhere")
            self.assertIn(done.returncode, (2, 4), done.stderr)
            self.assertNotIn(key, done.stderr)
            self.assertEqual(list((self.directory / "elsewhere").iterdir()), [], "nothing is left of who never took part")
        self.call("down", up["run_id"])

    def test_a_lost_peer_is_news_and_no_error(self):
        hold, held = self.hold_at(5)
        process = self.start("up", write_manifest(self.directory, outer_steps=12), "--local", "3", env=held)
        self.assertIn("step", process.stdout.readline())
        process.stdout.readline()
        victim = self.status()["peers"][2]
        os.kill(victim["pid"], signal.SIGKILL)
        hold.unlink()
        code, out, err = self.finished(process)
        self.assertEqual(code, 0, err)
        self.assertIn(f"{victim['name']} lost (", out)
        self.assertIn("averaged 2", out)

    def test_one_interrupt_lets_the_peers_leave(self):
        for sign in (signal.SIGINT, signal.SIGQUIT):
            process = self.start("up", write_manifest(self.directory, outer_steps=10000), "--local", "2", "--state-dir", self.directory / sign.name,
                                 env=SLOW)
            process.stdout.readline()
            process.send_signal(sign)
            code, _, err = self.finished(process)
            self.assertEqual(code, 130, err)
            self.assertIn("PR0801", err)
            self.assertRegex(err, r"Go on from there by\n  \S*primectl up \S*run.yaml --local 2 --from small-\w+ --state-dir")
            status = json.loads(self.call("status", "-o", "json", "--state-dir", self.directory / sign.name).stdout)
            self.assertEqual({peer["state"] for peer in status["peers"]}, {"left"})
            self.assertIn("PR0510", status["run"]["reason"])
            self.all_have_ended()

    def test_a_killed_up_leaves_a_run_that_down_ends(self):
        process = self.start("up", write_manifest(self.directory, outer_steps=10000), "--local", "2", env=SLOW)
        process.stdout.readline()
        process.kill()
        process.wait(LIMIT_S)
        step = self.status()["run"]["outer_step"]
        self.wait_for_step("", step + 2)
        self.assertEqual(self.call("down").returncode, 0)
        self.all_have_ended()

    def test_only_a_run_that_has_ended_is_removed(self):
        runs = [self.up_detached("--local", 2, outer_steps=10000, env=SLOW)["run_id"] for _ in range(2)]
        self.assertEqual(self.call("down", runs[0]).returncode, 0)
        refused = self.call("remove", *runs)
        self.assertEqual(refused.returncode, 2)
        self.assertIn(f"{runs[1]} still runs here", refused.stderr)
        self.assertEqual(self.call("status", runs[0]).returncode, 0, "a refusal removes nothing")
        self.assertEqual(self.call("down", runs[1]).returncode, 0)
        self.assertEqual(self.call("remove", *runs).stdout, "".join(f"removed {run}\n" for run in runs))
        self.assertEqual(self.call("status", runs[0]).returncode, 3)

    def test_a_state_directory_that_is_removed_ends_the_run_by_name(self):
        process = self.start("up", write_manifest(self.directory, outer_steps=10000), "--local", "2", env=SLOW)
        process.stdout.readline()
        process.stdout.readline()
        os.rename(self.directory / "primectl", self.directory / "removed")
        waiting = []
        while not waiting or "was moved to" not in waiting[-1]:
            waiting.append(process.stderr.readline())
            self.assertTrue(waiting[-1], waiting)
        self.assertRegex(waiting[-1], rf"Waiting .* was moved to {self.directory}/removed/\S+ while this run worked in it: move it back")
        os.rename(self.directory / "removed", self.directory / "primectl")
        for _ in range(2):
            self.assertTrue(process.stdout.readline(), "it goes on")
        os.rename(self.directory / "primectl", self.directory / "removed")
        shutil.rmtree(self.directory / "removed")  # what is only moved is waited for
        code, _, err = self.finished(process)
        self.assertEqual(code, 1, err)
        self.assertIn("the state directory is gone", err)
        self.assertIn("PR0701", err)
        wait_until("the end of all processes", lambda: self.running() == [])

    def test_processes_of_a_detached_run_end_when_their_state_directory_is_removed(self):
        up = self.up_detached("--local", 2, "--state-dir", self.directory / "state", outer_steps=10000, env=SLOW)
        watching = self.start("status", "--watch", "--state-dir", self.directory / "state")
        watching.stdout.readline()
        os.rename(self.directory / "state", self.directory / "removed")
        shutil.rmtree(self.directory / "removed")  # what is only moved is waited for
        for pid in [up["coordinator"]["pid"], *(peer["pid"] for peer in up["peers"])]:
            wait_until(f"the end of {pid}", lambda pid=pid: not lives(pid))
        self.assertFalse((self.directory / "state").exists(), "whoever removed it gets no part of it back")
        code, _, err = self.finished(watching)
        self.assertEqual(code, 1, err)
        self.assertIn("the state directory is gone", err)
        for command in ("status", "down", "leave", "logs"):
            done = self.call(command, "--state-dir", self.directory / "state")
            self.assertEqual(done.returncode, 1, (command, done.stderr))
            self.assertIn("the state directory is gone", done.stderr)

    @unittest.skipUnless((BIN / "prime-trainer").exists(), "this build has no trainer: libtorch is not instrumented")
    def test_data_that_is_moved_away_is_no_longer_needed_once_it_is_compiled(self):
        corpus = self.directory / "corpus"
        corpus.mkdir()
        for number in range(5):
            (corpus / f"{number}.txt").write_text("".join(f"{number} {line}\n" for line in range(200)))
        up = self.up_detached("--set", f"data.path={corpus}", "--set", f"local.trainer_command=[{BIN / 'prime-trainer'}]", outer_steps=100_000)

        def row():
            return self.status(up["run_id"])["peers"][0]
        wait_until("a step", lambda: (row()["outer_step"] or 0) > 0)
        corpus.rename(self.directory / "away")
        step = row()["outer_step"]
        wait_until("more steps", lambda: row()["outer_step"] > step + 1)
        self.assertEqual(row()["restarts"], 0)
        self.assertEqual(self.call("down", up["run_id"]).returncode, 0)

    @unittest.skipUnless((BIN / "prime-trainer").exists(), "this build has no trainer: libtorch is not instrumented")
    def test_what_is_trained_on_is_said_and_whoever_has_other_data_is_refused_by_name(self):
        corpus = self.directory / "above" / "corpus"
        corpus.mkdir(parents=True)
        for number in range(5):
            (corpus / f"{number}.txt").write_text("".join(f"{number} {line}\n" for line in range(200)))
        (corpus / "table.bin").write_bytes(b"PAR1" + bytes(100))
        of_trainer = ("--set", f"data.path={corpus}", "--set", f"local.trainer_command=[{BIN / 'prime-trainer'}]")
        said = r"6 files in \S+/corpus, matching \*: 5 used \(passed over: 1 Parquet as table.bin\), .* held out, .*; in \d+ outer steps 1 peer reads each sample \S+ times on average"
        done = self.call("up", write_manifest(self.directory), *of_trainer)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, rf"(?m)^ +Data {said}")
        self.assertRegex(done.stdout, r"held-out loss \d")
        up = self.up_detached("--quorum", 2, *of_trainer, outer_steps=3)
        # One level higher the same files have other names, and others of them would be held out.
        joined = self.call("join", up["invite"], "--name", "higher", "--set", f"local.data_path={corpus.parent}")
        self.assertEqual(joined.returncode, 4, joined.stderr)
        self.assertRegex(joined.stderr, r"error: the training data differs from the run's: the same files lie under `corpus/` here: let the path of the data "
                                        rf"lead to that folder\. In detail: this peer finds 6 files in \S+/above, .*; the run trains on {said}.* \[PR0306\]")
        self.assertNotIn("Welcome", joined.stderr, "nobody is welcome who is refused")
        told = json.loads(self.call("status", up["run_id"], "-o", "json").stdout)
        self.assertNotIn("higher", [peer["name"] for peer in told["peers"]])
        other = self.directory / "other"
        shutil.copytree(corpus, other)
        (other / "3.txt").write_text("shorter")
        joined = self.call("join", up["invite"], "--name", "shorter", "--set", f"local.data_path={other}")
        self.assertEqual(joined.returncode, 4, joined.stderr)
        self.assertRegex(joined.stderr, r"differs from the run's: `3.txt` has 7 bytes here and \d+ in the run\. In detail: this peer finds")
        # In the background nobody saw that: status says it.
        joined = self.call("join", up["invite"], "-d", "--name", "unseen", "--set", f"local.data_path={other}")
        self.assertEqual(joined.returncode, 0, joined.stderr)
        refused = "unseen was started here, and not taken: the training data differs from the run's: `3.txt` has 7 bytes here"
        wait_until("the refusal", lambda: any(refused in problem for problem in self.status(up["run_id"])["run"]["problems"]))
        # As they are, neither would be taken again: no line says that it brings them back.
        self.assertNotIn("come back", self.call("status", up["run_id"]).stdout)
        same = self.directory / "same"
        shutil.copytree(corpus, same)
        joined = self.call("join", up["invite"], "--set", f"local.data_path={same}")
        self.assertEqual(joined.returncode, 0, joined.stderr)
        self.assertRegex(joined.stderr, r"(?m)^ +Data 6 files in \S+/same")
        self.assertIn("Done", joined.stderr)
        # Going on with other data is its owner's right, and said.
        for data, warned in ((same, False), (other, True)):
            of_other = ("--set", f"data.path={data}", *of_trainer[2:])
            done = self.call("up", write_manifest(self.directory, outer_steps=5), *of_other, "--from", up["run_id"])
            self.assertEqual(done.returncode, 0, done.stderr)
            warning = re.search(r"(?m)^warning: the data is not that of the run that this one goes on from: `3.txt` has 7 bytes here and \d+ there$", done.stderr)
            self.assertEqual(warned, warning is not None, done.stderr)

    @unittest.skipUnless((BIN / "prime-trainer").exists(), "this build has no trainer: libtorch is not instrumented")
    def test_a_joiner_with_other_data_that_is_faster_than_the_peers_of_up_is_refused_when_they_tell(self):
        corpora = [self.directory / name for name in ("own", "other")]
        for number, corpus in enumerate(corpora):
            corpus.mkdir()
            for file in range(5):
                (corpus / f"{file}.txt").write_text("".join(f"{file} {line}\n" for line in range(200 + number)))
        own, other = corpora
        gate = self.directory / "gate"
        slow = f"while [ ! -e {gate} ]; do sleep 0.05; done; exec {BIN / 'prime-trainer'}"
        up = self.up_detached("--quorum", 2, "--set", f"data.path={own}", "--set", f"local.trainer_command=[sh, -c, \"{slow}\"]", outer_steps=3)
        trainer = ("--set", f"local.trainer_command=[{BIN / 'prime-trainer'}]")
        wrong = self.start("join", up["invite"], "--name", "wrong", *trainer, "--set", f"local.data_path={other}")
        wait_until("the joiner's data", lambda: "data founded" in self.call("logs", "--run", up["run_id"]).stdout)
        gate.touch()
        code, _, err = self.finished(wrong)
        self.assertEqual(code, 4, err)
        self.assertRegex(err, r"the training data differs from the run's: .*PR0306")
        right = self.call("join", up["invite"], *trainer, "--set", f"local.data_path={own}")
        self.assertEqual(right.returncode, 0, right.stderr)
        self.assertIn("Done", right.stderr)

    @unittest.skipUnless((BIN / "prime-trainer").exists(), "this build has no trainer: libtorch is not instrumented")
    def test_data_that_cannot_be_used_is_named_with_the_key_and_not_tried_again(self):
        folder = self.directory / "data"
        folder.mkdir()
        (folder / "book.txt").write_text("text\n" * 2000)
        (folder / "table.parquet").write_bytes(b"PAR1" + bytes(2000))
        for path, include, why in ((folder, "*.nothing", r"`data.include` is \*.nothing, which matches none of its 2 files"),
                                   (folder, "*.parquet", r"can be read as plain text: 1 Parquet \(table.parquet\)"),
                                   (folder / "table.parquet", "*", r"table.parquet is Parquet, and only plain text can be read")):
            done = self.call("up", write_manifest(self.directory, restarts=3), "--set", f"data.path={path}", "--set", f"data.include={include}",
                             "--set", f"local.trainer_command=[{BIN / 'prime-trainer'}]")
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, why)
            self.assertNotIn("model.context", done.stderr)
            self.assertNotIn("restarts within", done.stderr)

    @unittest.skipUnless((BIN / "prime-trainer").exists(), "this build has no trainer: libtorch is not instrumented")
    def test_a_model_that_memory_does_not_hold_is_said_so_and_not_tried_again(self):
        trainer = self.directory / "trainer"
        trainer.write_text(f"#!/bin/sh\nulimit -v 4000000\nexec {pathlib.Path(PRIMECTL).parent / 'prime-trainer'}\n")
        trainer.chmod(0o755)
        done = self.call("up", write_manifest(self.directory), "--local", 1, "--set", "model.dim=32768", "--set", "data.path=/usr/include/linux",
                         "--set", f"local.trainer_command=[{trainer}]")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"memory, descriptors or threads are used up: the trainer's model: .*tried to allocate \d+ bytes.* \[PR0708\]")
        self.assertNotIn("restarts within", done.stderr)

    def test_a_killed_coordinator_ends_everything_with_its_name(self):
        process = self.start("up", write_manifest(self.directory, outer_steps=10000), "--local", "2", "-o", "json", env=SLOW)
        told = wait_until("the first step", lambda: (s := self.status()).get("run", {}).get("outer_step", 0) >= 1 and s)
        # Who guards it would start it again; with the guard the coordinator ends, too.
        os.kill(int(pathlib.Path(f"/proc/{told['coordinator']['pid']}/stat").read_text().rsplit(")", 1)[1].split()[1]), signal.SIGKILL)
        code, out, err = self.finished(process)
        self.assertEqual(code, 1, err)
        self.assertIn("PR0501", err)
        self.assertEqual(json.loads(out)["state"], "failed")
        self.assertEqual(self.status(told["run"]["id"])["run"]["reason"], "the coordinator was lost")
        self.all_have_ended()

    def test_a_killed_coordinator_that_is_guarded_comes_back_and_the_table_says_so(self):
        hold, held = self.hold_at(20)
        process = self.start("up", write_manifest(self.directory, outer_steps=30), "--local", "2", env=held)
        told = wait_until("the first step", lambda: (s := self.status()).get("run", {}).get("outer_step", 0) >= 1 and s)
        guard = int(pathlib.Path(f"/proc/{told['coordinator']['pid']}/stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(guard, signal.SIGSTOP)
        os.kill(told["coordinator"]["pid"], signal.SIGKILL)
        hold.unlink()
        waits = "the coordinator, which its guard starts again"
        wait_until("a status that tells it", lambda: self.status()["run"]["waiting_for"] == waits)
        os.kill(guard, signal.SIGCONT)
        code, out, err = self.finished(process)
        self.assertEqual(code, 0, err)
        self.assertIn(f"for {waits}", err)
        self.assertIn("the coordinator is back: the one before it was killed by SIGKILL", out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
