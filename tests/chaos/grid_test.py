"""Sharded runs: replicas of several peers, each with a part of the model. A replica takes part as a whole or not at all; an outer step is
committed for all shards of all replicas or for none."""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from prime_run import BIN, LIMIT_S, PRIMECTL, Run, wait_until

GRID = BIN / "grid_trainer"
SHARDS = 2
SLOW = {"PRIME_QUADRATIC_DELAY_MS": "5", "PRIME_QUADRATIC_ELEMENTS": "100000"}


class Grid(Run):
    """A run of whole replicas; `peers` counts them."""

    def __init__(self, replicas, *, env=None, **options):
        self.meet = tempfile.mkdtemp(prefix="prime-meet-")
        try:
            super().__init__(replicas, env={"PRIME_GRID_MEET": self.meet, **(env or {})},
                             **{"shards": SHARDS, "trainer": GRID, **options})
        except BaseException:
            shutil.rmtree(self.meet, ignore_errors=True)
            raise

    def __exit__(self, failed, *rest):
        super().__exit__(failed, *rest)
        shutil.rmtree(self.meet, ignore_errors=True)

    def peer(self, index, shard):
        """Of the replica that was started as the `index`-th."""
        names = list(dict.fromkeys(peer["replica"] for peer in self.up["peers"]))
        return next(peer for peer in self.up["peers"] if peer["replica"] == names[index] and peer["shard"] == shard)

    def primectl(self, *words, state=None):
        return subprocess.run([PRIMECTL, *words, "--state-dir", state or self.state], env=self.env, capture_output=True, text=True, timeout=LIMIT_S,
                              check=False)

    def lines_of(self, peer):
        return next((lines for name, lines in self.peer_journals().items() if name == f"{peer['name']}-{peer['id'][:8]}"), [])

    def trainer(self, peer):
        return [line["trainer_pid"] for line in self.lines_of(peer) if line["event"] == "trainer_bound"][-1]

    def has_said_so(self, peer):
        """Its trainer has come so far in the held step as grid_trainer.cpp says."""
        return pathlib.Path(f"{self.hold}.{peer['name']}").exists()

    def loses_one_after_the_other(self):
        """Of a run of three replicas that is held at step 12: its coordinator, a trainer, and a peer, in whose place another one comes."""
        self.wait_for("outer_step_committed", 2)
        os.kill(self.coordinator_pid(), signal.SIGKILL)
        self.wait_for("coordinator_restarted")
        self.wait_for("outer_step_committed", 4)
        victim = self.peer(1, 1)
        os.kill(self.trainer(self.peer(0, 0)), signal.SIGKILL)
        os.kill(victim["pid"], signal.SIGKILL)
        self.wait_for("peer_lost", 2, replica=victim["replica"])
        joiner = self.join(flags=("--replica", victim["replica"], "--shard", "1"))
        self.release(8)  # those two are peers anew
        return joiner

    def contributors(self, count):
        """Waits for a commit, later than all that there are, over so many replicas."""
        before = len(self.events("outer_step_committed"))
        wait_until(f"a commit of {count} replicas",
                   lambda: any(len(c["contributors"]) == count for c in self.events("outer_step_committed")[before:]))

    def check_grid(self, outer_steps=None):
        """The oracle of a grid: one lineage; of each revision the same bits on all peers of a shard, other ones on those of another."""
        peers = self.peer_journals()  # before the coordinator's, which is ahead of them in a run that goes on
        commits = self.events("outer_step_committed")
        assert [c["revision"] for c in commits] == list(range(1, len(commits) + 1)), "law 2: revisions follow one another"
        if outer_steps is not None:
            assert len(commits) == outer_steps, f"{len(commits)} of {outer_steps} outer steps were committed"
        replica_of, ready = {}, {}
        for line in self.coordinator():
            if "replica" in line and "peer" in line:
                replica_of[line["peer"]] = line["replica"], line["shard"]
            if line["event"] == "peer_ready":
                ready[line["replica"], line["shard"]] = line["weight"]
            if line["event"] == "outer_step_committed":
                wholes = [replica_of[peer] for peer in line["contributors"]]
                assert all(shard == 0 for _, shard in wholes), wholes
                weight = sum(ready[replica, shard] for replica, _ in wholes for shard in range(SHARDS))
                assert weight == line["weight"], f"law 4: weight {line['weight']}, the shards of its replicas bring {weight}"
        digests = {}
        for name, lines in peers.items():
            if not lines:
                continue  # one that was sent away before it had said a word
            shard = lines[0]["shard"]
            for line in lines:
                if line["event"] != "outer_step_committed":
                    continue
                told = commits[line["revision"] - 1]
                assert digests.setdefault((line["revision"], shard), line["digest"]) == line["digest"], f"law 3: {name}: {line}"
                assert (line["epoch"], line["weight"], len(line["contributors"])) == (told["epoch"], told["weight"], len(told["contributors"]))
        assert digests or not commits, "no peer recorded a commit"
        for revision in {revision for revision, _ in digests}:
            of_shards = [digest for (at, _), digest in digests.items() if at == revision]  # in a run that goes on, of those that were quicker
            assert len({*of_shards, commits[revision - 1]["digest"]}) == len(of_shards) + 1, "a shard is no other one, and none is the whole"
        return commits


