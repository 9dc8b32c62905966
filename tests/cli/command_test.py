"""primectl as a program: usage errors, exit codes, JSON, colours and what a call costs. No run is started."""

import json
import os
import pathlib
import resource
import signal
import subprocess
import unittest

from places import own_place, start_ticks, write_lines
from primectl import LIMIT_S, PRIMECTL, SOURCE, environment, on_terminal, primectl, temporary_directory, write_manifest

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
        self.assertRegex(self.call("version").stdout,
                         r"^primectl \d+\.\d+\.\d+ \(protocol \d+, prime\.checkpoint/\d+, CAF 0\.\d+\.\d+, OpenSSL 3\.\d+\.\d+, (libtorch \S+|no libtorch), \w+\)\n$")
        told = json.loads(self.call("version", "-o", "json").stdout)
        self.assertEqual(told["schema"], "primectl.version/1")
        self.assertGreaterEqual(told["protocol"], 1)
        self.assertRegex(told["checkpoint_format"], r"^prime\.checkpoint/\d+$")
        self.assertEqual({"caf_version", "openssl_version", "libtorch_version"} - set(told), set())

    def test_wrong_usage_exits_with_two_and_a_suggestion(self):
        self.refused(2, "stauts", says="did you mean `status`?")
        self.refused(2, "up", "--locl", "3", "run.yaml", says="no option `--locl`; did you mean `--local`?")
        self.refused(2, "up", says="FILE")
        self.refused(2, "status", "--nonsense", says="--nonsense")
        self.refused(2, "join", says="no invite")
        self.refused(2, "join", "prime://nonsense", says="PR0206")
        self.refused(2, "join", "x", "--set", "train.batch=1", says="only keys of `local`")
        self.refused(2, "logs", "--since", "soon", says="soon")
        self.refused(2, "bench", "allreduce", "--size", "4Q", says="`4Q` is no size such as 4096, 64K, 16M or 1G")

    def test_what_other_programs_call_a_command_leads_to_ours(self):
        for typed, meant in (("stop", "down"), ("rm", "remove"), ("list", "ls"), ("start", "up"), ("ps", "ls"), ("kill", "down")):
            self.refused(2, typed, says=f"no command `{typed}`; `{meant}` does that")

    def test_a_port_alone_and_the_placeholder_of_a_page_are_told_apart_from_nonsense(self):
        self.refused(2, "up", "--quiet", write_manifest(self.directory), "--listen", "7077", says="no host: it must read HOST:PORT, such as 0.0.0.0:7077")
        self.refused(2, "join", "prime://…", says="stands on the pages for an invite; `primectl invite` on the machine that started the run")
        self.refused(2, "doctor", "prime://10.0.0.1:7077/three-abcdef#…", says="stands on the pages")

    def test_wrong_usage_points_at_the_help_of_the_command(self):
        self.refused(2, "stauts", says="see `primectl --help`")
        self.refused(2, "--nonsense", says="see `primectl --help`")
        self.refused(2, "up", says="see `primectl up --help`")
        self.refused(2, "join", says="see `primectl join --help`")
        self.refused(2, "logs", "--since", "soon", says="see `primectl logs --help`")

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
        self.assertRegex(done.stdout, r": valid, digest [0-9a-f]{8} \(whether its data is there, `up` looks\)\n$")
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

    def test_a_plan_says_what_a_run_will_cost_and_what_it_lacks_to_say_more(self):
        manifest = SOURCE / "manifests" / "quickstart.yaml"
        told = json.loads(self.call("plan", manifest, "-o", "json").stdout)
        self.assertEqual((told["schema"], told["parameters"], told["peers"], told["agent_bytes"]), ("primectl.plan/1", 270816, 8, 9 * 4 * 270816))
        unknown = ("peak_bits_per_s", "mean_bits_per_s", "compute_utilization", "goodput", "reduce_s", "tokens_per_s")
        self.assertEqual([told[figure] for figure in unknown], [None] * len(unknown))
        self.assertEqual(told["links"], [])
        done = self.call("plan", manifest, "--peers", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2048 tokens / TOK/S of a peer", done.stderr)
        for option in ("--step-time", "--link", "--mtbf"):
            self.assertIn(f"Missing {option}, for ", done.stderr)
        self.assertEqual(self.call("plan", manifest, "-q").stderr, "")
        full = ("plan", manifest, "--peers", 3, "--link", "10Mbit/s", "--step-time", "100ms", "--mtbf", "24h")
        done = self.call(*full)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        told = json.loads(self.call(*full, "-o", "json").stdout)
        self.assertEqual([figure for figure in unknown if told[figure] is None], [])
        bits = 8 * told["outer_step_wire_bytes"] / 3
        self.assertAlmostEqual(told["compute_utilization"], 2 / (2 + bits / 10e6), 4)
        self.assertEqual([link["compute_utilization"] for link in told["links"]], [0.5, 0.8, 0.9, 0.95, 0.99])

    def test_a_plan_of_what_cannot_be_is_refused(self):
        manifest = write_manifest(self.directory)
        self.refused(2, "plan", self.directory / "nowhere.yaml", says="PR0201")
        self.refused(2, "plan", manifest, "--set", "sync.inner_stps=3", says="did you mean `inner_steps`?")
        self.refused(2, "plan", manifest, "--peers", 9, says="--peers 9 is more than `membership.peers` admits, 8")
        self.refused(2, "plan", manifest, "--link", "100", says="`100` is no rate such as 40Mbit/s or 1Gbit/s")
        self.refused(2, "plan", manifest, "--recovery", "1s", says="--mtbf")
        self.refused(2, "plan", manifest, "--set", "sync.fragments.count=64", says="too few for 64 fragments")
        self.refused(2, "plan", says="see `primectl plan --help`")

    def test_a_plan_fits_the_terminal(self):
        arguments = ("plan", SOURCE / "manifests" / "quickstart.yaml", "--link", "10Mbit/s", "--step-time", "100ms", "--mtbf", "24h")
        for columns in (60, 80, 200):
            code, shown = on_terminal(*arguments, state=self.directory, columns=columns)
            self.assertEqual(code, 0)
            self.assertLessEqual(max(map(len, shown.splitlines())), columns, shown)

    def test_every_figure_of_a_plan_is_explained(self):
        table = self.call("plan", SOURCE / "manifests" / "quickstart.yaml", "--link", "10Mbit/s", "--step-time", "100ms", "--mtbf", "24h",
                          "--set", "sync.fragments.count=2").stdout.split("\n\n")[0]
        figures = [line[:12].strip() for line in table.splitlines()[2:]]
        self.assertIn("round", figures)
        for figure in [*figures, "needed link"]:
            self.assertEqual(self.call("explain", figure).returncode, 0, figure)

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
        (self.directory / "data").mkdir()
        (self.directory / "data" / "little.h").write_text("int x;")
        self.refused(2, "up", "-q", manifest, "--set", "local.trainer_command=[]", "--set", f"data.path={self.directory}/data",
                     "--set", "data.include=\"*.h\"", says="one batch needs 4 [PR0302]")
        self.assertFalse((self.directory / "primectl").exists())

    def test_unknown_runs_and_a_machine_without_runs(self):
        done = self.call("ls")
        self.assertEqual(done.stdout, "RUN  STATE  STEP  BEGUN  SIZE  WHERE  REASON\n")
        self.assertRegex(done.stderr, f"^ *Looked into {self.directory}/primectl: no run has its files there\n$")
        self.assertEqual(json.loads(self.call("ls", "-o", "json").stdout), {"schema": "primectl.runs/1", "runs": []})
        for command in ("status", "down"):
            self.refused(3, command, "nothing", says="PR0402")
        for command in ("status", "down", "leave", "logs"):
            self.refused(3, command, says="PR0402")

    def test_a_state_directory_that_cannot_be_read_is_no_machine_without_runs(self):
        file = self.directory / "file"
        file.write_text("x")
        for command in ("ls", "status", "down", "leave", "logs"):
            self.refused(1, command, "--state-dir", file, says="PR0701")

    def write_journal(self, run, *events):
        path = self.directory / "primectl" / run / "coordinator" / "journal.jsonl"
        path.parent.mkdir(parents=True)
        lines = [{"t": "2031-05-04T09:14:02.137Z", "seq": seq, **event} for seq, event in enumerate(events, start=1)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def test_a_state_directory_that_is_a_run_or_lies_above_is_said_to_be(self):
        self.ended("small-aaaaaa")
        root = self.directory / "primectl"
        for command in (["status"], ["ls"], ["up", "--quiet", write_manifest(self.directory)]):
            self.refused(2, *command, "--state-dir", root / "small-aaaaaa", says=f"is the directory of one run: leave off its last part, `--state-dir {root}`")
        for command in ("status", "ls", "down"):
            self.refused(2, command, "--state-dir", self.directory, says=f"those in its folder `primectl` are meant by `--state-dir {root}`")

    def test_the_path_of_a_run_names_it(self):
        self.ended("small-aaaaaa")
        path = self.directory / "primectl" / "small-aaaaaa"
        for typed in (path, f"{path}/", path / ".." / "small-aaaaaa"):
            done = self.call("status", typed, "-o", "json", "--state-dir", self.directory / "primectl")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["run"]["id"], "small-aaaaaa")
        self.refused(3, "status", self.directory, says="is a path, and no run has its files there [PR0402]")

    def test_runs_of_another_user_are_counted_aloud(self):
        for run in ("small-aaaaaa", "small-bbbbbb"):
            self.ended(run)
        root = self.directory / "primectl"
        (root / "small-bbbbbb").chmod(0)
        (root / "no-run-of-ours").mkdir(mode=0)
        self.directory.chmod(0o755)
        who = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}

        def call(*words):
            return subprocess.run([PRIMECTL, *words, "--state-dir", str(root)], env=environment(), capture_output=True, text=True, timeout=LIMIT_S, check=False, **who)
        try:
            call("version")
        except PermissionError:
            self.skipTest(f"another user cannot run {PRIMECTL}")
        finally:
            self.addCleanup((root / "small-bbbbbb").chmod, 0o755)
            self.addCleanup((root / "no-run-of-ours").chmod, 0o755)
        for words in (["ls"], ["ls", "-o", "json"]):
            done = call(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("small-aaaaaa", done.stdout)
            self.assertEqual(done.stderr, "warning: 1 run that you may not read: small-bbbbbb; try sudo\n")
        done = call("status", "small-b")
        self.assertEqual(done.returncode, 3)
        self.assertIn("; there is 1 run that you may not read: small-bbbbbb; try sudo [PR0402]", done.stderr)

    def left_run(self, run="small-aaaaaa"):
        """One of another machine's, whose only peer here left."""
        write_lines(self.directory / "primectl" / run / "peers" / "bob-00000000" / "journal.jsonl",
                    {"event": "process_started", "pid": 1, "start_ticks": 1, "role": "agent", "run": run, "peer": "00000000000000a1", "name": "bob"},
                    {"event": "outer_step_begun", "outer_step": 4, "epoch": 1}, {"event": "peer_ended", "revision": 3, "phase": "leaving"},
                    {"event": "process_ended", "exit_code": 0})

    def test_a_machine_whose_peers_left_knows_that_the_run_may_go_on(self):
        self.left_run()
        for command in ("ls", "status"):
            said = self.call(command).stdout
            self.assertRegex(said, r"small-aaaaaa +left ")
            self.assertIn("the peers of this machine left; the run may go on elsewhere", said)
        self.assertEqual(json.loads(self.call("ls", "-o", "json").stdout)["runs"][0]["state"], "left")
        self.assertEqual(json.loads(self.call("status", "-o", "json").stdout)["run"]["state"], "left")
        self.assertEqual(self.call("status", "--check").returncode, 0)
        for command in ("pause", "resume", "attach", "invite"):
            done = self.refused(4, command, says=f"its coordinator is on another machine; `primectl {command}` is to be typed there [PR0406]")
            self.assertNotIn("NFS", done.stderr)
        self.assertEqual(self.call("explain", "left").stdout.count("left: "), 2)

    def test_a_run_in_the_place_of_a_peer_is_said_to_be_one(self):
        self.refused(3, "leave", "bob", says="PR0402")
        for run in ("small-aaaaaa", "large-bbbbbb"):
            self.ended(run)
        for command in ("logs", "leave"):
            for typed in ("small", "small-aaaaaa"):
                self.refused(2, command, typed, says=f"`{typed}` is a run, and no peer: `primectl {command} --run small-aaaaaa`")
        self.refused(2, "logs", "small", "--run", "large", says="`primectl logs --run small-aaaaaa`")

    def test_logs_end_with_as_many_lines_as_are_wished(self):
        lines = [{"event": "waiting", "phase": "training", "for": f"nothing {number}"} for number in range(40)]
        self.write_journal("small-aaaaaa", {"event": "process_started", "pid": 1, "start_ticks": 1, "run": "small-aaaaaa", "name": "small"}, *lines,
                           {"event": "run_done", "outer_step": 0}, {"event": "process_ended", "exit_code": 0})
        everything = self.call("logs").stdout.splitlines()
        self.assertEqual(len(everything), 43)
        self.assertEqual(self.call("logs", "--tail", 3).stdout.splitlines(), everything[-3:])
        self.assertEqual(self.call("logs", "--tail", 0).stdout, "")
        self.assertEqual(self.call("logs", "--tail", 100).stdout.splitlines(), everything)
        self.assertEqual(self.call("logs", "--follow").stdout.splitlines(), everything[-20:], "what led to what follows")
        self.assertEqual(self.call("logs", "--follow", "--tail", 30).stdout.splitlines(), everything[-30:])
        self.refused(2, "logs", "--tail", "x", says="--tail")

    def test_a_run_that_ended_here_is_not_joined(self):
        self.ended("small-aaaaaa")
        done = self.call("up", write_manifest(self.directory), "--local", 1, "--state-dir", self.directory / "other", "-d", "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        up = json.loads(done.stdout)
        try:
            manifest = pathlib.Path(up["state_dir"]) / "manifest.yaml"
            (self.directory / "primectl" / "small-aaaaaa" / "manifest.yaml").write_text(manifest.read_text())
            invite = up["invite"].replace(up["run_id"], "small-aaaaaa")
        finally:
            self.call("down", "--state-dir", self.directory / "other")
        for flags in ([], ["-d"]):
            self.refused(3, "join", invite, *flags, says="small-aaaaaa is done [PR0404]")

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
        self.assertEqual(self.call("status", "--check").returncode, 0)

    def test_nothing_of_a_stranger_reaches_a_terminal_as_more_than_text_and_json_has_it_all(self):
        evil = "a\x1b[2J\u202eb\x9bc\u2066d\r"
        self.write_journal("small-aaaaaa", {"event": "process_started", "pid": 1, "start_ticks": 1, "run": "small-aaaaaa", "name": evil},
                           {"event": "peer_joining", "peer": "00000000000000a1", "name": evil, "pid": 7, "address": evil},
                           {"event": "peer_lost", "peer": "00000000000000a1", "name": evil, "reason": evil},
                           {"event": "run_failed", "outer_step": 0, "tokens": 0, "reason": evil}, {"event": "process_ended", "exit_code": 1, "reason": evil})
        file = self.directory / evil
        file.write_text(f"version: 1\nrun: {evil[3:]}\n")
        for command in (("status",), ("ls",), ("logs",), ("validate", file), ("up", file), ("status", evil), ("join", evil), ("explain", evil),
                        ("remove", "small-aaaaaa"), (evil,)):
            done = self.call(*command)
            shown = done.stdout + done.stderr
            self.assertTrue(shown, command)
            for harmful in "\x1b\u202e\x9b\u2066\r":
                self.assertNotIn(harmful, shown, command)
            if command == ("status",):
                self.assertEqual(json.loads(self.call("status", "-o", "json").stdout)["run"]["reason"], evil)

    def test_logs_of_several_runs_that_have_ended_say_how_to_name_one(self):
        for run in ("small-aaaaaa", "small-bbbbbb"):
            self.write_journal(run, {"event": "process_started", "pid": 1, "start_ticks": 1, "run": run, "name": "small"},
                               {"event": "run_done", "outer_step": 0}, {"event": "process_ended", "exit_code": 0})
        self.refused(3, "logs", says="none is active; those that have ended: small-aaaaaa, small-bbbbbb")
        self.assertIn("process started", self.call("logs", "--run", "small-b").stdout)

    def test_a_coordinator_whose_process_is_gone_is_a_failed_run(self):
        # Process 1 lives, but it did not start at that time: the number was used again.
        self.write_journal("small-aaaaaa", {"event": "process_started", "pid": 1, "start_ticks": 1, "run": "small-aaaaaa", "name": "small"})
        self.write_journal("small-bbbbbb", {"event": "process_started", "pid": 1, "start_ticks": 1, "run": "small-bbbbbb", "name": "small"})
        told = json.loads(self.call("ls", "-o", "json").stdout)
        self.assertEqual([(run["id"], run["state"], run["reason"], run["where"], run["begun"]) for run in told["runs"]],
                         [(run, "failed", "the coordinator was lost", "here", "2031-05-04T09:14:02.137Z") for run in ("small-aaaaaa", "small-bbbbbb")])
        self.assertEqual(self.call("status", "small-aaaaaa", "--check").returncode, 5)
        self.assertEqual(self.call("status", "small-aaaaaa").returncode, 0)
        for name in ([], ["small"]):
            self.refused(3, "status", *name, says="none is active; those that have ended: small-aaaaaa, small-bbbbbb")
        self.assertRegex(self.call("ls").stdout, r"\nsmall-bbbbbb +failed +0 +2031-05-04T09:14:02.137Z +\d+ B +here +the coordinator was lost\n$")

    def test_an_error_keeps_its_own_words_in_the_list(self):
        reason = "a file could not be read or written: write journal.jsonl: No space left on device [PR0701]"
        self.write_journal("small-aaaaaa", {"event": "process_started", "pid": 1, "start_ticks": 1, "run": "small-aaaaaa", "name": "small"},
                           {"event": "run_failed", "outer_step": 3, "reason": reason})
        self.assertTrue(self.call("ls").stdout.endswith(f"  {reason}\n"))
        (run,) = json.loads(self.call("ls", "-o", "json").stdout)["runs"]
        self.assertEqual((run["state"], run["reason"]), ("failed", reason))

    def test_a_run_that_its_owner_stopped_is_listed_so(self):
        self.write_journal("small-aaaaaa", {"event": "process_started", "pid": 1, "start_ticks": 1, "run": "small-aaaaaa", "name": "small"},
                           {"event": "run_stopped", "outer_step": 3, "reason": "the run was stopped before its end: by its owner [PR0510]"})
        self.assertEqual([run["state"] for run in json.loads(self.call("ls", "-o", "json").stdout)["runs"]], ["stopped"])

    def test_of_several_runs_that_are_active_one_has_to_be_named(self):
        me = {"pid": os.getpid(), "start_ticks": start_ticks(os.getpid())}
        for run in ("large-aaaaaa", "small-aaaaaa", "small-bbbbbb"):
            self.write_journal(run, {"event": "process_started", "run": run, "name": run[:5], **me, **own_place()})
        self.write_journal("small-cccccc", {"event": "process_started", "pid": 1, "start_ticks": 1, "run": "small-cccccc", "name": "small"})
        self.refused(2, "status", says="large-aaaaaa, small-aaaaaa, small-bbbbbb [PR0403]")
        self.refused(2, "down", "small", says="`small`: small-aaaaaa, small-bbbbbb [PR0403]")
        told = json.loads(self.call("status", "large", "-o", "json").stdout)
        self.assertEqual((list(told)[:4], told["run"]["id"]), (["schema", "run", "coordinator", "peers"], "large-aaaaaa"))

    def ended(self, run, age_days=0):
        """A run that is over, of which nothing was heard for so long."""
        self.write_journal(run, {"event": "process_started", "pid": 1, "start_ticks": 1, "run": run, "name": run[:5]},
                           {"event": "run_done", "outer_step": 0}, {"event": "process_ended", "exit_code": 0})
        journal = self.directory / "primectl" / run / "coordinator" / "journal.jsonl"
        then = journal.stat().st_mtime - age_days * 86400
        os.utime(journal, (then, then))

    def lives_here(self, run):
        me = {"pid": os.getpid(), "start_ticks": start_ticks(os.getpid())}
        self.write_journal(run, {"event": "process_started", "run": run, "name": run[:5], **me, **own_place()},
                           {"event": "run_done", "outer_step": 0})

    def left(self):
        return sorted(path.name for path in (self.directory / "primectl").iterdir())

    def test_all_runs_that_have_ended_are_removed_and_what_lives_is_kept_by_name(self):
        self.assertEqual(self.call("remove", "--all", "--yes").stdout, "nothing to remove\n")
        for run in ("small-aaaaaa", "small-bbbbbb"):
            self.ended(run)
        self.lives_here("small-cccccc")
        (self.directory / "primectl" / "no-run").mkdir()
        for flags in (["--all"], ["--older", "0d"]):
            self.refused(2, "remove", *flags, says="nobody can be asked here, which is no terminal: `--yes` removes 2 runs")
        done = self.call("remove", "--all", "--yes", "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual((told["schema"], told["removed"]), ("primectl.remove/1", ["small-aaaaaa", "small-bbbbbb"]))
        (kept,) = told["kept"]
        self.assertEqual(kept["run_id"], "small-cccccc")
        self.assertIn("still runs here; `primectl down small-cccccc` ends it", kept["reason"])
        self.assertEqual(self.left(), ["no-run", "small-cccccc"])
        self.assertEqual(self.call("remove", "--all", "--yes").stdout,
                         "kept small-cccccc: small-cccccc still runs here; `primectl down small-cccccc` ends it\n")

    def test_runs_are_removed_by_their_age(self):
        self.ended("small-aaaaaa", age_days=8)
        self.ended("small-bbbbbb", age_days=6)
        self.assertEqual(self.call("remove", "--older", "7d", "--yes").stdout, "removed small-aaaaaa\n")
        self.assertEqual(self.call("remove", "--older", "7d", "--yes").stdout, "nothing to remove\n")
        self.assertEqual(self.call("remove", "--older", "100h", "--yes").stdout, "removed small-bbbbbb\n")

    def test_on_a_terminal_it_asks_before_it_removes_many(self):
        self.ended("small-aaaaaa")
        for answer in ("n", "", "x", "yess"):
            code, shown = on_terminal("remove", "--all", state=self.directory, typed=answer + "\n")
            self.assertEqual(code, 0, shown)
            self.assertRegex(shown, r"small-aaaaaa\n(.*\n)*.*remove 1 run, \d+ B, checkpoints with them\? \[y/N\] ")
            self.assertIn("all of them", shown)
            self.assertNotIn("nothing to remove", shown)
            self.assertEqual(self.left(), ["small-aaaaaa"])
        code, shown = on_terminal("remove", "--all", state=self.directory, typed="y\n")
        self.assertEqual((code, self.left()), (0, []), shown)
        self.assertIn("removed small-aaaaaa", shown)
        self.ended("small-bbbbbb")
        self.assertEqual(on_terminal("remove", "small", state=self.directory)[0], 0, "whoever names it is not asked")

    def test_lists_fit_the_terminal(self):
        reason = "a file could not be read or written: write journal.jsonl: No space left on device [PR0701]"
        self.write_journal("small-aaaaaa", {"event": "process_started", "pid": 1, "start_ticks": 1, "run": "small-aaaaaa", "name": "small"},
                           {"event": "run_failed", "outer_step": 3, "reason": reason})
        for columns in (60, 80, 200):
            code, shown = on_terminal("ls", state=self.directory, columns=columns)
            self.assertEqual(code, 0)
            self.assertTrue(all(len(line) <= columns for line in shown.splitlines()), shown)
            self.assertIn("a file could not be", shown)
        self.assertIn(reason, shown)

    def test_an_invite_is_of_a_run_that_is_active_here(self):
        self.refused(3, "invite", says="PR0402")
        self.ended("small-aaaaaa")
        self.refused(3, "invite", says="small-aaaaaa is done [PR0404]")

    def test_a_run_that_has_ended_is_attached_from_its_journal(self):
        self.write_journal("small-aaaaaa", {"event": "process_started", "pid": 1, "start_ticks": 1, "run": "small-aaaaaa", "name": "small"},
                           {"event": "run_failed", "outer_step": 3, "reason": "a model diverged: loss is nan [PR0601]"})
        done = self.call("attach")
        self.assertIn("diverged", done.stderr)
        self.assertNotEqual(done.returncode, 0)
        self.ended("small-bbbbbb")
        self.assertEqual(self.call("attach", "small-b").returncode, 0)
        self.assertEqual(json.loads(self.call("attach", "small-b", "-o", "json").stdout)["schema"], "primectl.result/1")

    def test_whoever_watches_a_run_waits_for_peers_that_still_save(self):
        me = {"pid": os.getpid(), "start_ticks": start_ticks(os.getpid()), **own_place()}
        self.write_journal("small-aaaaaa", {"event": "process_started", "pid": 1, "start_ticks": 1, "run": "small-aaaaaa", "name": "small"},
                           {"event": "peer_admitted", "peer": "00000000000000a1", "name": "otter", "epoch": 1, "revision": 0},
                           {"event": "outer_step_committed", "outer_step": 1, "loss": 2.5, "contributors": ["00000000000000a1"]},
                           {"event": "run_done", "outer_step": 1}, {"event": "process_ended", "exit_code": 0})
        peer = self.directory / "primectl" / "small-aaaaaa" / "peers" / "otter-00000000000000a1" / "journal.jsonl"
        write_lines(peer, {"event": "process_started", "peer": "00000000000000a1", "name": "otter", "run": "small-aaaaaa", **me})
        watching = subprocess.Popen([PRIMECTL, "attach"], env=environment(XDG_STATE_HOME=str(self.directory)), stdout=subprocess.PIPE, text=True)
        for wanted in ("held-out", " 2.500 "):
            self.assertIn(wanted, watching.stdout.readline())
        with peer.open("a") as journal:
            saved = {"event": "checkpoint_written", "path": "/s/step-000001", "reason": "the end"}
            for seq, event in enumerate((saved, {"event": "process_ended", "exit_code": 0}), start=2):
                journal.write(json.dumps({"t": "2031-05-04T09:14:02.137Z", "seq": seq, **event}) + "\n")
        out, _ = watching.communicate(timeout=LIMIT_S)
        self.assertEqual(watching.returncode, 0)
        self.assertRegex(out, "Done 1 outer step in 0.0s(.*\n)*.*Checkpoint /s/step-000001")

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
            self.assertEqual(done.stderr, f"warning: {journal}: 2 lines are damaged or missing\n")
        journal.write_text("".join(rest))
        for command in whole:
            self.assertEqual(self.call(*command).stderr, f"warning: {journal}: 1 line is damaged or missing\n")

    def test_explain_knows_codes_and_keys(self):
        self.assertIn("AddressTaken", self.call("explain", "PR0703").stdout)
        self.assertIn("inner_steps", self.call("explain", "sync.inner_steps").stdout)
        self.assertEqual(json.loads(self.call("explain", "PR0703", "-o", "json").stdout)["name"], "AddressTaken")
        self.refused(2, "explain", "sync.inner_stps", says="did you mean `sync.inner_steps`")
        self.assertEqual(self.call("explain", "pr0703").stdout, self.call("explain", "PR0703").stdout)
        self.assertEqual(self.call("explain", "addresstaken").stdout, self.call("explain", "PR0703").stdout)
        self.refused(2, "explain", "sync.batch", says="did you mean `train.batch`")
        self.refused(2, "explain", "digst", says="did you mean `digest`?")
        self.refused(2, "explain", "foo.bar", says="no error code, manifest key or word is called `foo.bar`; `primectl explain` lists them all")

    def test_explain_knows_the_words_of_its_tables(self):
        self.assertIn("nothing is sent", self.call("explain", "inner", "step").stdout)
        self.assertIn("parameters, momentum, versions", self.call("explain", "Digest").stdout)
        for typed, says in (("evict", "join again as a new peer"), ("votes", "tells the coordinator its digest"), ("state", "`primectl pause`")):
            self.assertIn(says, self.call("explain", typed).stdout)
        self.assertIn("follow the hint", self.call("explain", "PR0703").stdout)
        self.assertEqual(json.loads(self.call("explain", "of limit", "-o", "json").stdout)["schema"], "primectl.word/1")
        measured = self.call("bench", "kernels", "--size", "4K")
        self.assertRegex(measured.stderr, "Measuring +encode of int8")  # it may take minutes: what it is at is said, and not in the table
        self.assertNotIn("Measuring", measured.stdout)
        reduces = self.call("bench", "allreduce", "--size", "4K", "--peers", 2, "--repeat", 3)
        self.assertRegex(reduces.stderr, r"Measuring +2 peers, warming up\n(.*\n)*.*Measuring +2 peers, round 3 of 3\n")
        measure = (PRIMECTL, "bench", "allreduce", "--size", "4K", "--peers", "2", "--repeat", "3", "--paced", "-o", "json")
        in_turns = subprocess.run(measure, input="\n" * 5, capture_output=True, text=True, timeout=LIMIT_S)  # two rounds warm up
        self.assertEqual(json.loads(in_turns.stdout)["bytes"], 4096)
        cut_off = subprocess.run(measure, input="\n" * 4, capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(cut_off.returncode, 2)
        self.assertIn("--paced: standard input ended before round 3 of 3", cut_off.stderr)
        for flags in (["--paced"], ["--peers", "4"], ["--lane", "tcp"]):
            self.refused(2, "bench", "kernels", *flags, says="kernels run on one thread")
        for size in ("0", "3", "-4", "99999999999999999999"):
            self.refused(2, "bench", "allreduce", "--size", size, says="no f32 values")
        self.refused(1, "bench", "allreduce", "--size", "64T", says="the tensors of 2 peers take")
        for flags, says in ((("--codec", "none,int4", "--schedule", "direct,ring"), "codec int4 does not exist as a ring; use direct"),
                            (("--codec", "int8", "--schedule", "whole", "--size", "4K"), "codec int8 is not exchanged whole"),
                            (("--schedule", "whole", "--size", "64K", "--tags", "1,2"), "exchanged whole are 32768 bytes at most")):
            self.refused(2, "bench", "allreduce", *flags, says=says)
        titles = measured.stdout.splitlines()[0]
        for column in ("path", "GB/s touched", "of memcpy"):
            self.assertIn(column, titles)
            self.assertEqual(self.call("explain", column).returncode, 0, column)

    def test_a_benchmark_ends_by_name_when_one_of_its_processes_is_killed_or_stands_still(self):
        for sign, code, timeout, says in ((signal.SIGKILL, 1, "60s", "a peer was lost: rank {} was ended by signal 9"),
                                          (signal.SIGSTOP, 6, "5s", "rank {} stands still")):
            measuring = subprocess.Popen([PRIMECTL, "bench", "allreduce", "--size", "4M", "--peers", "3", "--repeat", "1000", "--timeout", timeout],
                                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            while "round 3 of" not in (line := measuring.stderr.readline()):
                self.assertNotEqual(line, "")
            children = [int(pid) for pid in pathlib.Path(f"/proc/{measuring.pid}/task/{measuring.pid}/children").read_text().split()]
            self.assertEqual(len(children), 3)
            os.kill(children[1], sign)
            with measuring.stderr:
                rest = measuring.stderr.read()
            self.assertEqual(measuring.wait(LIMIT_S), code)
            self.assertIn(says.format(1), rest)
            self.assertNotIn("could not be started", rest)
            self.assertFalse(any(pathlib.Path(f"/proc/{pid}").exists() for pid in children))

    def test_explain_lists_what_it_knows(self):
        page = self.call("explain").stdout
        for known in ("PR0703", "sync.inner_steps", "pseudo-gradient"):
            self.assertIn(known, page)
        schemas = {json.loads(line)["schema"] for line in self.call("explain", "-o", "json").stdout.splitlines()}
        self.assertEqual(schemas, {"primectl.error/1", "primectl.key/1", "primectl.word/1"})

    def test_simulate_ends_on_one_object(self):
        churn = SOURCE / "manifests" / "scenarios" / "churn.yaml"
        done = self.call("simulate", churn, "--seed", 7, "--peers", 6, "-o", "json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        told = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(list(told), ["schema", "scenario", "seed", "peers", "outer_steps_committed", "aborted", "violations", "probes_hit", "virtual_s",
                                      "joins", "join_p50_s", "join_p99_s"])
        self.assertEqual((told["schema"], told["scenario"], told["seed"], told["peers"], told["violations"]),
                         ("primectl.simulate/1", "churn", 7, 6, []))
        self.assertGreaterEqual(told["outer_steps_committed"], 1)
        self.assertIn("fault join", told["probes_hit"])
        self.assertEqual(self.call("simulate", churn, "--seed", 7, "--peers", 6, "-o", "json").stdout, done.stdout)
        self.assertRegex(self.call("simulate", churn).stdout, r"^churn, seed 1, \d peers: done; \d+ outer steps committed, .* of virtual time\n$")

    def test_simulate_runs_every_scenario_of_the_repository_over_several_seeds(self):
        paths = sorted((SOURCE / "manifests" / "scenarios").glob("*.yaml"))
        self.assertGreaterEqual(len(paths), 10)
        for path in paths:
            done = self.call("simulate", path, "--seeds", "4..6", "-o", "json")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([json.loads(line)["seed"] for line in done.stdout.splitlines()], [4, 5, 6])

    def test_a_simulation_that_fails_exits_with_one_and_prints_what_replays_it(self):
        scenario = self.directory / "a scenario.yaml"
        scenario.write_text("version: 1\nscenario: doomed\npeers: 3\nfaults: [{kind: kill, count: 40, at: 4s}]\nends: [done]\n")
        done = self.call("simulate", scenario, "--seeds", "1..2", "-o", "json")
        self.assertEqual(done.returncode, 1)
        objects = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([told["violations"] for told in objects],
                         [["the run ends with TooFewPeers, which the scenario's `ends` does not allow"]] * 2)
        self.assertEqual(done.stderr.count("its last events"), 1)
        replay = [line.removeprefix("replay: ") for line in done.stderr.splitlines() if line.startswith("replay: ")]
        self.assertEqual(len(replay), 2)
        self.assertTrue(replay[1].endswith(f"simulate '{scenario}' --seed 2"), replay[1])
        again = subprocess.run(replay[1], shell=True, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(again.returncode, 1)
        self.assertIn("fault <- kill", again.stderr)
        self.assertIn("seed 2, 3 peers: FAILED", again.stdout)

    def test_a_bad_scenario_exits_with_two_and_says_where(self):
        scenario = self.directory / "bad.yaml"
        scenario.write_text("version: 1\nscenario: bad\nfaults:\n  - {kind: kil, at: 5s}\n")
        done = self.refused(2, "simulate", scenario, says="did you mean `kill`?")
        self.assertIn("bad.yaml:4:12", done.stderr)
        self.refused(2, "simulate", self.directory / "nowhere.yaml", says="PR0201")
        done = self.refused(2, "simulate", SOURCE / "manifests" / "quickstart.yaml", says="this is a run manifest, and not a scenario")
        self.assertEqual(done.stderr.count("error:"), 1, done.stderr)
        self.assertIn("manifests/scenarios/", done.stderr)
        scenario.write_text("version: 1\nscenario: narrow\npeers: 4\nmembership: {minimum: 3}\n")
        self.refused(2, "simulate", scenario, "--peers", 2, says="fewer than the scenario's `membership.minimum`, 3")

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
