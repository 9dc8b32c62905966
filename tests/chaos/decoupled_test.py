"""`sync.algorithm: decoupled`: nobody waits for anybody, and still all peers hold the same bits: what an independent reference makes of the
journal alone, which names the contributors of each version, their weights and their bases (Decoupled DiLoCo, arXiv:2604.21428)."""

import re
import subprocess
import unittest

from fragments_test import ELEMENTS, checkpoints_of, f32, tensors_of
from overlapped import ENV, STEPS, Overlapped
from prime_run import LIMIT_S, PRIMECTL, Run, wait_until

INNER = 8
PARTS = 4
LR, MOMENTUM = 0.4, 0.5
TARGET, OTHER = 1, 5  # of the peers that `up` starts, and of who joins
SLOWLY = {"PRIME_QUADRATIC_DELAY_MS": "5"}


class FromJournal:
    """The quadratic problem by hand, one value for each fragment. A weight is tokens² by inner steps, and each inner step has as many tokens:
    so it tells how many inner steps were made."""

    def __init__(self, run, parts):
        self.parts = parts
        ours = {peer["id"] for peer in run.up["peers"]}  # of a thousand names two peers may have the same
        self.joined = {line["peer"] for line in run.events("peer_admitted")} - ours
        self.rounds = [line for line in run.coordinator() if line["event"] == "round_committed"]

    def made(self, peer, weight, base):
        steps, rest = divmod(weight, ELEMENTS * ELEMENTS)
        assert rest == 0 and steps > 0, f"{peer} weighs {weight}"
        target, local = float(OTHER if peer in self.joined else TARGET), base
        for _ in range(steps):
            local = f32(local - f32(f32(0.1) * f32(local - target)))
        return f32(base - local)

    def states(self):
        """By revision, of each fragment."""
        x, momentum, versions = [4.0] * self.parts, [0.0] * self.parts, [0] * self.parts
        of_revision, states = [list(versions)], [list(x)]
        for line in self.rounds:
            part = line["fragment"]
            assert line["version"] == versions[part] + 1
            for base in line["base_versions"]:
                assert of_revision[base][part] == versions[part], "a contribution is made from the version before"
            deltas = [self.made(peer, weight, f32(x[part])) for peer, weight in zip(line["contributors"], line["weights"], strict=True)]
            mean = sum(delta * weight for delta, weight in zip(deltas, line["weights"], strict=True)) / sum(line["weights"])
            momentum[part] = MOMENTUM * momentum[part] + mean
            x[part] -= LR * (mean + MOMENTUM * momentum[part])
            versions[part] += 1
            of_revision.append(list(versions))
            states.append(list(x))
        return states