class Whole(unittest.TestCase):
    def test_three_replicas_of_two_shards_train_to_the_end(self):
        with Grid(3, outer_steps=6) as run:
            self.assertEqual(len(run.up["peers"]), 6)
            self.assertEqual(sorted(peer["name"] for peer in run.up["peers"]),
                             sorted(f"{peer['replica']}.{peer['shard']}" for peer in run.up["peers"]))
            self.assertEqual(run.wait_for_end(), 0)
            commits = run.check_grid(outer_steps=6)
            self.assertEqual({len(c["contributors"]) for c in commits}, {3})
            self.assertEqual(run.events("peer_lost"), [])
            saved = {}
            for lines in run.peer_journals().values():
                for line in lines:
                    if line["event"] == "checkpoint_written":
                        state = json.loads((pathlib.Path(line["path"]) / "prime" / "state.json").read_text())
                        self.assertEqual(state["shards"], SHARDS)
                        saved[state["shard"]] = state["revision"]
            self.assertEqual(saved, {0: 6, 1: 6}, "of the end each shard is saved")
            status = run.status()
            self.assertEqual(status["run"]["state"], "done")
            self.assertEqual(len({(peer["shard"], peer["digest"]) for peer in status["peers"]}), SHARDS, "equal within a shard")
            self.assertNotIn(status["run"]["digest"], [peer["digest"] for peer in status["peers"]])

    def test_a_run_goes_on_from_the_checkpoints_of_all_shards(self):
        with Grid(2, outer_steps=5000, env=SLOW) as run:
            run.wait_for("outer_step_committed", 3)
            self.assertEqual(run.primectl("down", run.up["run_id"]).returncode, 0)
            before = run.check_grid()
            again = run.primectl("up", run.manifest, "--local", "2", "-d", "-o", "json", "--from", run.up["run_id"], "--set",
                                 f"train.outer_steps={len(before) + 3}")
            self.assertEqual(again.returncode, 0, again.stderr)
            run.up = json.loads(again.stdout)
            run.run_directory = pathlib.Path(run.up["state_dir"])
            self.assertEqual(run.wait_for_end(), 0)
            continues = run.events("run_continues")[0]
            self.assertEqual((continues["revision"], continues["digest"]), (len(before), before[-1]["digest"]))
            self.assertEqual([c["revision"] for c in run.events("outer_step_committed")], [len(before) + i for i in (1, 2, 3)])

    def test_nobody_goes_on_from_an_older_step_unawares(self):
        with Grid(1, minimum=1, outer_steps=5000, every=2, env=SLOW, up_flags=("--set", "checkpoint.keep=100")) as run:
            run.wait_for("outer_step_committed", 7)
            down = run.primectl("down", run.up["run_id"])
            self.assertEqual(down.returncode, 0, down.stderr)
            newest = len(run.check_grid())
            self.assertRegex(down.stdout, rf"go on from outer step {newest} by\n\n  \S*primectl up .* --from {run.up['run_id']}")
            saved = sorted(run.run_directory.glob("peers/*.0-*/checkpoints/step-*"))
            self.assertEqual(saved[-1].name, f"step-{newest:06}")
            others = {path.name for path in run.run_directory.glob("peers/*.1-*/checkpoints/step-*")}
            older = max(int(path.name[len("step-"):]) for path in saved[:-1] if path.name in others)
            go_on = ("up", run.manifest, "-d", "-o", "json", "--from", run.up["run_id"], "--set", f"train.outer_steps={newest + 3}")
            with open(saved[-1] / "model.safetensors", "r+b") as file:
                file.truncate(1)
            refused = run.primectl(*go_on)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(f"all shards of outer step {older} are whole: without {saved[-1]}, which somebody has to remove", refused.stderr)
            shutil.rmtree(saved[-1])
            again = run.primectl("down", run.up["run_id"])
            self.assertNotIn("go on from", again.stdout)  # nothing of it has been running
            again = run.primectl(*go_on)
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertIn(f"goes on from outer step {older}; {newest} was committed, but shard 0 of it is saved nowhere here", again.stderr)
            run.up = json.loads(again.stdout)
            run.run_directory = pathlib.Path(run.up["state_dir"])
            self.assertEqual(run.wait_for_end(), 0)
            self.assertEqual([c["revision"] for c in run.events("outer_step_committed")], list(range(older + 1, newest + 4)))

    def test_what_down_offers_is_there(self):
        with Grid(1, minimum=1, outer_steps=5000, every=0, env=SLOW) as run:
            run.wait_for("outer_step_committed", 3)
            os.kill(run.peer(0, 0)["pid"], signal.SIGKILL)
            run.wait_for("peer_absent")
            down = run.primectl("down", run.up["run_id"])
            self.assertNotIn("go on from", down.stdout)
            self.assertNotIn("--from", down.stdout)
            self.assertRegex(down.stdout, r"no outer step of which all 2 shards .*shard 0 of outer step \d+ is saved nowhere here", down.stderr)
            status = run.primectl("status", run.up["run_id"])
            self.assertNotIn("those of the others are on this machine", status.stdout)


    def test_a_checkpoint_on_the_way_is_of_the_very_step_that_was_due(self):
        with Grid(2, outer_steps=60, every=4) as run:
            self.assertEqual(run.wait_for_end(), 0)
            saved = {lines[0]["shard"]: set() for lines in run.peer_journals().values()}
            for lines in run.peer_journals().values():
                saved[lines[0]["shard"]] |= {int(line["path"].rsplit("-", 1)[1]) for line in lines if line["event"] == "checkpoint_written"}
            for shard, steps in saved.items():
                self.assertGreater(len(steps), 1, f"shard {shard} was saved on the way")
                self.assertEqual({step % 4 for step in steps}, {0}, f"shard {shard}: {sorted(steps)}")


