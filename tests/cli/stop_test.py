"""How a run is stopped, what is left of it and of who never took part, and how another one goes on from it."""

import json
import os
import pathlib
import re
import signal
import unittest

from primectl import PRIMECTL, write_manifest
from runs import SLOW, RunCase, lives, wait_until


class Stops(RunCase):
    def test_the_line_that_down_prints_goes_on_as_the_run_was_started_from_any_folder(self):
        (self.directory / "program").symlink_to(PRIMECTL)
        state = self.directory / "the state"
        write_manifest(self.directory)
        as_started = "up run.yaml --local 2 --set train.outer_steps=10000 --set 'train.schedule={constant: {}}' --detach"
        up = self.paste(f"./program {as_started} --state-dir 'the state'")
        self.assertEqual(up.returncode, 0, up.stderr)
        first = re.match(r"run (\S+) goes on", up.stdout)[1]
        wait_until("a step", lambda: self.step_of(first, state))
        line = self.paste(f"'{PRIMECTL}' down --state-dir '{state}'", "/").stdout.splitlines()[-1].strip()
        self.assertEqual(line, f"cd {self.directory} && {PRIMECTL} {as_started} --from {first} --state-dir '{state}'")
        again = self.paste(line, "/")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn(f"Continuing {state}/{first}/", again.stderr.replace("  ", ""))
        second = re.match(r"run (\S+) goes on", again.stdout)[1]
        wait_until("a step more", lambda: self.step_of(second, state) > self.step_of(first, state))
        line = self.paste("./program down --state-dir 'the state'").stdout.splitlines()[-1].strip()
        self.assertEqual(line, f"./program {as_started} --from {second} --state-dir '{state}'")
        third = re.match(r"run (\S+) goes on", self.paste(line).stdout)[1]
        wait_until("a step more", lambda: self.step_of(third, state) > self.step_of(second, state))
        # Of a run that was started on another machine the checkpoint holds the manifest.
        (state / third / "start.json").unlink()
        done = self.paste("./program down --state-dir 'the state'")
        saved = re.findall(r"saved (.*)", done.stdout)[-1]
        self.assertIn(f"  ./program up '{saved}/prime/manifest.yaml' --from {third} --state-dir '{state}'\n", done.stdout)
        self.assertEqual(self.paste(f"./program validate '{saved}/prime/manifest.yaml'").returncode, 0)

    def test_a_run_goes_on_with_another_learning_rate_and_never_with_another_model(self):
        manifest = write_manifest(self.directory)
        first = json.loads(self.call("up", manifest, "-o", "json").stdout)
        more = ("up", manifest, "-o", "json", "--from", first["run_id"], "--set", "train.outer_steps=5")
        refused = self.call(*more, "--set", "model.dim=16", "--set", "model.heads=4")
        self.assertEqual((refused.returncode, refused.stdout), (2, ""), refused.stderr)
        self.assertIn("`model.dim` is 16 here and 8 there, `model.heads` is 4 here and 2 there", refused.stderr)
        self.assertIn("PR0304", refused.stderr)
        self.assertIn("repeat the `--set`", refused.stderr)
        self.assertNotIn("Starting", refused.stderr)
        self.assertEqual(self.status()["run"]["id"], first["run_id"], "nothing has begun")
        done = self.call(*more, "--set", "sync.outer.nesterov.lr=0.5", "--set", "train.schedule={constant: {}}")
        self.assertEqual(json.loads(done.stdout)["outer_step"], 5, done.stderr)

    def test_a_stopped_run_reads_so_in_every_result(self):
        process = self.start("up", write_manifest(self.directory, outer_steps=10000), "--local", "2", "-o", "json", env=SLOW)
        wait_until("the first step", lambda: self.status().get("run", {}).get("outer_step", 0) >= 1)
        process.send_signal(signal.SIGINT)
        _, out, err = self.finished(process)
        self.assertEqual(json.loads(out)["state"], "interrupted", err)
        # Stopped from elsewhere, while `up` watches.
        process = self.start("up", write_manifest(self.directory, outer_steps=10000), "--local", "2", "-o", "json", env=SLOW)
        up = wait_until("the first step", lambda: (s := self.active()) and s["outer_step"] >= 1 and s)
        elsewhere = self.directory / "elsewhere"
        joined = self.call("join", (self.directory / "primectl" / up["id"] / "invite").read_text().strip(), "-d", "--state-dir", elsewhere,
                           "--set", f"local.trainer_command=[{self.trainer()}]", env=SLOW)
        self.assertEqual(joined.returncode, 0, joined.stderr)
        self.assertEqual(self.call("down", up["id"]).returncode, 0)
        code, out, err = self.finished(process)
        self.assertEqual((code, json.loads(out)["state"]), (1, "failed"), err)
        self.assertIn("PR0510", err)
        # The machine of a joiner has no coordinator's journal.
        told = wait_until("the joiner's end", lambda: (s := json.loads(self.call("status", "-o", "json", "--state-dir", elsewhere).stdout))["run"]
                          ["state"] not in ("waiting", "training") and s)
        self.assertEqual((told["run"]["state"], told["peers"][0]["state"]), ("failed", "left"), told)

    def test_a_coordinator_that_does_not_end_when_it_is_told_is_killed_and_its_run_is_stopped(self):
        up = self.up_detached("--local", 2, outer_steps=10000, env=SLOW)
        self.wait_for_step(up["run_id"], 1)
        os.kill(up["coordinator"]["pid"], signal.SIGSTOP)
        done = self.call("down", "-o", "json")
        self.assertGreaterEqual(json.loads(done.stdout)["killed"], 1)
        told = self.status()
        self.assertRegex(told["run"]["reason"], "by force.*PR0510")
        self.assertIn("Stopped: ", self.call("status").stdout)

    def test_a_run_whose_journals_were_emptied_is_not_removed_while_it_runs_and_can_be_ended(self):
        up = self.up_detached("--local", 2, outer_steps=10000, env=SLOW)
        self.wait_for_step(up["run_id"], 1)
        pids = [peer["pid"] for peer in self.status()["peers"]] + [up["coordinator"]["pid"]]
        for journal in sorted({*pathlib.Path(up["state_dir"]).glob("coordinator/journal.jsonl"), *pathlib.Path(up["state_dir"]).glob("peers/*/journal.jsonl")}):
            os.truncate(journal, 0)
        refused = self.call("remove", up["run_id"])
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("still runs here", refused.stderr)
        done = self.call("down", up["run_id"])
        self.assertIn("ended 2 peers and the coordinator", done.stdout)
        wait_until("their end", lambda: not any(map(lives, pids)))
        self.assertEqual(self.call("remove", up["run_id"]).returncode, 0)

    def test_down_after_all_peers_were_killed_says_what_is_lost(self):
        up = self.up_detached("--local", 2, outer_steps=10000, env=SLOW)
        told = self.wait_for_step(up["run_id"], 2)
        for peer in told["peers"]:
            os.kill(peer["pid"], signal.SIGKILL)
            wait_until("its end", lambda pid=peer["pid"]: not lives(pid))
        done = self.call("down")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, r"Not saved +.* ended by force, with outer step \d+")
        self.assertRegex(done.stderr, r"Not saved +outer steps 1 to \d+ were committed, and no peer here has saved them")

    def test_leave_in_a_state_directory_that_was_moved_waits_until_it_is_back_or_says_what_is_lost(self):
        for retry, moved_back in (("10min", True), ("1s", False)):
            up = self.up_detached("--local", 2, "--set", f"checkpoint.retry={retry}", outer_steps=10000, env=SLOW)
            self.wait_for_step(up["run_id"], 2)
            os.rename(self.directory / "primectl", self.directory / "moved")
            leaving = self.start("leave", "--state-dir", self.directory / "moved", "--run", up["run_id"])
            if moved_back:
                said = ""
                while "Waiting for" not in said:
                    said += (line := leaving.stderr.readline())
                    self.assertNotEqual(line, "", said)
                os.rename(self.directory / "moved", self.directory / "primectl")
            ended, out, err = self.finished(leaving)
            self.assertEqual(ended, 1, out + err)
            if moved_back:
                self.assertIn(f"the state directory is gone: {self.directory}/moved", err)
                self.assertEqual(len(list((self.directory / "primectl").glob("*/peers/*/checkpoints/step-*"))), 2)
            else:
                self.assertRegex(err, r"Not saved|could not save the state")
                os.rename(self.directory / "moved", self.directory / "primectl")
            self.call("down", up["run_id"])

    def test_nothing_is_left_of_whom_the_coordinator_refuses(self):
        up = self.up_detached("--set", "membership.peers=1..1", outer_steps=10000, env=SLOW)
        self.wait_for_step(up["run_id"], 1)
        journals = list(pathlib.Path(up["state_dir"]).glob("peers/*"))
        for more in ([], ["-d"]):
            # On the run's own machine, and on another one.
            for state in (self.directory / "elsewhere", self.directory / "primectl"):
                done = self.call("join", up["invite"], *more, "--state-dir", state)
                self.assertEqual(done.returncode, 4, done.stderr)
                self.assertIn("PR0414", done.stderr)
            self.assertEqual(json.loads(self.call("ls", "-o", "json", "--state-dir", self.directory / "elsewhere").stdout)["runs"], [])
            self.assertEqual(list((self.directory / "elsewhere").iterdir()), [])
            self.assertEqual(list(pathlib.Path(up["state_dir"]).glob("peers/*")), journals)
        self.assertEqual(len(self.status()["peers"]), 1)
        self.call("down", up["run_id"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
