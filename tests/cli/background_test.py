"""Runs that go on in the background: who watches them again, joins them later, and ends them by their name."""

import json
import pathlib
import re
import signal
import unittest

from primectl import on_terminal, wait_until, write_manifest
from runs import SLOW, RunCase


def steps_of(table):
    """Those that were committed: a held-out loss has a row of its own."""
    return [int(line.split()[0]) for line in table.splitlines() if re.match(r" +\d+ +\d", line)]


class Background(RunCase):
    def test_attach_shows_the_table_from_the_first_step_on_and_leaves_the_run_alone(self):
        up = self.up_detached("--local", 1, outer_steps=10000, env=SLOW)
        told = self.wait_for_step(up["run_id"], 3)
        watching = self.start("attach")
        seen = []
        while len(seen) < told["run"]["outer_step"] + 2:  # what was there, and what comes
            line = watching.stdout.readline()
            self.assertNotEqual(line, "")
            seen += steps_of(line)
        self.assertEqual(seen, list(range(1, len(seen) + 1)))
        watching.send_signal(signal.SIGINT)
        code, _, err = self.finished(watching)
        self.assertEqual(code, 130)
        self.assertRegex(err, f"Detached +from {up['run_id']}, which goes on")
        self.wait_for_step(up["run_id"], seen[-1] + 1)
        self.assertEqual(self.call("down").returncode, 0)

    def test_attach_ends_with_its_run_as_up_in_the_foreground_does(self):
        up = self.up_detached("--local", 1, outer_steps=5, env={"PRIME_QUADRATIC_DELAY_MS": "100"})
        watching = self.start("attach", up["run_id"])
        code, out, err = self.finished(watching)
        self.assertEqual(code, 0, err)
        self.assertEqual(steps_of(out), [1, 2, 3, 4, 5])
        self.assertRegex(out, r"\n +5 +- +\d+\.\d+ +-.*\n +Done 5 outer steps", "the last evaluation is of the last step")
        self.assertRegex(out, r"Done 5 outer steps in \d+\.\ds")
        self.assertRegex(out, "Checkpoint .*step-000005")
        again = self.call("attach", up["run_id"])
        self.assertEqual((again.returncode, again.stdout), (0, out), "from the journals alone it is the same")
        told = json.loads(self.call("attach", up["run_id"], "-o", "json").stdout)
        self.assertEqual((told["schema"], told["state"], told["outer_step"]), ("primectl.result/1", "done", 5))
        code, shown = on_terminal("attach", up["run_id"], state=self.directory, columns=60)
        self.assertEqual(code, 0)
        self.assertEqual(steps_of(shown), [1, 2, 3, 4, 5])

    def test_a_run_that_is_stopped_ends_its_watching(self):
        up = self.up_detached("--local", 1, outer_steps=10000, env=SLOW)
        self.wait_for_step(up["run_id"], 1)
        watching = self.start("attach")
        watching.stdout.readline()
        self.assertEqual(self.call("down", "small").returncode, 0)
        code, _, err = self.finished(watching)
        self.assertEqual(code, 1, err)
        self.assertIn("PR0510", err)
        self.assertRegex(err, "Saved .*step-")
        self.assertIn(f"--from {up['run_id']}", err)

    def test_a_coordinator_alone_lets_in_whoever_has_the_invite(self):
        manifest = write_manifest(self.directory, outer_steps=3)
        refused = self.call("up", manifest, "--local", 0, "--from", "x")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("`--local 0` starts none", refused.stderr)
        up = self.up_detached("--local", 0, outer_steps=20)
        hold, held = self.hold_at(20)
        self.assertEqual(up["peers"], [])
        done = self.call("invite")
        self.assertEqual((done.returncode, done.stdout), (0, up["invite"] + "\n"))
        self.assertIn(f" join '{up['invite']}'", done.stderr)
        told = json.loads(self.call("invite", "small", "-o", "json").stdout)
        self.assertEqual(told, {"schema": "primectl.invite/1", "run_id": up["run_id"], "invite": up["invite"]})
        elsewhere = self.directory / "elsewhere"
        joined = self.call("join", up["invite"], "-d", "--state-dir", elsewhere, "--set", f"local.trainer_command=[{self.trainer()}]", env=held)
        self.assertEqual(joined.returncode, 0, joined.stderr)
        refused = self.call("attach", "--state-dir", elsewhere)
        self.assertEqual(refused.returncode, 4, refused.stderr)
        self.assertIn("runs on another machine", refused.stderr)
        self.assertEqual(self.call("invite", "--state-dir", elsewhere).returncode, 4)
        self.assertEqual([run["where"] for run in json.loads(self.call("ls", "-o", "json", "--state-dir", elsewhere).stdout)["runs"]], ["peers here"])
        hold.unlink()
        wait_until("the end", lambda: self.status(up["run_id"])["run"]["state"] == "done")

    def test_a_coordinator_alone_in_the_foreground_ends_with_its_run(self):
        process = self.start("up", write_manifest(self.directory, outer_steps=3), "--local", 0)
        wait_until("its invite", lambda: self.call("invite").returncode == 0)
        invite = self.call("invite").stdout.strip()
        joined = self.call("join", invite, "-d", "--state-dir", self.directory / "elsewhere", "--set", f"local.trainer_command=[{self.trainer()}]")
        self.assertEqual(joined.returncode, 0, joined.stderr)
        code, out, err = self.finished(process)
        self.assertEqual(code, 0, err)
        self.assertIn("Starting a coordinator alone", err)
        self.assertIn("Done 3 outer steps", out)

    def test_a_coordinator_alone_is_stopped_as_any_run_is(self):
        process = self.start("up", write_manifest(self.directory), "--local", 0)
        wait_until("its invite", lambda: self.call("invite").returncode == 0)
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finished(process)[0], 130)
        self.up_detached("--local", 0)
        self.assertRegex(self.call("down").stdout, r"^ended the coordinator of small-\w{6}\n$")
        self.all_have_ended()

    def test_a_name_means_the_run_of_it_that_is_active(self):
        for _ in range(2):
            up = self.up_detached("--local", 1, outer_steps=1)
            wait_until("the end", lambda run=up["run_id"]: self.status(run)["run"]["state"] == "done")
        up = self.up_detached("--local", 1, outer_steps=10000, env=SLOW)
        self.wait_for_step(up["run_id"], 1)
        self.assertEqual(self.status("small")["run"]["id"], up["run_id"])
        self.assertEqual(json.loads(self.call("ls", "-o", "json").stdout)["runs"][0]["id"], up["run_id"], "the newest first")
        self.assertEqual(self.call("remove", "small").returncode, 2, "whatever is removed is named whole")
        self.assertIn(f"of {up['run_id']}", self.call("down", "small").stdout)
        self.assertEqual(self.call("down", "small").returncode, 3)
        told = json.loads(self.call("remove", "--all", "--yes", "-o", "json").stdout)
        self.assertEqual((len(told["removed"]), told["kept"]), (3, []))
        self.assertFalse(pathlib.Path(up["state_dir"]).exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
