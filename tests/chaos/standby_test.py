"""Standby coordinators with a real etcd: who leads is killed with its guard, frozen or cut off from etcd, and the run goes on elsewhere
with the same bits, or ends by name. Nobody ever decides beside the leader."""

import contextlib
import json
import os
import pathlib
import random
import shlex
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from prime_run import BIN, LIMIT_S, PRIMECTL, Journal, Run, wait_until
from etcd import PROGRAM, Etcd
from forwarder import Forwarder

STEPS = 40
SLOW = {"PRIME_QUADRATIC_DELAY_MS": "5", "PRIME_QUADRATIC_ELEMENTS": "300000"}
SLOWER = SLOW | {"PRIME_QUADRATIC_DELAY_MS": "50"}  # ten seconds for fifty steps: a busy machine misses no moment
LEASE = "4s"


class Standby:
    """A coordinator that stands by, with files of its own as on another machine."""

    def __init__(self, run, etcd, name="standby"):
        self.state = run.directory / name
        done = subprocess.run([PRIMECTL, "standby", run.up["invite"], "--etcd", etcd.url, "-d", "-o", "json", "--state-dir", self.state],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)
        if done.returncode != 0:
            raise AssertionError(f"standby: exit {done.returncode}\n{done.stderr}")
        self.started = json.loads(done.stdout)
        self.address = self.started["address"]
        self.journal = Journal(pathlib.Path(self.started["state_dir"]) / "coordinator" / "journal.jsonl")

    def events(self, name):
        return [line for line in self.journal.lines() if line["event"] == name]

    def wait_for(self, name, count=1):
        return wait_until(f"{count} × {name} at the standby", lambda: (found := self.events(name)) and len(found) >= count and found)

    def status(self):
        out = subprocess.run([PRIMECTL, "status", self.started["run_id"], "-o", "json", "--state-dir", self.state], capture_output=True,
                             text=True, timeout=LIMIT_S, check=False)
        return json.loads(out.stdout)


class StandbyRun(Run):
    """A run whose coordinators keep their decisions in `etcd`; the standbys are ended with it."""

    def __init__(self, etcd, peers=3, lease=LEASE, **options):
        self.etcd = etcd
        self.standbys = []
        super().__init__(peers, standby=f"{{etcd: ['{etcd.url}'], lease: {lease}}}", **options)

    def stand_by(self):
        self.standbys.append(Standby(self, self.etcd, f"standby-{len(self.standbys)}"))
        return self.standbys[-1]

    def wait_until_known(self, standby):
        """By every peer: until then nobody would find it."""
        def known():
            return all(any(standby.address in line["addresses"] for line in lines if line["event"] == "coordinators")
                       for lines in self.peer_journals().values())
        wait_until("all peers to know the standby", known)

    def __exit__(self, failed, *rest):
        for standby in self.standbys:
            for line in standby.events("process_started"):
                for pid in (line["guard_pid"], line["pid"]):
                    if str(standby.state).encode() in command_line(pid):
                        with contextlib.suppress(ProcessLookupError):  # a coordinator goes with its guard
                            os.kill(pid, signal.SIGCONT)
                            os.kill(pid, signal.SIGKILL)
            if failed:
                for line in standby.journal.lines()[-30:]:
                    print({key: value for key, value in line.items() if key not in ("digest", "seq", "contributors")})
        super().__exit__(failed, *rest)

    def commits(self):
        """What all coordinators committed, by revision; a line that two of them tell is the same twice."""
        commits = {}
        for lines in (self.coordinator(), *(standby.journal.lines() for standby in self.standbys)):
            for line in lines:
                if line["event"] == "outer_step_committed":
                    same = {key: line[key] for key in ("epoch", "revision", "digest", "contributors", "weight")}
                    assert commits.setdefault(line["revision"], same) == same, f"two coordinators decided revision {line['revision']}"
        return commits

    def decided(self):
        """The same, once the run is over: every revision, and no peer has applied anything else."""
        commits = self.commits()
        revisions = sorted(commits)
        assert revisions == list(range(1, len(revisions) + 1)), revisions
        for name, lines in self.peer_journals().items():
            for line in lines:
                if line["event"] == "outer_step_committed":
                    assert line["digest"] == commits[line["revision"]]["digest"], f"{name}: revision {line['revision']}"
        return commits

    def wait_for_peers(self):
        """Those of `up`; the last that each has said."""
        for peer in self.up["peers"]:
            wait_until(f"the end of {peer['name']}", lambda pid=peer["pid"]: not self.ours(pid))
        names = tuple(peer["name"] for peer in self.up["peers"])
        return [lines[-1] for directory, lines in self.peer_journals().items() if directory.startswith(names)]