class Decoupled(Overlapped):
    def run_of(self, peers, parts=PARTS, start=None, quorum=1, grace="0s", env=None, **manifest):
        flags = ["--quorum", str(start or peers), "--set", f"sync.quorum={quorum}", "--set", f"sync.grace={grace}"]
        return Run(peers, up_flags=flags, **{"env": {**ENV, **SLOWLY, "PRIME_QUADRATIC_TARGET": str(TARGET), **(env or {})}, "algorithm": "decoupled",
                                             "fragments": parts, "in_flight": 2, "every": 1, "outer_steps": STEPS, "inner_steps": INNER, "lr": LR,
                                             "momentum": MOMENTUM, **manifest})

    def join(self, run, **env):
        return run.join(env={"PRIME_QUADRATIC_TARGET": str(OTHER), **env})

    def equals_journal(self, run, parts=PARTS):
        expected = FromJournal(run, parts).states()[-1]
        final = checkpoints_of(run)[-1]
        self.assertEqual(final.name, f"step-{STEPS:06}")
        for name, values in tensors_of(final / "model.safetensors").items():
            part = int(re.match(r"\d+", name).group()) % parts
            self.assertEqual(len(set(values)), 1, "all values of a tensor are alike")
            self.assertLessEqual(abs(values[0] - expected[part]), 1e-6 * STEPS, f"tensor {name[0]}: {values[0]}, by hand {expected[part]}")

    def test_it_is_what_the_journal_says(self):
        for peers, parts, quorum, in_flight in ((2, 4, 1, 1), (3, 4, 3, 2), (5, 2, 2, 2), (2, 1, 0, 1)):
            with self.subTest(peers=peers, parts=parts, quorum=quorum), self.run_of(peers, parts, quorum=quorum, in_flight=in_flight) as run:
                self.assertEqual(run.wait_for_end(), 0)
                run.check(outer_steps=STEPS)
                self.equals_journal(run, parts)

    def saved(self, run):
        final = checkpoints_of(run)[-1]
        self.assertEqual(final.name, f"step-{STEPS:06}")
        return [(final / name).read_bytes() for name in ("model.safetensors", "prime/outer_momentum.safetensors")]

    def told(self, word, run, count):
        done = subprocess.run([PRIMECTL, word, run.up["run_id"], "--state-dir", run.state], capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        run.wait_for({"pause": "run_paused", "resume": "run_resumed"}[word], count)

    def test_with_all_contributions_and_no_step_while_a_result_travels_it_is_diloco_to_the_bit(self):
        """And so is `streaming` without overlap. Whoever trains on while its result travels loses what it makes then; so that nobody does, the run is
        paused in each outer step. And nobody is asked before it is due: all are before their last inner step when the first one makes it."""
        for peers, parts in ((2, 1), (3, 1), (2, PARTS)):
            plain = {"env": ENV, "every": 1, "outer_steps": STEPS, "inner_steps": INNER, "lr": LR, "momentum": MOMENTUM}
            with self.subTest(peers=peers, parts=parts), Run(peers, **plain) as run:
                self.assertEqual(run.wait_for_end(), 0)
                expected = self.saved(run)
            weight, weighs = ("tokens", INNER * ELEMENTS) if parts > 1 else ("throughput", INNER * ELEMENTS**2)
            flags = ["--set", f"sync.weight={weight}", "--set", f"sync.quorum={peers}", "--set", "sync.grace=20s", "--set", "sync.fragments.offsets=end"]
            with self.subTest(peers=peers, parts=parts), Run(peers, **plain, algorithm="decoupled", fragments=parts, held_at=f"*.{INNER - 1}", up_flags=flags) as run:
                for step in range(1, STEPS + 1):
                    wait_until("all to be before their last inner step", lambda: len(list(run.directory.glob("hold.*"))) == peers)
                    if step < STEPS:
                        self.told("pause", run, step)
                    for file in run.directory.glob("hold*"):
                        file.unlink()
                    run.wait_for("outer_step_committed", outer_step=step)
                    if step < STEPS:
                        wait_until("it to stand still", lambda: run.status()["run"]["state"] == "paused")
                        run.hold.touch()
                        self.told("resume", run, step)
                self.assertEqual(run.wait_for_end(), 0)
                run.check(outer_steps=STEPS)
                self.assertEqual({tuple(line["weights"]) for line in self.rounds(run)}, {(weighs,) * peers})
                self.assertEqual(self.saved(run), expected)

    def test_nobody_waits_for_who_stands_still(self):
        with self.run_of(2, start=3) as run:
            still = run.directory / "still"
            still.touch()
            joiner = self.join(run, PRIME_QUADRATIC_HELD_AT="1.0", PRIME_QUADRATIC_HELD_BY=str(still))
            run.wait_for("final_state_saved")
            still.unlink()
            self.ends_well(run, joiner)
            self.assertEqual(joiner.returncode, 0)
            self.assertFalse([line for line in self.rounds(run) if set(line["contributors"]) & FromJournal(run, PARTS).joined], "it has published nothing")
            self.equals_journal(run)

    def test_the_grace_lets_in_who_makes_one_inner_step_while_the_others_make_all(self):
        with self.run_of(2, parts=1, start=3, grace="20s") as run:
            joiner = self.join(run, PRIME_QUADRATIC_DELAY_MS="200")
            self.ends_well(run, joiner)
            self.assertEqual([len(line["contributors"]) for line in self.rounds(run)], [3] * STEPS)
            self.equals_journal(run, 1)

    def lose(self, lost, **env):
        with self.run_of(2, start=3, quorum=3, in_flight=1) as run:
            victim = self.join(run, **env)
            self.ends_well(run, victim, lost)
            self.equals_journal(run)
            joined = FromJournal(run, PARTS).joined
            return {line["version"] for line in self.rounds(run) if joined & set(line["contributors"])}

    def test_who_dies_in_a_reduce_is_in_what_was_committed_before_it(self):
        versions = self.lose(lost=1, PRIME_FAULT="agent@reducing:50:4")
        self.assertTrue(versions & {1, 2})
        self.assertNotIn(STEPS, versions)

    def test_a_trainer_that_dies_goes_on_and_publishes_nothing_twice(self):
        versions = self.lose(lost=0, PRIME_FAULT="trainer@voting:3.1")
        self.assertTrue(versions & {1, 2} and versions & {4, 5, 6}, versions)

    def test_the_coordinator_that_dies_loses_and_doubles_nothing(self):
        # Not held: who stands still publishes nothing, and the others would wait for that.
        with self.run_of(3, quorum=3, env={"PRIME_QUADRATIC_DELAY_MS": "40"}) as run:
            self.lives_through_two_deaths_of_its_coordinator(run)
            self.equals_journal(run)

    def test_a_joiner_takes_part_at_once(self):
        with self.run_of(2, quorum=3, held_at=1) as run:  # trainers stand still at their first inner step
            run.wait_for("outer_step_begun")
            joiner = run.join(env={"PRIME_QUADRATIC_TARGET": str(OTHER)})
            run.wait_for("peer_admitted", 3)
            run.hold.unlink()
            self.ends_well(run, joiner)
            self.assertEqual(joiner.returncode, 0)
            self.equals_journal(run)
            (begun, *_) = [line for lines in run.peer_journals().values() for line in lines
                           if line["event"] == "outer_step_begun" and lines[0].get("peer") in FromJournal(run, PARTS).joined]
            self.assertTrue(begun["contributes"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
