"""Runs whose files several machines, containers or PID namespaces share: who lives elsewhere is seen, and neither removed, signalled nor doubled."""

import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

import places
from places import OTHER_BOOT, Container, own_place, start_ticks, write_lines
from primectl import LIMIT_S, PRIMECTL, write_manifest
from runs import SLOW, RunCase, lives, wait_until

NAMESPACES = "no PID namespaces may be made here"


class Elsewhere(RunCase):
    def setUp(self):
        super().setUp()
        self.manifest = write_manifest(self.directory, outer_steps=10000)

    def container(self, *arguments, **options):
        made = Container(*arguments, self.directory, **options)
        self.addCleanup(made.kill)
        return made

    def up_in(self, container, peers=2):
        done = container.call("up", self.manifest, "--local", peers, "-d", "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def sleeper(self):
        """A process of somebody else."""
        process = subprocess.Popen(["sleep", "infinity"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def holder(self, path, lock):
        """A process that holds the lock of a file until it is killed."""
        path.touch()
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            lock(os.open(path, os.O_RDWR))
            os.write(writer, b"x")
            signal.pause()
        os.read(reader, 1)
        os.close(reader)
        os.close(writer)

        def end():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        return end

    def refused(self, *arguments, says):
        done = self.call(*arguments)
        self.assertEqual((done.returncode, done.stdout), (4, ""), done.stderr)
        self.assertIn("PR0406", done.stderr)
        for text in [says] if isinstance(says, str) else says:
            self.assertIn(text, done.stderr)

    def write_run(self, run="small-aaaaaa", **identity):
        directory = self.directory / "primectl" / run
        write_lines(directory / "coordinator" / "journal.jsonl", {"event": "process_started", "run": run, "name": "small", **identity})
        return directory


@unittest.skipUnless(places.CAN_UNSHARE, NAMESPACES)
class Namespaces(Elsewhere):
    def test_a_run_of_another_container_is_seen_as_living_there_and_left_alone(self):
        there = self.container("node7")
        up = self.up_in(there)
        run, name = up["run_id"], up["peers"][0]["name"]
        told = self.wait_for_step(run, 1)
        self.assertEqual((told["run"]["state"], told["coordinator"]["pid"]), ("training", None), told)
        self.assertEqual([(peer["pid"], peer["trainer_pid"]) for peer in told["peers"]], [(None, None)] * 2, "a stranger may have that number here")
        (elsewhere,) = told["elsewhere"]
        self.assertRegex(elsewhere["place"], "another container.*`node7`")
        self.assertEqual(len(elsewhere["processes"]), 3, told)
        self.assertIn("Elsewhere, in another container", self.call("status").stdout)
        for command in (["remove", run], ["down", run], ["down"], ["up", self.manifest, "--from", run], ["up", self.manifest, "--from", up["state_dir"]]):
            self.refused(*command, says=["`node7`", f"`primectl down {run}` there ends it"])
        self.refused("leave", name, "--run", run, says=[f"{name} of {run} runs", "`node7`"])
        self.refused("standby", up["invite"], "--etcd", "http://127.0.0.1:1", says=["`node7`", "`--state-dir`"])
        step = self.status(run)["run"]["outer_step"]
        self.wait_for_step(run, step + 2)
        self.assertEqual(there.call("status", run, "-o", "json").returncode, 0)
        self.assertEqual(json.loads(there.call("status", run, "-o", "json").stdout)["elsewhere"], [])
        # The power goes: the kernel gives the locks back.
        there.kill()
        told = self.status(run)
        self.assertEqual((told["run"]["state"], told["elsewhere"]), ("failed", []), told)
        self.assertRegex(told["run"]["reason"], "the coordinator was lost, in another container.*`node7`")
        self.assertEqual(self.call("remove", run).stdout, f"removed {run}\n")

    def test_containers_with_one_host_name_share_a_run_and_each_ends_its_own(self):
        there = self.container(own_place()["host"])
        up = self.up_in(there)
        joined = self.call("join", up["invite"], "-d", "--name", "guest", "--set", f"local.trainer_command=[{self.trainer()}]", env=SLOW)
        self.assertEqual(joined.returncode, 0, joined.stderr)
        wait_until("the guest at work", lambda: self.peer(up["run_id"], "guest")["state"] == "training")
        told = self.status()
        self.assertEqual([peer["name"] for peer in told["peers"] if peer["pid"]], ["guest"])
        pid = self.peer(up["run_id"], "guest")["pid"]
        self.assertIn("Elsewhere", there.call("status").stdout)
        done = self.call("down")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ended 1 peer of", done.stdout)
        self.assertIn("warning: ends what runs here alone", done.stderr)
        self.assertNotIn("go on from", done.stdout)
        wait_until("the guest's end", lambda: not lives(pid))
        self.refused("remove", up["run_id"], says="another container")
        self.wait_for_step(up["run_id"], told["run"]["outer_step"] + 2)
        self.assertEqual(there.call("down").returncode, 0)
        self.assertEqual(self.status()["elsewhere"], [])

    def test_where_files_cannot_be_locked_a_count_that_grows_is_the_sign_of_life(self):
        there = self.container("node7", lockless=True)
        up = self.up_in(there)
        here = {"state": self.directory, "lockless": True}
        told = wait_until("a step", lambda: (s := json.loads(places.primectl("status", "-o", "json", **here).stdout))["run"]["outer_step"] and s)
        self.assertEqual((told["run"]["state"], len(told["elsewhere"][0]["processes"])), ("training", 3), told)
        done = places.primectl("remove", up["run_id"], **here)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("Watching", done.stderr)
        # A clean end says so, and needs no watching.
        done = there.call("down")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("saved ", done.stdout)
        done = places.primectl("status", "-o", "json", **here)
        self.assertEqual((json.loads(done.stdout)["elsewhere"], done.stderr), ([], ""))
        up = self.up_in(there)
        there.kill()
        done = places.primectl("remove", up["run_id"], **here)
        self.assertEqual(done.stdout, f"removed {up['run_id']}\n", done.stderr)

    def test_where_proc_is_that_of_another_namespace_processes_are_told_apart_all_the_same(self):
        there = self.container("node7", proc=False)
        up = self.up_in(there)
        told = wait_until("a step", lambda: (s := json.loads(there.call("status", "-o", "json").stdout))["run"]["outer_step"] and s)
        self.assertEqual((told["run"]["state"], told["coordinator"]["pid"]), ("training", up["coordinator"]["pid"]))
        self.assertIn("ended 2 peers and the coordinator", there.call("down").stdout)
        done = there.call("remove", up["run_id"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_starters_with_the_same_process_number_do_not_write_one_log(self):
        up = self.up_detached("--local", 1, outer_steps=10000, env=SLOW)
        os.kill(up["coordinator"]["pid"], signal.SIGSTOP)
        for _ in range(2):
            process = subprocess.Popen([*places.UNSHARE, "--mount-proc", PRIMECTL, "join", up["invite"], "-d", "--state-dir", self.directory / "primectl"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
        wait_until("a log of each", lambda: len(list(pathlib.Path(up["state_dir"]).glob("peers/agent-*.log"))) == 2)
        os.kill(up["coordinator"]["pid"], signal.SIGCONT)


class Records(Elsewhere):
    """What files say that no process of this machine wrote. Locks are held by processes that the files do not name."""

    def other_machine(self, **changed):
        return {"pid": 4242, "start_ticks": 77, **own_place(), "host": "node9", "boot_id": OTHER_BOOT, **changed}

    def test_a_lock_that_somebody_holds_is_of_a_living_process_whatever_machine_it_is_on(self):
        for damage in (None, "garbage", '{"pid": "x"}\n'):
            directory = self.write_run(**self.other_machine())
            lock = directory / "coordinator" / "lock"
            lock.write_text(json.dumps(self.other_machine()) + "\n" if damage is None else damage)
            end = self.holder(lock, places.lock_life)
            told = self.status()
            self.assertNotEqual(told["run"]["state"], "failed", told)
            self.assertEqual([there["place"] for there in told["elsewhere"]], ["on `node9`"])
            self.refused("remove", "small", says=["small-aaaaaa lives on `node9`: the coordinator (pid 4242 there)", "`primectl down small-aaaaaa` there"])
            self.refused("down", says="on `node9`")
            (kept,) = json.loads(self.call("remove", "--all", "--yes", "-o", "json").stdout)["kept"]
            self.assertEqual((kept["run_id"], "on `node9`" in kept["reason"]), ("small-aaaaaa", True))
            self.assertEqual([run["where"] for run in json.loads(self.call("ls", "-o", "json").stdout)["runs"]], ["on `node9`"])
            end()
            self.assertEqual(self.status()["run"]["state"], "failed")
            self.assertEqual(self.call("remove", "small").returncode, 0)

    def test_a_run_of_the_boot_before_is_dead_and_nobody_who_has_its_numbers_now_is_signalled(self):
        stranger = self.sleeper()
        for changed in ({"boot_id": OTHER_BOOT}, {"pid_namespace": 7}):
            identity = {"pid": stranger.pid, "start_ticks": start_ticks(stranger.pid), **own_place(), **changed}
            run = self.write_run(guard_pid=stranger.pid, guard_start_ticks=identity["start_ticks"], **identity)
            write_lines(run / "peers" / "otter-000000a1" / "journal.jsonl",
                        {"event": "process_started", "run": "small-aaaaaa", "peer": "a1", "name": "otter", **identity})
            self.assertIn("nothing of small-aaaaaa runs on this machine", self.call("down", "small").stdout)
            self.assertEqual(self.call("leave", "otter", "--run", "small").returncode, 3)
            self.assertIsNone(stranger.poll(), "it was signalled")
            told = self.status()
            self.assertEqual((told["run"]["state"], told["elsewhere"]), ("failed", []), told)
            if "boot_id" in changed:
                self.assertEqual(told["run"]["reason"], "the coordinator was lost: its machine was started anew since")
            self.assertEqual(self.call("remove", "small").returncode, 0)

    def test_of_an_older_version_the_lock_of_its_journal_tells(self):
        directory = self.write_run(pid=1, start_ticks=1)
        end = self.holder(directory / "coordinator" / "journal.jsonl", lambda file: fcntl.flock(file, fcntl.LOCK_EX))
        self.assertNotEqual(self.status()["run"]["state"], "failed")
        self.refused("remove", "small", says="on a machine that its files do not name")
        end()
        self.assertEqual(self.status()["run"]["reason"], "the coordinator was lost")
        self.assertEqual(self.call("remove", "small").returncode, 0)

    def test_of_an_older_version_nothing_can_be_told_where_no_lock_does(self):
        lockless = {"state": self.directory, "lockless": True}
        started = {"event": "process_started", "run": "small-aaaaaa", "name": "small", "pid": 1, "start_ticks": 1}
        directory = self.write_run(pid=1, start_ticks=1)
        done = places.primectl("remove", "small", **lockless)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("may live on a machine that its files do not name", done.stderr)
        self.assertIn(f"if none of the machines that share {directory} runs it, delete that directory yourself", done.stderr)
        self.assertIn("Elsewhere, perhaps, on a machine", places.primectl("status", **lockless).stdout)
        write_lines(directory / "coordinator" / "journal.jsonl", started, {"event": "process_ended", "exit_code": 0})
        self.assertEqual(places.primectl("remove", "small", **lockless).returncode, 0)

    def test_a_second_coordinator_of_a_directory_is_refused_and_removes_nothing(self):
        up = self.up_detached("--local", 1, outer_steps=10000, env=SLOW)
        run = pathlib.Path(up["state_dir"])
        plan = {"run": up["run_id"], "shared": (run / "manifest.yaml").read_text(), "local": "local: {}\n", "listen": "127.0.0.1:0",
                "start_quorum": 1, "invite": up["invite"], "key_check": ""}
        before = (run / "coordinator" / "journal.jsonl").read_text()
        done = subprocess.run([PRIMECTL, "coordinator", "--directory", run, "--ready-fd", "1"], input=json.dumps(plan), text=True, capture_output=True,
                              timeout=LIMIT_S, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, rf"process \d+ writes {run}/coordinator already")
        self.assertTrue((run / "coordinator" / "journal.jsonl").read_text().startswith(before))
        self.wait_for_step(up["run_id"], 1)
        self.assertEqual(self.call("down").returncode, 0)

    def test_a_standby_finds_a_lock_before_there_is_a_journal(self):
        invite = self.invite()
        coordinator = self.directory / "primectl" / invite.split("/")[3].split("#")[0] / "coordinator"
        coordinator.mkdir(parents=True)
        (coordinator / "lock").write_text(json.dumps(self.other_machine()) + "\n")
        end = self.holder(coordinator / "lock", places.lock_life)
        self.refused("standby", invite, "--etcd", "http://127.0.0.1:1", says="on `node9`")
        self.assertTrue((coordinator / "lock").exists())
        end()

    def invite(self):
        up = self.up_detached("--local", 1, outer_steps=10000, env=SLOW)
        self.assertEqual(self.call("down").returncode, 0)
        shutil.rmtree(up["state_dir"])
        return up["invite"]


del Elsewhere

if __name__ == "__main__":
    unittest.main(verbosity=2)