def command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def undisturbed():
    with Run(3, outer_steps=STEPS, env=SLOW) as run:
        assert run.wait_for_end() == 0
        return {c["revision"]: c["digest"] for c in run.check(outer_steps=STEPS)}


@unittest.skipUnless(PROGRAM, "etcd is not installed: `./dev setup --test` installs it")
class StandbyTakesOver(unittest.TestCase):
    def test_a_machine_that_is_gone_for_good_is_taken_over_with_the_same_bits(self):
        digests = undisturbed()
        with Etcd() as etcd, StandbyRun(etcd, outer_steps=STEPS, held_at=STEPS, dead_after="20s", env=SLOW) as run:
            standby = run.stand_by()
            run.wait_until_known(standby)
            run.wait_for("outer_step_committed", 5)
            os.kill(run.guard(), signal.SIGKILL)  # the coordinator ends with it
            wait_until("the coordinator's end", lambda: not run.ours(run.coordinator_pid()))
            run.hold.unlink()
            standby.wait_for("run_done")
            for last in run.wait_for_peers():
                self.assertEqual(last["exit_code"], 0, last)
            standby.wait_for("process_ended")
            commits = run.decided()
            self.assertEqual({revision: c["digest"] for revision, c in commits.items()}, digests)
            self.assertEqual({c["epoch"] for c in commits.values()}, {commits[1]["epoch"]}, "nobody was lost, so the view stays")
            self.assertEqual(standby.status()["run"]["state"], "done")

    def test_a_run_that_its_owner_paused_stands_still_under_the_standby_until_it_is_told_there(self):
        with Etcd() as etcd, StandbyRun(etcd, outer_steps=STEPS, held_after=STEPS // 2, dead_after="20s", env=SLOW) as run:
            standby = run.stand_by()
            run.wait_until_known(standby)
            run.wait_for("outer_step_committed", 2)

            def told(word, state):
                return subprocess.run([PRIMECTL, word, run.up["run_id"], "--state-dir", state], capture_output=True, text=True, timeout=LIMIT_S,
                                      check=False)
            self.assertEqual(told("pause", run.state).returncode, 0)
            run.go_on()  # the step that is under way ends
            elsewhere = told("pause", standby.state)
            self.assertNotEqual(elsewhere.returncode, 0)
            self.assertIn("is to be typed there", elsewhere.stderr)
            held = wait_until("the run to stand still", lambda: (told := run.status())["run"]["state"] == "paused" and told)
            os.kill(run.guard(), signal.SIGKILL)
            standby.wait_for("leading")
            wait_until("its peers to be back", lambda: (told := standby.status())["run"]["state"] == "paused" and
                       len([peer for peer in told["peers"] if peer["state"] == "training"]) == 3)
            self.assertEqual(standby.status()["run"]["outer_step"], held["run"]["outer_step"])
            self.assertEqual(standby.events("outer_step_begun"), [])
            resumed = told("resume", standby.state)
            self.assertEqual((resumed.returncode, resumed.stdout), (0, f"{run.up['run_id']} goes on\n"), resumed.stderr)
            for last in run.wait_for_peers():
                self.assertEqual(last["exit_code"], 0, last)
            self.assertEqual({len(c["contributors"]) for c in run.decided().values()}, {3})

    def test_an_up_that_watches_leaves_its_peers_to_the_standby(self):
        with Etcd() as etcd, StandbyRun(etcd, outer_steps=STEPS, held_at=STEPS, dead_after="20s", env=SLOW, foreground=True) as run:
            standby = run.stand_by()
            run.wait_until_known(standby)
            run.wait_for("outer_step_committed", 5)
            os.kill(run.guard(), signal.SIGKILL)
            run.hold.unlink()
            standby.wait_for("run_done")
            self.assertEqual(run.attended.wait(timeout=LIMIT_S), 0, (run.directory / "up.log").read_text())
            self.assertIn("go on with who stands by", (run.directory / "up.log").read_text())
            self.assertEqual(json.loads((run.directory / "up.json").read_text().splitlines()[-1])["state"], "done")
            self.assertEqual({c["contributors"] and len(c["contributors"]) for c in run.decided().values()}, {3})
            self.assertNotIn(run.up["invite"].split("#")[1], str(etcd.everything()), "the run's key is no business of etcd's")

    def test_one_after_the_other_takes_over_at_any_moment_of_a_step(self):
        digests = undisturbed()
        for seed in range(int(os.environ.get("PRIME_CHAOS_RUNS", "3"))):
            moments = random.Random(seed)
            with Etcd() as etcd, StandbyRun(etcd, outer_steps=STEPS, held_at=STEPS, dead_after="20s", env=SLOW) as run:
                waiting = [run.stand_by(), run.stand_by()]
                for standby in waiting:
                    run.wait_until_known(standby)
                leader = run
                for step in (8, 24):
                    wait_until(f"step {step}", lambda step=step: len(run.commits()) >= step)
                    wait_until("a moment of the step", lambda: moments.random() < 0.2)
                    guard = leader.events("process_started")[-1]["guard_pid"]
                    os.kill(guard, signal.SIGKILL)
                    leader = wait_until("another one to lead", lambda: next((one for one in waiting if one.events("leading")), None))
                    waiting.remove(leader)
                run.hold.unlink()
                wait_until("the end of the run", lambda leader=leader: leader.events("run_done"))
                for last in run.wait_for_peers():
                    self.assertEqual(last["exit_code"], 0, f"seed {seed}: {last}")
                self.assertEqual({revision: c["digest"] for revision, c in run.decided().items()}, digests, f"seed {seed}")

    def test_a_leader_that_is_lost_while_the_run_finishes_leaves_its_end_to_the_standby(self):
        for seed in range(int(os.environ.get("PRIME_CHAOS_RUNS", "3"))):
            moments = random.Random(seed)
            with Etcd() as etcd, StandbyRun(etcd, outer_steps=12, held_at=12, dead_after="20s", env=SLOW) as run:
                standby = run.stand_by()
                run.wait_until_known(standby)
                run.hold.unlink()
                run.wait_for("outer_step_committed", 12)
                wait_until("a moment of the end", lambda: moments.random() < 0.3)
                if run.ours(guard := run.guard()):
                    os.kill(guard, signal.SIGKILL)
                for last in run.wait_for_peers():
                    self.assertEqual(last["exit_code"], 0, f"seed {seed}: {last}")
                standby.wait_for("process_ended")
                self.assertEqual(standby.status()["run"]["state"], "done", f"seed {seed}")
                self.assertEqual(len(run.decided()), 12)

    def thaw_after_the_lease(self, freeze):
        with Etcd() as etcd, StandbyRun(etcd, lease="10s", outer_steps=60, held_at=50, dead_after="4s", env=SLOWER) as run:
            standby = run.stand_by()
            run.wait_until_known(standby)
            run.wait_for("outer_step_committed", 5)
            frozen = run.coordinator_pid()
            freeze(etcd, run, frozen)
            standby.wait_for("leading")
            standby.wait_for("outer_step_committed", 3)
            os.kill(frozen, signal.SIGCONT)
            run.wait_for("process_ended")
            self.assertIn("this coordinator leads the run no more", run.events("process_ended")[0]["reason"])
            self.assertEqual(run.wait_for("standing_by")[0]["for"], standby.address)
            status = run.status()["run"]
            self.assertEqual((status["state"], status["stands_by_for"]), ("standby", standby.address))
            run.hold.unlink()
            standby.wait_for("run_done")
            for last in run.wait_for_peers():
                self.assertEqual(last["exit_code"], 0, last)
            run.wait_for("process_ended", 2)
            self.assertEqual(run.status()["run"]["state"], "done")
            self.assertEqual(len(run.decided()), 60)

    def test_a_leader_that_thaws_after_its_lease_decides_nothing_more_and_stands_by_itself(self):
        self.thaw_after_the_lease(lambda etcd, run, leader: os.kill(leader, signal.SIGSTOP))

    def test_nor_does_one_that_was_frozen_while_etcd_was_to_keep_a_decision(self):
        def freeze(etcd, run, leader):
            etcd.freeze()
            before = -1
            while before != (before := len(run.events("outer_step_committed"))):
                time.sleep(1)  # until one cannot be kept; each takes a fifth of that
            os.kill(leader, signal.SIGSTOP)
            etcd.thaw()
        self.thaw_after_the_lease(freeze)

    def test_a_leader_that_alone_is_cut_off_from_etcd_takes_nobody_in_and_is_taken_over_with_the_same_bits(self):
        digests = undisturbed()
        with Etcd() as etcd, Forwarder(etcd.url) as way, StandbyRun(way, outer_steps=STEPS, held_at=STEPS, dead_after="20s", env=SLOW) as run:
            standby = run.stand_by()
            run.wait_until_known(standby)
            run.wait_for("outer_step_committed", 5)
            leader = run.coordinator_pid()
            way.cut_off(run.ours)
            joiner = run.join()  # it knocks where the run was
            standby.wait_for("leading")
            wait_until("the old leader's end", lambda: not run.ours(leader))
            lines = run.coordinator()
            end = next(index for index, line in enumerate(lines) if line["event"] == "process_ended")
            self.assertRegex(lines[end]["reason"], "the store of the standby coordinators failed|this coordinator leads the run no more")
            joiner.kill()
            run.hold.unlink()
            standby.wait_for("run_done")
            for last in run.wait_for_peers():
                self.assertEqual(last["exit_code"], 0, last)
            self.assertEqual({revision: c["digest"] for revision, c in run.decided().items()}, digests)
            self.assertEqual(len(run.events("peer_admitted")), 3)
            after = {line["event"] for line in run.coordinator()[end:]}
            self.assertFalse(after & {"leading", "coordinator_listening", "outer_step_begun", "outer_step_committed"}, after)

    def test_a_coordinator_that_its_guard_starts_again_goes_on_before_its_lease_runs_out(self):
        with Etcd() as etcd, StandbyRun(etcd, lease="1h", grace="2h", outer_steps=STEPS, held_at=STEPS, dead_after="20s", env=SLOW) as run:
            standby = run.stand_by()
            run.wait_for("outer_step_committed", 5)
            os.kill(run.coordinator_pid(), signal.SIGKILL)
            run.wait_for("leading", 2)
            run.hold.unlink()
            self.assertEqual(run.wait_for_end(), 0)
            standby.wait_for("process_ended")
            self.assertEqual(len(run.decided()), STEPS)
            self.assertEqual(standby.events("outer_step_begun"), [], "it never served the run")
            self.assertEqual(standby.status()["run"]["state"], "done")

    def test_a_standby_with_another_key_is_refused_before_it_could_lead(self):
        with Etcd() as etcd, StandbyRun(etcd, outer_steps=5000, dead_after="20s", env=SLOW) as run:
            key = run.up["invite"].rpartition("#")[2]
            run.up["invite"] = run.up["invite"].replace(key, ("B" if key[0] == "A" else "A") + key[1:])
            with self.assertRaisesRegex(AssertionError, r"exit 4\n(.*\n)*error: refused: the run key does not match.*\[PR0410\]"):
                run.stand_by()
            self.assertEqual(list(run.directory.glob("standby-0/*")), [], "what never began leaves nothing")

    def test_who_joins_after_that_takes_the_invite_that_status_tells(self):
        with Etcd() as etcd, StandbyRun(etcd, outer_steps=30, held_at=20, dead_after="20s", env=SLOW) as run:
            standby = run.stand_by()
            run.wait_until_known(standby)
            run.wait_for("outer_step_committed", 3)
            os.kill(run.guard(), signal.SIGKILL)
            standby.wait_for("coordinator_listening")
            text = subprocess.run([PRIMECTL, "status", "--state-dir", standby.state], capture_output=True, text=True, timeout=LIMIT_S, check=True)
            run.up["invite"] = shlex.split(text.stdout.splitlines()[-1])[-1]
            self.assertIn(standby.address, run.up["invite"])
            joiner = run.join()
            wait_until("the joiner's place", lambda: len({line["peer"] for line in standby.events("peer_admitted")}) == 4)
            run.hold.unlink()
            standby.wait_for("run_done")
            wait_until("the joiner's end", lambda: joiner.poll() is not None)
            self.assertEqual(joiner.returncode, 0, run.join_log(0))
            self.assertEqual(len(run.decided()[30]["contributors"]), 4)
            run.wait_for_peers()
            self.assertEqual(run.status()["run"]["state"], "done", "also where its first coordinator died")

    def test_of_a_sharded_run_that_is_a_whole_replica_with_its_trainer(self):
        with Etcd() as etcd, tempfile.TemporaryDirectory(prefix="prime-meet-") as meet:
            env = SLOW | {"PRIME_GRID_MEET": meet}
            with StandbyRun(etcd, 2, shards=2, trainer=BIN / "grid_trainer", outer_steps=60, held_at=20, dead_after="20s", env=env) as run:
                standby = run.stand_by()
                run.wait_until_known(standby)
                run.wait_for("outer_step_committed", 3)
                os.kill(run.guard(), signal.SIGKILL)
                standby.wait_for("coordinator_listening")
                text = subprocess.run([PRIMECTL, "status", run.up["run_id"], "--state-dir", standby.state], capture_output=True, text=True,
                                      timeout=LIMIT_S, check=True).stdout
                self.assertIn("join it here, with your own trainer for TRAINER, by\n", text)
                words = shlex.split(text.splitlines()[-1])
                self.assertEqual(words[3:], ["--shards", "2", "--detach", "--set", 'local.trainer_command=["TRAINER"]'], text)
                words[-1] = words[-1].replace("TRAINER", str(BIN / "grid_trainer"))
                joined = subprocess.run([*words, "-o", "json", "--state-dir", run.state], env=run.env, capture_output=True, text=True,
                                        timeout=LIMIT_S, check=False)
                self.assertEqual(joined.returncode, 0, joined.stderr)
                run.up["peers"] += json.loads(joined.stdout)["peers"]
                run.hold.unlink()
                standby.wait_for("run_done")
                self.assertEqual(len(standby.events("outer_step_committed")[-1]["contributors"]), 3)
                for last in run.wait_for_peers():
                    self.assertEqual(last["exit_code"], 0, last)

    def test_a_standby_that_is_told_to_end_ends_alone(self):
        with Etcd() as etcd, StandbyRun(etcd, outer_steps=30, held_at=20, dead_after="20s", env=SLOW) as run:
            standby = run.stand_by()
            run.wait_until_known(standby)
            done = subprocess.run([PRIMECTL, "down", "--state-dir", standby.state], capture_output=True, text=True, timeout=LIMIT_S, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            wait_until("the others to forget it", lambda: run.events("coordinators")[-1]["addresses"] == [run.up["coordinator"]["address"]])
            run.hold.unlink()
            self.assertEqual(run.wait_for_end(), 0)
            run.check(outer_steps=30)

    def test_what_cannot_stand_by_says_why(self):
        with Etcd() as etcd, StandbyRun(etcd, outer_steps=5000, env=SLOW) as run:
            standby = run.stand_by()
            address, key = run.up["invite"].split("#")
            other = address.rsplit("/", 1)[0] + "/other-abcdef#" + key
            for words, said in ((("standby", run.up["invite"]), "--etcd is required"),
                                (("standby", run.up["invite"], "--etcd", "127.0.0.1:1"), "it must be http://HOST:PORT or https://HOST:PORT"),
                                (("standby", other, "--etcd", "http://127.0.0.1:1"), "[PR0706]"),
                                (("standby", other, "--etcd", etcd.url), "etcd has nothing of other-abcdef"),
                                (("standby", run.up["invite"], "--etcd", etcd.url), "has its files in")):
                done = subprocess.run([PRIMECTL, *words, "--state-dir", standby.state], capture_output=True, text=True, timeout=LIMIT_S, check=False)
                self.assertNotEqual(done.returncode, 0, words)
                self.assertIn(said, done.stderr)
            self.assertEqual(os.listdir(standby.state), [run.up["run_id"]], "nothing is left of those")


@unittest.skipUnless(PROGRAM, "etcd is not installed: `./dev setup --test` installs it")
class StoreFails(unittest.TestCase):
    def test_an_outage_shorter_than_the_lease_ends_nothing(self):
        digests = undisturbed()
        with Etcd() as etcd, StandbyRun(etcd, lease="30s", outer_steps=STEPS, dead_after="20s", env=SLOW) as run:
            for step in (3, 10, 20):
                run.wait_for("outer_step_committed", step)
                etcd.stop()
                etcd.start()
            self.assertEqual(run.wait_for_end(), 0)
            commits = run.check(outer_steps=STEPS)
            self.assertEqual({c["revision"]: c["digest"] for c in commits}, digests)
            self.assertEqual(len(run.events("process_started")), 1)

    def test_a_store_that_stands_still_for_longer_than_heartbeats_may_is_noticed_by_nobody(self):
        digests = undisturbed()
        with Etcd() as etcd, StandbyRun(etcd, lease="40s", grace="90s", outer_steps=STEPS, dead_after="5s", env=SLOW) as run:
            run.wait_for("outer_step_committed", 3)
            etcd.freeze()
            time.sleep(12)  # a decision waits for it meanwhile, and heartbeats do not
            etcd.thaw()
            self.assertEqual(run.wait_for_end(), 0)
            commits = run.check(outer_steps=STEPS)
            self.assertEqual({c["revision"]: c["digest"] for c in commits}, digests)
            self.assertEqual([line for lines in run.peer_journals().values() for line in lines if line["event"] == "coordinator_lost"], [])
            self.assertEqual(run.events("peer_absent"), [])

    def test_an_outage_for_good_is_a_named_end_of_everybody(self):
        with Etcd() as etcd, StandbyRun(etcd, outer_steps=5000, dead_after="4s", grace="8s", env=SLOW) as run:
            standby = run.stand_by()
            run.wait_for("outer_step_committed", 3)
            guards = [run.guard(), standby.events("process_started")[-1]["guard_pid"]]
            etcd.stop()
            for last in run.wait_for_peers():
                self.assertIn("the coordinator was lost", last["reason"])
            wait_until("the end of both guards", lambda: not any(str(run.directory).encode() in command_line(pid) for pid in guards))
            for journal in (run.coordinator(), standby.journal.lines()):
                self.assertIn("the store of the standby coordinators failed", journal[-1]["reason"])
            run.decided()
            self.assertEqual(run.status()["run"]["state"], "failed")

    def test_a_run_whose_end_the_store_did_not_hear_of_may_go_on_elsewhere_and_down_says_so(self):
        with Etcd() as etcd, StandbyRun(etcd, outer_steps=5000, dead_after="20s", env=SLOW) as run:
            standby = run.stand_by()
            run.wait_for("outer_step_committed", 3)
            etcd.freeze()
            done = subprocess.run([PRIMECTL, "down", "--state-dir", run.state], capture_output=True, text=True, timeout=LIMIT_S, check=False)
            etcd.thaw()
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, r"warning: .*etcd was not told .* `primectl down` on the machine that stands by")
            standby.wait_for("leading")
            heard = subprocess.run([PRIMECTL, "down", "--state-dir", standby.state], capture_output=True, text=True, timeout=LIMIT_S, check=False)
            self.assertEqual(heard.returncode, 0, heard.stderr)
            self.assertNotIn("warning", heard.stderr)

    def test_a_store_that_has_lost_everything_is_a_named_end_and_no_beginning(self):
        with Etcd() as etcd, StandbyRun(etcd, outer_steps=5000, dead_after="4s", grace="8s", env=SLOW) as run:
            standby = run.stand_by()
            run.wait_for("outer_step_committed", 3)
            guards = [run.guard(), standby.events("process_started")[-1]["guard_pid"]]
            etcd.stop()
            etcd.forget()
            etcd.start()
            for last in run.wait_for_peers():
                self.assertIn("the coordinator was lost", last["reason"])
            wait_until("the end of both guards", lambda: not any(str(run.directory).encode() in command_line(pid) for pid in guards))
            for journal in (run.coordinator(), standby.journal.lines()):
                self.assertIn("etcd has lost what this run decided", journal[-1]["reason"])
            self.assertEqual(standby.events("state_founded"), [])
            self.assertEqual(len(run.events("state_founded")), 1)

    def test_a_run_does_not_begin_without_its_store(self):
        with Etcd() as etcd:
            etcd.stop()
            with self.assertRaisesRegex(AssertionError, r"exit 1\n(.*\n)*error: the store of the standby coordinators failed.*\[PR0706\]"):
                StandbyRun(etcd)
            etcd.start()

    def test_but_it_does_with_one_that_is_slow_to_answer(self):
        with Etcd() as etcd:
            etcd.freeze()
            thaw = threading.Timer(7, etcd.thaw)  # longer than any later call may take, shorter than the first may
            thaw.start()
            try:
                with StandbyRun(etcd, lease="1h", grace="2h", outer_steps=3) as run:
                    self.assertEqual(run.wait_for_end(), 0)
            finally:
                thaw.join()


if __name__ == "__main__":
    unittest.main(verbosity=2)
