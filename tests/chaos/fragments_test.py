"""A model in four fragments, each reduced and committed by itself, is the model in one: to the bit without losses, and with losses as an
independent reference that is given the journaled contributors of each fragment."""

import json
import os
import re
import signal
import struct
import subprocess
import unittest

from prime_run import LIMIT_S, PRIMECTL, Run, wait_until

TENSORS = 8
ELEMENTS = 4000
PARTS = 4
INNER_STEPS = 4
ENV = {"PRIME_QUADRATIC_TENSORS": str(TENSORS), "PRIME_QUADRATIC_ELEMENTS": str(ELEMENTS)}


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def tensors_of(path):
    """Every value of a safetensors file of f32, by tensor."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        found[name] = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    return found


def checkpoints_of(run):
    return sorted(path for path in run.state.glob("*/peers/*/checkpoints/step-*"))


class Reference:
    """The quadratic problem by hand, with one value for each fragment: all of a fragment's are equal. It knows nothing of the runtime but its
    journals: who contributed to which version, from which base, and in which order the members were handed their samples."""

    def __init__(self, run, parts=PARTS, lr=0.7, momentum=0.9):
        self.parts, self.lr, self.decay = parts, lr, momentum
        self.start = 4.0 + getattr(run, "shard", 0)
        self.begun = {}  # (peer, outer step) → first sample
        for name, lines in run.peer_journals().items():
            peer = next(line["peer"] for line in lines if line["event"] == "process_started")
            for line in lines:
                if line["event"] == "outer_step_begun" and line["contributes"]:
                    self.begun[peer, line["outer_step"]] = line["first_sample"]
        self.rounds = [line for line in run.coordinator() if line["event"] == "round_committed"]

    def rank(self, peer, step):
        of_step = sorted(first for (_, at), first in self.begun.items() if at == step)
        return of_step.index(self.begun[peer, step])

    def final(self):
        x = [self.start] * self.parts
        momentum = [0.0] * self.parts
        states = [list(x)]  # by revision
        for line in self.rounds:
            part = line["fragment"]
            gradients = []
            for peer, base in zip(line["contributors"], line["base_versions"], strict=True):
                target = float(self.rank(peer, line["version"]))
                local = states[base][part]
                for _ in range(INNER_STEPS):
                    local = f32(local - f32(f32(0.1) * f32(local - target)))
                gradients.append(f32(states[base][part] - local))
            mean = sum(gradient * weight for gradient, weight in zip(gradients, line["weights"], strict=True)) / sum(line["weights"])
            momentum[part] = self.decay * momentum[part] + mean
            x[part] = x[part] - self.lr * (mean + self.decay * momentum[part])
            states.append(list(x))
        return x


class Fragments(unittest.TestCase):
    def equal_to_reference(self, run):
        reference = Reference(run)
        expected = reference.final()
        expected_steps = {line["version"] for line in reference.rounds}
        final = checkpoints_of(run)[-1]
        for name, values in tensors_of(final / "model.safetensors").items():
            self.assertEqual(len(set(values)), 1, "all values of a tensor are alike")
            # Of eight equal tensors without layers each goes to the fragment that is smallest then.
            part = int(re.match(r"\d+", name).group()) % PARTS
            self.assertLessEqual(abs(values[0] - expected[part]), 1e-6 * len(expected_steps), f"tensor {name[0]}: {values[0]}, by hand {expected[part]}")
        return expected

    def rounds_follow_one_another(self, run, outer_steps, in_flight=1):
        rounds = [line for line in run.coordinator() if line["event"] == "round_committed"]
        self.assertEqual([line["revision"] for line in rounds], list(range(1, PARTS * outer_steps + 1)))
        made = [(line["version"], line["fragment"]) for line in rounds]
        all_of_them = [(step, fragment) for step in range(1, outer_steps + 1) for fragment in range(PARTS)]
        if in_flight == 1:
            self.assertEqual(made, all_of_them)
        else:  # of one step, in whatever order their last votes came
            self.assertEqual([step for step, _ in made], [step for step, _ in all_of_them])
            self.assertEqual(sorted(made), all_of_them)
        return rounds

    def most_in_flight(self, run):
        under_way, most = set(), 0
        for line in run.coordinator():
            if line["event"] == "reduce_started":
                under_way.add(line["operation"])
            elif line["event"] in ("round_committed", "outer_step_aborted"):
                under_way.discard(line["operation"])
            most = max(most, len(under_way))
        return most

    def test_one_and_four_fragments_are_equal_to_the_bit(self):
        for peers in (2, 3, 5):
            saved = []
            for fragments, in_flight in ((1, 1), (PARTS, 1), (PARTS, 3)):
                with Run(peers, up_flags=["--quorum", str(peers)], env=ENV, fragments=fragments, in_flight=in_flight, every=1) as run:
                    self.assertEqual(run.wait_for_end(), 0)
                    run.check(outer_steps=6)
                    final = checkpoints_of(run)[-1]
                    self.assertEqual(final.name, "step-000006")
                    saved.append(((final / "model.safetensors").read_bytes(), (final / "prime/outer_momentum.safetensors").read_bytes()))
                    if fragments == PARTS:
                        self.rounds_follow_one_another(run, 6, in_flight)
                        self.assertEqual(self.most_in_flight(run), in_flight)
                        self.equal_to_reference(run)
            self.assertEqual(saved[0], saved[1], f"{peers} peers")
            self.assertEqual(saved[0], saved[2], f"{peers} peers, three fragments in flight")

    def lose(self, fault, kept, in_flight=1):
        with Run(2, up_flags=["--quorum", "3"], env=ENV, fragments=PARTS, in_flight=in_flight, every=1) as run:
            victim = run.join(env={"PRIME_FAULT": fault})
            self.assertEqual(run.wait_for_end(), 0)
            wait_until("the joiner's end", lambda: victim.poll() is not None)
            run.check(outer_steps=6, lost=0 if kept else 1)
            rounds = self.rounds_follow_one_another(run, 6, in_flight)
            self.equal_to_reference(run)
            return rounds

    def test_an_agent_that_dies_between_two_fragments_is_in_the_first_and_not_in_the_second(self):
        rounds = self.lose("agent@reducing:50:3.2", kept=False)
        third = [len(line["contributors"]) for line in rounds if line["version"] == 3]
        self.assertEqual(third, [3, 3, 2, 2])

    def test_who_dies_while_several_fragments_are_reduced_is_in_those_that_were_committed_and_in_no_other(self):
        for fault in ("agent@reducing:50:3.1", "agent@voting:3.2"):
            rounds = self.lose(fault, kept=False, in_flight=3)
            for line in rounds:
                if line["version"] != 3:
                    self.assertEqual(len(line["contributors"]), 3 if line["version"] < 3 else 2)

    def test_the_coordinator_that_dies_while_several_fragments_are_reduced_loses_and_doubles_nothing(self):
        with Run(3, up_flags=["--quorum", "3"], env=ENV, fragments=PARTS, in_flight=3, every=1, held_at=6) as run:
            for step in (2, 4):
                run.wait_for("reduce_started", outer_step=step)
                os.kill(run.coordinator_pid(), signal.SIGKILL)
                run.wait_for("coordinator_restarted", step // 2)
            run.hold.unlink()
            self.assertEqual(run.wait_for_end(), 0)
            run.check(outer_steps=6)
            self.rounds_follow_one_another(run, 6, 3)
            self.equal_to_reference(run)

    def test_an_agent_that_dies_with_its_vote_on_the_last_fragment_costs_no_bit(self):
        rounds = self.lose("agent@voting:3.3", kept=False)
        self.assertEqual([len(line["contributors"]) for line in rounds if line["version"] == 3][:3], [3, 3, 3])

    def test_a_trainer_that_dies_between_two_fragments_has_contributed_to_both(self):
        rounds = self.lose("trainer@voting:3.1", kept=True)
        self.assertEqual([len(line["contributors"]) for line in rounds if line["version"] == 3], [3] * PARTS)

    def test_a_saved_state_of_other_tensors_is_refused_by_the_first_that_differs(self):
        with Run(1, minimum=1, env=ENV, fragments=PARTS) as run:
            self.assertEqual(run.wait_for_end(), 0)
            done = subprocess.run([PRIMECTL, "up", run.manifest, "--local", "1", "--from", run.up["run_id"], "--state-dir", run.state, "--set", "train.outer_steps=8"],
                                  env=run.env | {"PRIME_QUADRATIC_TENSORS": "5"}, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("the loaded state has other tensors: tensor 0 is", done.stderr)

    def test_a_joiner_in_the_middle_of_a_run_takes_part_in_all_fragments(self):
        with Run(2, outer_steps=8, env=ENV | {"PRIME_QUADRATIC_DELAY_MS": "5"}, fragments=PARTS, every=1, held_at=6) as run:
            run.wait_until_held()
            joiner = run.join()
            run.release(3)
            self.assertEqual(run.wait_for_end(), 0)
            wait_until("the joiner's end", lambda: joiner.poll() is not None)
            run.check(outer_steps=8)
            rounds = self.rounds_follow_one_another(run, 8)
            self.assertEqual({len(line["contributors"]) for line in rounds if line["version"] == 8}, {3})
            self.equal_to_reference(run)


if __name__ == "__main__":
    unittest.main(verbosity=2)
