"""primectl as a program: usage errors, exit codes, JSON, colours and what a call costs. No run is started."""

import json
import os
import pathlib
import resource
import subprocess
import unittest

from primectl import LIMIT_S, PRIMECTL, SOURCE, environment, primectl, temporary_directory, write_manifest

ESCAPE = "\x1b"


class Command(unittest.TestCase):
    def setUp(self):
        directory = temporary_directory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def call(self, *arguments, env=None):
        return primectl(*arguments, state=self.directory, env=env)

    def refused(self, code, *arguments, says):
        done = self.call(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertTrue(done.stderr.startswith("error: "), done.stderr)
        self.assertIn(says, done.stderr)
        return done

    def test_version_tells_what_it_is_made_of(self):
        self.assertRegex(self.call("version").stdout, r"^primectl \d+\.\d+\.\d+ \(protocol \d+, CAF 0\.\d+\.\d+, \w+\)\n$")
        told = json.loads(self.call("version", "-o", "json").stdout)
        self.assertEqual(told["schema"], "primectl.version/1")
        self.assertGreaterEqual(told["protocol"], 1)

    def test_wrong_usage_exits_with_two_and_a_suggestion(self):
        self.refused(2, "stauts", says="did you mean `status`?")
        self.refused(2, "up", says="FILE")
        self.refused(2, "status", "--nonsense", says="--nonsense")
        self.refused(2, "join", says="no invite")
        self.refused(2, "join", "prime://nonsense", says="PR0206")
        self.refused(2, "join", "x", "--set", "train.batch=1", says="only keys of `local`")
        self.refused(2, "logs", "--since", "soon", says="soon")

    def test_without_arguments_it_helps(self):
        done = self.call()
        self.assertEqual(done.returncode, 0)
        self.assertIn("status", done.stdout)

    def test_hidden_commands_cannot_be_misused_by_hand(self):
        for command in ("coordinator", "agent"):
            done = self.call(command, "--directory", self.directory, "--ready-fd", "1")
            self.assertEqual(done.returncode, 2)
            self.assertEqual(json.loads(done.stdout)["error"]["name"], "Usage")
            self.assertIn("launch plan", done.stderr)

    def test_valid_and_broken_manifests(self):
        good = write_manifest(self.directory)
        done = self.call("validate", good)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r": valid, digest [0-9a-f]{8}\n$")
        broken = self.directory / "broken.yaml"
        broken.write_text("version: 1\nrun: small\nsync: {inner_stps: 4}\ntrain: {batch: none}\n")
        done = self.call("validate", good, broken)
        self.assertEqual(done.returncode, 2)
        self.assertIn("PR0204", done.stderr)
        self.assertIn("inner_steps", done.stderr)
        self.assertIn("PR0203", done.stderr)
        told = json.loads(self.call("validate", "-o", "json", broken).stdout)
        self.assertEqual((told["schema"], told["valid"], len(told["problems"])), ("primectl.validate/1", False, 2))
        self.assertEqual(told["problems"][0]["line"], 3)

    def test_what_is_no_regular_file_is_no_manifest(self):
        pipe = self.directory / "pipe"
        os.mkfifo(pipe)
        for path in (pipe, "/dev/zero", self.directory):
            for command in ("validate", "up"):
                done = self.call(command, path)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("PR0201", done.stderr)

    def test_every_manifest_of_the_repository_is_valid(self):
        for path in sorted((SOURCE / "manifests").glob("*.yaml")):
            done = self.call("validate", path)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_up_starts_nothing_when_it_cannot_work(self):
        manifest = write_manifest(self.directory)
        self.refused(2, "up", "-q", self.directory / "nowhere.yaml", says="PR0201")
        self.refused(2, "up", "-q", manifest, "--local", 9, says="membership.peers")
        self.refused(2, "up", "-q", manifest, "--quorum", 9, says="--quorum 9 is more than `membership.peers` admits, 8")
        self.refused(2, "up", "-q", manifest, "--set", "local.trainer_command=[]", "--set", "data.path=/nowhere", says="PR0301")
        self.refused(2, "up", "-q", manifest, "--listen", "nonsense", says="error")
        self.assertFalse((self.directory / "primectl").exists())

    def test_unknown_runs_and_a_machine_without_runs(self):
        self.assertEqual(self.call("status").stdout, "no runs on this machine\n")
        self.assertEqual(json.loads(self.call("status", "-o", "json").stdout), {"schema": "primectl.status/1", "runs": []})
        for command in ("status", "down"):
            self.refused(3, command, "nothing", says="PR0402")
        for command in ("down", "leave", "logs"):
            self.refused(3, command, says="PR0402")

    def test_a_state_directory_that_cannot_be_read_is_no_machine_without_runs(self):
        file = self.directory / "file"
        file.write_text("x")
        for command in ("status", "down", "leave", "logs"):
            self.refused(1, command, "--state-dir", file, says="PR0701")

    def write_journal(self, run, *events):
        path = self.directory / "primectl" / run / "coordinator" / "journal.jsonl"
        path.parent.mkdir(parents=True)
        lines = [{"t": "2031-05-04T09:14:02.137Z", "seq": seq, **event} for seq, event in enumerate(events, start=1)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def test_a_finished_run_is_shown_from_its_journal(self):
        self.write_journal("small-aaaaaa", {"event": "process_started", "pid": 1, "start_ticks": 1, "run": "small-aaaaaa", "name": "small"},
                           {"event": "run_done", "outer_step": 0}, {"event": "process_ended", "exit_code": 0})
        told = json.loads(self.call("status", "-o", "json").stdout)
        self.assertEqual((told["run"]["id"], told["run"]["state"]), ("small-aaaaaa", "done"))
        self.assertEqual(json.loads(self.call("status", "sma", "-o", "json").stdout), told)
        self.assertEqual(self.call("status", "--watch").returncode, 0)
        self.assertIn("process started", self.call("logs").stdout)
        self.assertIn("process started", self.call("logs", "coord").stdout)
        self.refused(3, "logs", "nobody", says="no such peer on this machine: none called `nobody`")
        self.refused(3, "logs", "nobody", "--follow", says="PR0405")
        self.refused(3, "leave", says="PR0405")
        self.assertEqual(self.call("down", "small-aaaaaa").stdout, "nothing of small-aaaaaa runs on this machine\n")

    def test_a_coordinator_whose_process_is_gone_is_a_failed_run(self):
        # Process 1 lives, but it did not start at that time: the number was used again.
        self.write_journal("small-aaaaaa", {"event": "process_started", "pid": 1, "start_ticks": 1, "run": "small-aaaaaa", "name": "small"})
        self.write_journal("small-bbbbbb", {"event": "process_started", "pid": 1, "start_ticks": 1, "run": "small-bbbbbb", "name": "small"})
        told = json.loads(self.call("status", "-o", "json").stdout)
        self.assertEqual([(run["id"], run["state"], run["reason"]) for run in told["runs"]],
                         [("small-aaaaaa", "failed", "the coordinator was lost"), ("small-bbbbbb", "failed", "the coordinator was lost")])
        done = self.call("status", "small")
        self.assertIn("PR0403", done.stderr)
        self.assertIn("small-aaaaaa, small-bbbbbb", done.stderr)

    def test_no_escape_bytes_in_pipes_and_colour_when_asked(self):
        self.write_journal("small-aaaaaa", {"event": "process_started", "pid": 1, "start_ticks": 1, "run": "small-aaaaaa", "name": "small"})
        for env in ({}, {"NO_COLOR": "1"}, {"TERM": "dumb"}):
            for command in (["status"], ["logs"], ["stauts"]):
                done = self.call(*command, env=env)
                self.assertNotIn(ESCAPE, done.stdout + done.stderr)
        self.assertIn(ESCAPE, self.call("status", "--color", "always").stdout)

    def test_a_reader_that_goes_away_is_no_crash(self):
        # The reading end is closed before primectl writes.
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([PRIMECTL, "explain"], env=environment(), stdout=writer, stderr=subprocess.PIPE, timeout=LIMIT_S, check=False)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_output_that_cannot_be_written_is_an_error(self):
        self.write_journal("small-aaaaaa", {"event": "process_started", "pid": 1, "start_ticks": 1, "run": "small-aaaaaa", "name": "small"})
        manifest = write_manifest(self.directory)
        for command in (["status"], ["logs"], ["version"], ["validate", manifest], ["explain"], ["--help"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([PRIMECTL, *map(str, command)], env=environment(XDG_STATE_HOME=str(self.directory)), stdout=full,
                                      stderr=subprocess.PIPE, text=True, timeout=LIMIT_S, check=False)
            self.assertEqual(done.returncode, 1, command)
            self.assertIn("write the output: No space left on device [PR0701]", done.stderr)

    def test_damaged_lines_of_a_journal_are_counted_aloud(self):
        self.write_journal("small-aaaaaa", {"event": "process_started", "pid": 1, "start_ticks": 1, "run": "small-aaaaaa", "name": "small"},
                           {"event": "run_done", "outer_step": 0}, {"event": "process_ended", "exit_code": 0})
        journal = self.directory / "primectl" / "small-aaaaaa" / "coordinator" / "journal.jsonl"
        whole = {tuple(command): self.call(*command) for command in (["status"], ["logs"], ["down", "small"])}
        self.assertEqual({done.stderr for done in whole.values()}, {""})
        first, *rest = journal.read_text().splitlines(keepends=True)
        journal.write_text("".join([first, "garbage\n", '{"event": 3}\n', *rest]))
        for command, before in whole.items():
            done = self.call(*command)
            self.assertEqual((done.returncode, done.stdout), (before.returncode, before.stdout))
            self.assertEqual(done.stderr, f"warning: {journal}: 2 damaged lines are left out\n")

    def test_explain_knows_codes_and_keys(self):
        self.assertIn("AddressTaken", self.call("explain", "PR0703").stdout)
        self.assertIn("inner_steps", self.call("explain", "sync.inner_steps").stdout)
        self.assertEqual(json.loads(self.call("explain", "PR0703", "-o", "json").stdout)["name"], "AddressTaken")
        self.refused(2, "explain", "sync.inner_stps", says="did you mean `sync.inner_steps`?")

    def test_version_and_status_cost_less_than_fifty_milliseconds_of_processor_time(self):
        self.write_journal("small-aaaaaa", {"event": "process_started", "pid": 1, "start_ticks": 1, "run": "small-aaaaaa", "name": "small"},
                           *({"event": "outer_step_committed", "outer_step": step, "loss": 1.0} for step in range(500)))
        calls = 10
        for arguments in (["version"], ["status", "-o", "json"]):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            for _ in range(calls):
                self.assertEqual(self.call(*arguments).returncode, 0)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            each_ms = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / calls * 1000
            print(f"{arguments[0]}: {each_ms:.1f} ms of processor time")
            self.assertLess(each_ms, 50)


if __name__ == "__main__":
    unittest.main(verbosity=2)