class Torn(unittest.TestCase):
    def test_a_replica_whose_peer_was_killed_comes_back_when_that_one_is_started_again(self):
        with Grid(3, outer_steps=60, held_at=50, env=SLOW) as run:
            run.wait_for("outer_step_committed", 2)
            killed, sibling = run.peer(1, 1), run.peer(1, 0)
            os.kill(killed["pid"], signal.SIGKILL)
            run.wait_for("peer_lost", 2, replica=killed["replica"])
            run.wait_for("shard_waits", replica=killed["replica"], shard=0, pid=sibling["pid"])
            waits = f"waits for shard 1 of replica {killed['replica']}"
            wait_until("a status that tells it", lambda: waits in [peer["reason"] for peer in run.status()["peers"]])
            run.contributors(2)  # and never holds up the others
            joiner = run.join(flags=("--replica", killed["replica"], "--shard", "1"))
            run.release(8)
            self.assertEqual(run.wait_for_end(), 0)
            wait_until("the joiner's end", lambda: joiner.poll() is not None)
            self.assertEqual(joiner.returncode, 0, run.join_log(0))
            commits = run.check_grid(outer_steps=60)
            self.assertEqual(len(commits[-1]["contributors"]), 3)
            self.assertEqual({e["replica"] for e in run.events("peer_lost")}, {killed["replica"]})

    def test_who_leaves_takes_its_replica_with_it(self):
        with Grid(3, outer_steps=40, held_at=30, env=SLOW) as run:
            run.wait_for("outer_step_committed", 2)
            leaver, sibling = run.peer(0, 1), run.peer(0, 0)
            done = run.primectl("leave", leaver["name"])
            self.assertEqual(done.returncode, 0, done.stderr)
            run.wait_for("peer_left", 2, replica=leaver["replica"])
            wait_until("the sibling's end", lambda: not run.ours(sibling["pid"]))
            run.hold.unlink()
            self.assertEqual(run.wait_for_end(), 0)
            commits = run.check_grid(outer_steps=40)
            self.assertEqual(len(commits[-1]["contributors"]), 2)
            self.assertEqual(run.events("peer_lost"), [])
            left = run.events("peer_left")[0]["seq"]
            self.assertEqual([e for e in run.events("shard_waits") if e["seq"] > left], [], "nobody joins anew")

    def test_trainers_of_a_replica_that_lose_one_of_them_begin_their_step_again(self):
        with Grid(2, outer_steps=6, held_at=3, env=SLOW) as run:
            victim = run.peer(0, 0)
            wait_until("trainers that have met", lambda: all(run.has_said_so(run.peer(0, shard)) for shard in range(SHARDS)))
            os.kill(run.trainer(victim), signal.SIGKILL)
            wait_until("the restart", lambda: [line for line in run.lines_of(victim) if line["event"] == "trainer_restarting"])
            run.hold.unlink()
            self.assertEqual(run.wait_for_end(), 0)
            commits = run.check_grid(outer_steps=6)
            self.assertEqual({len(c["contributors"]) for c in commits}, {2})
            restarts = [line["event"] for peer in (victim, run.peer(0, 1)) for line in run.lines_of(peer)].count("trainer_restarting")
            self.assertGreaterEqual(restarts, 2, "the other one could not go on alone")

    def test_a_trainer_that_dies_when_its_sibling_has_contributed_is_met_again(self):
        for replicas in (2, 1):  # nobody else's readiness is needed for that
            with Grid(replicas, outer_steps=6, minimum=1, held_at=3, env=SLOW | {"PRIME_GRID_HELD_LAST": "1"}) as run:
                sibling = run.peer(0, 0)
                wait_until("a contribution", lambda run=run, sibling=sibling: run.has_said_so(sibling))
                os.kill(run.trainer(run.peer(0, 1)), signal.SIGKILL)
                wait_until("the sibling's new try", lambda run=run, sibling=sibling: [
                    line for line in run.lines_of(sibling) if line["event"] == "outer_step_begun_anew"])
                run.hold.unlink()
                self.assertEqual(run.wait_for_end(), 0)
                commits = run.check_grid(outer_steps=6)
                self.assertEqual({len(c["contributors"]) for c in commits}, {replicas})
                self.assertEqual(run.events("peer_lost"), [])


