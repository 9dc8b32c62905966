"""`primectl pause` and `primectl resume`: a run that stands still between two outer steps, with its peers in their seats."""

import json
import os
import re
import signal
import unittest

from primectl import BIN, on_terminal, wait_until, write_manifest
from runs import SLOW, RunCase


class Pause(RunCase):
    def begin(self, *arguments, steps=10000, **options):
        up = self.up_detached("--local", 2, *arguments, outer_steps=steps, env=SLOW, **options)
        self.wait_for_step(up["run_id"], 1)
        return up

    def held(self, run):
        return wait_until("the run to be held", lambda: (told := self.status(run))["run"]["state"] == "paused" and told)

    def journal(self, up):
        with open(f"{up['state_dir']}/coordinator/journal.jsonl", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def test_a_paused_run_stands_still_whoever_looks_at_it_and_goes_on_with_the_same_peers(self):
        up = self.begin()
        watching = self.start("attach")
        done = self.call("pause")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, rf"^{up['run_id']} is paused(: outer step \d+, which is under way, ends first)?; `primectl resume {up['run_id']}`")
        told = self.held(up["run_id"])
        self.assertIsNotNone(told["run"]["paused_since"])
        text = self.call("status").stdout
        self.assertRegex(text, rf"Paused since \d\d:\d\d:\d\dZ, by `primectl pause`; `primectl resume {up['run_id']}` lets it go on\n")
        self.assertNotIn("Waiting for", text)
        self.assertEqual(len(re.findall(r"(?m)^[a-z]+-[a-z]+ +waiting .* waits for `primectl resume`$", text)), 2, text)
        again = json.loads(self.call("pause", "-o", "json").stdout)
        self.assertEqual((again["changed"], again["outer_step"]), (False, told["run"]["outer_step"]))
        # Who comes now has its seat, and trains nothing.
        joined = self.call("join", up["invite"], "-d", "--name", "late", "--set", f"local.trainer_command=[{BIN / 'quadratic_trainer'}]", env=SLOW)
        self.assertEqual(joined.returncode, 0, joined.stderr)
        wait_until("the joiner's seat", lambda: any(e["event"] == "peer_admitted" and e["name"] == "late" for e in self.journal(up)))
        told = self.status(up["run_id"])
        self.assertEqual((told["run"]["state"], len([p for p in told["peers"] if p["state"] == "training"])), ("paused", 3))
        self.assertEqual([e["event"] for e in self.journal(up) if e["event"] in ("outer_step_begun", "run_paused")][-1], "run_paused")
        done = self.call("resume")
        self.assertEqual((done.returncode, done.stdout), (0, f"{up['run_id']} goes on\n"), done.stderr)
        self.wait_for_step(up["run_id"], told["run"]["outer_step"] + 2)
        self.assertIsNone(self.status(up["run_id"])["run"]["paused_since"])
        self.assertFalse([e for e in self.journal(up) if e["event"] in ("peer_lost", "peer_left", "peer_absent")])
        self.assertEqual(self.call("resume").stdout, f"{up['run_id']} was not paused\n")
        self.assertEqual(self.call("down").returncode, 0)
        _, _, err = self.finished(watching)
        self.assertRegex(err, r"Waiting for `primectl resume`: paused by `primectl pause`")

    def test_a_coordinator_that_is_started_again_holds_it_still_since_the_same_time(self):
        up = self.begin()
        self.assertEqual(self.call("pause").returncode, 0)
        before = self.held(up["run_id"])
        os.kill(before["coordinator"]["pid"], signal.SIGKILL)
        wait_until("the coordinator's return", lambda: any(e["event"] == "coordinator_restarted" for e in self.journal(up)))
        wait_until("the peers' return", lambda: len([e for e in self.journal(up) if e["event"] == "peer_returned"]) == 2)
        after = self.held(up["run_id"])
        self.assertEqual(after["run"]["paused_since"], before["run"]["paused_since"])
        self.assertEqual(after["run"]["outer_step"], before["run"]["outer_step"])
        self.assertEqual(self.call("resume").returncode, 0)
        self.wait_for_step(up["run_id"], before["run"]["outer_step"] + 1)
        self.assertEqual(self.call("down").returncode, 0)

    def test_a_pause_that_nobody_answered_does_not_come_true_later(self):
        up = self.begin()
        coordinator = up["coordinator"]["pid"]
        os.kill(coordinator, signal.SIGSTOP)
        done = self.call("pause")
        os.kill(coordinator, signal.SIGCONT)
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("does not answer, and the run is not paused", done.stderr)
        self.wait_for_step(up["run_id"], self.status(up["run_id"])["run"]["outer_step"] + 2)
        self.assertIsNone(self.status(up["run_id"])["run"]["paused_since"])
        self.assertEqual(self.call("down").returncode, 0)

    def test_who_joins_a_paused_run_hears_what_it_waits_for(self):
        up = self.begin()
        self.assertEqual(self.call("pause").returncode, 0)
        self.held(up["run_id"])
        joiner, unbound = (self.start("join", up["invite"], "--state-dir", self.directory / name, "--set", f"local.trainer_command=[{trainer}]", env=SLOW)
                           for name, trainer in (("joiner", BIN / "quadratic_trainer"), ("unbound", "sleep, '1000'")))
        for process, awaited in ((unbound, "Waiting for its trainer, which has yet to bind its tensors"), (joiner, "Waiting to enter")):
            said = []
            while not said or awaited not in said[-1]:
                said.append(process.stderr.readline())
                self.assertNotEqual(said[-1], "", said)
        self.assertRegex("".join(said), r"Fetched revision \d+; this peer enters when an outer step begins\n")
        self.assertIn("an outer step has to begin, which a paused run does not", said[-1])
        self.assertEqual(self.call("resume").returncode, 0)
        while "Entered" not in said[-1]:
            said.append(joiner.stderr.readline())
            self.assertNotEqual(said[-1], "", said)
        self.assertEqual(self.call("down").returncode, 0)

    def test_a_paused_run_can_be_ended_and_is_saved(self):
        up = self.begin()
        self.assertEqual(self.call("pause").returncode, 0)
        told = self.held(up["run_id"])
        done = self.call("down")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"checkpoints/step-{told['run']['outer_step']:06}", done.stdout)
        for command in ("pause", "resume"):
            done = self.call(command, up["run_id"])
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("PR0404", done.stderr)

    def test_up_in_the_foreground_says_that_its_run_is_paused(self):
        watching = self.start("up", write_manifest(self.directory, outer_steps=10000), "--local", "1", env=SLOW)
        run = wait_until("a step", lambda: (told := self.status()).get("run", {}).get("outer_step", 0) >= 1 and told["run"]["id"])
        self.assertEqual(self.call("pause").returncode, 0)
        self.held(run)
        code, shown = on_terminal("status", state=self.directory, columns=60)
        self.assertIn("paused", shown.splitlines()[0])
        self.assertEqual(code, 0)
        watching.send_signal(signal.SIGTERM)
        _, _, err = self.finished(watching)
        self.assertRegex(err, r"Waiting for `primectl resume`")

    def test_only_the_machine_of_the_coordinator_can_pause(self):
        up = self.begin()
        joiner = self.directory / "joiner"
        self.assertEqual(self.call("join", up["invite"], "-d", "--state-dir", joiner, "--set", f"local.trainer_command=[{BIN / 'quadratic_trainer'}]",
                                   env=SLOW).returncode, 0)
        done = self.call("pause", up["run_id"], "--state-dir", joiner)
        self.assertEqual(done.returncode, 4, done.stdout)
        self.assertIn("is to be typed there", done.stderr)
        self.assertEqual(self.call("down", "--state-dir", joiner).returncode, 0)
        self.assertEqual(self.call("down").returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