class CoordinatorKilled(unittest.TestCase):
    def test_the_run_goes_on_in_the_same_epoch(self):
        for seed in range(int(os.environ.get("PRIME_CHAOS_RUNS", "3"))):
            moments = random.Random(seed)
            with Grid(3, outer_steps=30, held_at=30, dead_after="20s", env=SLOW) as run:
                for times, step in enumerate((3, 12, 13), 1):
                    run.wait_for("outer_step_committed", step)
                    # In the middle of inner steps, of a reduce, of a vote: at any moment of a step.
                    wait_until("a moment of the step", lambda: moments.random() < 0.2)
                    os.kill(run.coordinator_pid(), signal.SIGKILL)
                    run.wait_for("coordinator_restarted", times)
                run.hold.unlink()
                self.assertEqual(run.wait_for_end(), 0, f"seed {seed}")
                commits = run.check_grid(outer_steps=30)
                self.assertEqual({c["epoch"] for c in commits}, {commits[0]["epoch"]}, "nobody was lost, so the view stays")
                self.assertEqual({len(c["contributors"]) for c in commits}, {3})
                self.assertEqual(run.events("peer_lost"), [])

    def test_a_peer_that_dies_meanwhile_takes_its_replica_with_it_and_the_others_go_on(self):
        with Grid(3, outer_steps=20, held_at=12, dead_after="20s", env=SLOW) as run:
            run.wait_for("outer_step_committed", 3)
            killed = run.peer(2, 0)
            os.kill(killed["pid"], signal.SIGKILL)
            os.kill(run.coordinator_pid(), signal.SIGKILL)
            run.wait_for("peer_lost", 2, replica=killed["replica"])
            run.hold.unlink()
            self.assertEqual(run.wait_for_end(), 0)
            commits = run.check_grid(outer_steps=20)
            self.assertEqual(len(commits[-1]["contributors"]), 2)


    def test_a_loss_that_was_decided_but_not_recorded_any_more_is_told_of_the_whole_replica_by_the_next_one(self):
        with Grid(3, outer_steps=40, env=SLOW) as run:
            run.wait_for("outer_step_committed", 2)
            killed = run.peer(0, 1)
            os.kill(run.guard(), signal.SIGSTOP)
            os.kill(killed["pid"], signal.SIGKILL)
            run.wait_for("peer_lost", 2, replica=killed["replica"])
            os.kill(run.coordinator_pid(), signal.SIGKILL)
            wait_until("the coordinator's end", lambda: not run.ours(run.coordinator_pid()))  # until then it writes
            # As if it had been killed between the decision and its record.
            path = run.run_directory / "coordinator" / "journal.jsonl"
            path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if '"event":"peer_lost"' not in line))
            self.assertEqual(run.events("peer_lost"), [])
            os.kill(run.guard(), signal.SIGCONT)
            self.assertEqual(run.wait_for_end(), 0)
            run.check_grid(outer_steps=40)
            lost = {(e["replica"], e["shard"]): e["reason"] for e in run.events("peer_lost")}
            self.assertEqual(set(lost), {(killed["replica"], shard) for shard in range(SHARDS)})
            self.assertIn("just before the coordinator ended", lost[killed["replica"], 0])


    def test_who_leaves_while_there_is_no_coordinator_says_goodbye_to_the_next_one(self):
        with Grid(3, outer_steps=1_000_000, dead_after="1min", env=SLOW) as run:
            run.wait_for("outer_step_committed", 2)
            leaver, sibling = run.peer(0, 1), run.peer(0, 0)
            os.kill(run.guard(), signal.SIGSTOP)
            os.kill(run.coordinator_pid(), signal.SIGKILL)
            wait_until("a peer that looks for it", lambda: [line for line in run.lines_of(leaver) if line["event"] == "coordinator_lost"])
            # It is told to leave before it can know of another coordinator, and finds one when it does.
            os.kill(leaver["pid"], signal.SIGSTOP)
            os.kill(leaver["pid"], signal.SIGTERM)
            os.kill(run.guard(), signal.SIGCONT)
            run.wait_for("peer_returned", replica=leaver["replica"], shard=0)
            os.kill(leaver["pid"], signal.SIGCONT)
            run.wait_for("peer_left", 2, replica=leaver["replica"])
            wait_until("the sibling's end", lambda: not run.ours(sibling["pid"]))
            run.contributors(2)
            self.assertEqual(run.events("peer_lost"), [])
            run.check_grid()


class Joining(unittest.TestCase):
    def ended(self, run, process, index):
        wait_until("the joiner's end", lambda: process.poll() is not None)
        return process.returncode, run.join_log(index)

    def test_one_that_waits_in_vain_for_the_rest_of_its_replica_holds_up_nobody(self):
        with Grid(2, outer_steps=30, held_at=20, env=SLOW) as run:
            lonely = run.join(flags=("--replica", "lonely", "--shard", "1"))
            run.wait_for("shard_waits", replica="lonely")
            seen = len(run.events("outer_step_committed"))
            run.wait_for("outer_step_committed", min(19, seen + 2))
            wait_until("a status that tells it", lambda: {
                "replica": "lonely", "shard": 1, "state": "joining", "reason": "waits for shard 0 of replica lonely"}.items() <=
                       next((peer for peer in run.status()["peers"] if peer.get("replica") == "lonely"), {}).items())
            text = run.primectl("status", run.up["run_id"]).stdout
            self.assertRegex(text, r"lonely\.1 +lonely +1 +joining .* waits for shard 0 of replica lonely")
            run.hold.unlink()
            self.assertEqual(run.wait_for_end(), 0)
            code, log = self.ended(run, lonely, 0)
            self.assertEqual(code, 3, log)
            self.assertIn("PR0404", log, "the run has ended without it")
            commits = run.check_grid(outer_steps=30)
            self.assertEqual({len(c["contributors"]) for c in commits}, {2})

    def test_who_leaves_before_its_replica_is_whole_has_left_and_the_others_hear_for_whom_they_wait_now(self):
        with Grid(1, shards=3, minimum=1, outer_steps=1_000_000, env=SLOW) as run:
            leaver = run.join(flags=("--replica", "lonely", "--shard", "0"))
            run.wait_for("shard_waits", replica="lonely", shard=0, missing="shards 1, 2")
            stays = run.join(flags=("--replica", "lonely", "--shard", "1"))
            for index in range(2):
                wait_until("a joiner that says so", lambda index=index: "Waiting for shard 2 of replica lonely" in run.join_log(index))
            leaver.send_signal(signal.SIGTERM)
            code, log = self.ended(run, leaver, 0)
            self.assertEqual(code, 0, log)
            run.wait_for("peer_left", replica="lonely", shard=0)
            run.wait_for("shard_waits", replica="lonely", shard=1, missing="shards 0, 2")
            wait_until("a joiner that says so", lambda: "Waiting for shards 0, 2 of replica lonely" in run.join_log(1))
            # On another machine there is no journal but its own.
            there = run.primectl("status", "-o", "json", state=run.directory / "joiner-1")
            self.assertEqual([peer["reason"] for peer in json.loads(there.stdout)["peers"]], ["waits for shards 0, 2 of replica lonely"])
            for shard in (0, 2):
                run.join(flags=("--replica", "lonely", "--shard", str(shard)))
            wait_until("a joiner that says so", lambda: "Replica lonely is whole" in run.join_log(1))
            run.contributors(2)
            self.assertIsNone(stays.poll())
            self.assertEqual(run.events("peer_lost"), [])

    def test_a_whole_replica_joins_and_leaves_by_its_name(self):
        with Grid(2, outer_steps=60, held_at=50, env=SLOW) as run:
            joined = run.primectl("join", run.up["invite"], "--shards", str(SHARDS), "--replica", "third", "-d", "-o", "json",
                                  "--local-manifest", run.manifest)
            self.assertEqual(joined.returncode, 0, joined.stderr)
            peers = json.loads(joined.stdout)["peers"]
            run.up["peers"] += peers
            self.assertEqual([(peer["name"], peer["replica"], peer["shard"]) for peer in peers],
                             [("third.0", "third", 0), ("third.1", "third", 1)])
            run.contributors(3)
            left = run.primectl("leave", "third", "-o", "json", "--run", run.up["run_id"])
            self.assertEqual(left.returncode, 0, left.stderr)
            self.assertEqual(sorted(json.loads(left.stdout)["left"]), ["third.0", "third.1"])
            run.wait_for("peer_left", 2, replica="third")
            run.hold.unlink()
            self.assertEqual(run.wait_for_end(), 0)
            commits = run.check_grid(outer_steps=60)
            self.assertEqual(len(commits[-1]["contributors"]), 2)
            self.assertEqual(run.events("peer_lost"), [])

    def by_itself(self, run, replica, shard):
        """A trainer that joins, and no agent that starts one."""
        with open(run.directory / f"{replica}.{shard}.log", "wb") as log:
            process = subprocess.Popen([GRID, run.up["invite"], run.directory / f"joiner-{replica}-{shard}", replica, str(shard)],
                                       env={**run.env, "PRIME_PRIMECTL": str(PRIMECTL)}, stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_trainers_that_join_by_themselves_are_a_replica_like_any_other(self):
        # The run begins with them, so that it cannot be over before they are there.
        with Grid(1, outer_steps=6, minimum=1, up_flags=["--quorum", "2"]) as run:
            own = [self.by_itself(run, "own", shard) for shard in (1, 0)]
            self.assertEqual(run.wait_for_end(), 0)
            for process in own:
                wait_until("the trainer's end", lambda p=process: p.poll() is not None)
                self.assertEqual(process.returncode, 0)
            self.assertEqual({len(c["contributors"]) for c in run.check_grid(outer_steps=6)}, {2})
            self.assertEqual({line["name"] for line in run.events("peer_seated")} & {"own.0", "own.1"}, {"own.0", "own.1"})
            self.assertEqual(run.events("peer_lost"), [])

    def test_one_that_joined_by_itself_cannot_begin_anew_and_says_so(self):
        with Grid(1, outer_steps=6, minimum=1, held_at=3, env=SLOW | {"PRIME_GRID_HELD_LAST": "1"}, up_flags=["--quorum", "2"]) as run:
            own = self.by_itself(run, "own", 0)
            run.join(flags=("--replica", "own", "--shard", "1"))
            other = run.wait_for("peer_seated", replica="own", shard=1)[0]
            wait_until("its contribution", lambda: run.has_said_so({"name": "own.0"}))
            os.kill(run.trainer({"name": "own.1", "id": other["peer"]}), signal.SIGKILL)
            wait_until("its end", lambda: own.poll() is not None)
            self.assertNotEqual(own.returncode, 0)
            self.assertIn("cannot begin the step anew", pathlib.Path(run.directory / "own.0.log").read_text(encoding="utf-8"))
            run.hold.unlink()
            self.assertEqual(run.wait_for_end(), 0)
            self.assertEqual([len(c["contributors"]) for c in run.check_grid(outer_steps=6)], [2, 2, 1, 1, 1, 1])

    def test_who_cannot_have_a_place_in_the_grid_hears_why(self):
        with Grid(2, outer_steps=1_000_000, env=SLOW) as run:
            run.wait_for("outer_step_committed", 1)
            replica = run.up["peers"][0]["replica"]
            attempts = [(("--replica", replica, "--shard", "0"), rf"shard 0 of replica {replica} is held by {replica}\.0 already; .* give `--replica` another name"),
                        (("--replica", "other", "--shard", "2"), "this run has 2 shards, 0 to 1, and no shard 2"),
                        ((), "this run has 2 shards")]
            for index, (flags, said) in enumerate(attempts):
                code, log = self.ended(run, run.join(flags=flags), index)
                self.assertEqual(code, 2, log)
                self.assertRegex(log, said)
            builtin = run.primectl("join", run.up["invite"], "--replica", "other", "--shard", "0")
            self.assertEqual(builtin.returncode, 2, builtin.stderr)
            self.assertRegex(builtin.stderr, "`local.trainer_command` must name a trainer of your own")
            whole = run.primectl("join", run.up["invite"], "--shards", "3", "--replica", "other", "-d", "--local-manifest", run.manifest)
            self.assertEqual(whole.returncode, 2, whole.stderr)
            self.assertRegex(whole.stderr, "this run has 2 shards, .*: give `--shards 2`")
            wait_until("the others to go", lambda: not [peer for peer in run.status()["peers"]
                                                        if peer.get("replica") == "other" and peer["state"] not in ("left", "lost")])
            self.assertEqual({len(c["contributors"]) for c in run.check_grid()}, {2})

    def test_a_replica_that_is_started_with_too_few_shards_hears_how_many_the_run_has(self):
        with Grid(1, shards=3, minimum=1, outer_steps=1_000_000, env=SLOW) as run:
            run.wait_for("outer_step_committed", 1)
            whole = run.primectl("join", run.up["invite"], "--shards", "2", "--replica", "other", "-d", "--local-manifest", run.manifest)
            self.assertEqual(whole.returncode, 2, whole.stderr)
            self.assertRegex(whole.stderr, "this run has 3 shards, .*: give `--shards 3`")
            wait_until("the others to go", lambda: not [peer for peer in run.status()["peers"]
                                                        if peer.get("replica") == "other" and peer["state"] not in ("left", "lost")])

    def test_a_run_without_shards_refuses_one(self):
        with Run(2, outer_steps=1_000_000, env={"PRIME_QUADRATIC_DELAY_MS": "20"}) as run:
            joiner = run.join(flags=("--replica", "other", "--shard", "0"))
            code, log = self.ended(run, joiner, 0)
            self.assertEqual(code, 2, log)
            self.assertTrue(re.search("this run is not sharded", log), log)


if __name__ == "__main__":
    unittest.main(verbosity=2)
