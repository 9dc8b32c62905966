"""What is made of the records of rounds, without any system: figures, damaged lines, the table, and that no process is left behind."""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import compare  # noqa: E402
import install  # noqa: E402
from figures import TOKENS, Damaged, figures, read_steps, table, together  # noqa: E402
from processes import Processes, memory, tree  # noqa: E402
from systems import Us  # noqa: E402


def step(peer, number, begun, trained, resumed, *, members=3, contributed=True, digest="aa"):
    return {"peer": peer, "step": number, "begun": float(begun), "trained": float(trained), "resumed": float(resumed), "members": members,
            "contributed": contributed, "digest": digest}


def record():
    """Outer steps of 10 s: peer a is done after 8, b and c after 9, all go on after 10. c is killed at 46; d comes at 75."""
    steps = []
    for number in range(1, 5):
        at = number * 10
        steps += [step("a", number, at, at + 8, at + 10), step("b", number, at, at + 9, at + 10), step("c", number, at, at + 8.5, at + 10)]
    steps += [step(peer, 5, 50, 58, 63 + delay, members=2) for peer, delay in (("a", 0), ("b", 1))]
    steps += [step(peer, 6, 64, 74, 80, members=3, digest=peer) for peer in ("a", "b")]
    steps += [step("d", 6, 76, 78, 80, contributed=False, digest="a"), step("d", 7, 80, 88, 90)]
    return {"system": "us", "started": 5.0, "steps": steps, "memory": {"a": {"pss": 1 << 20, "rss": 4 << 20}, "b": {"pss": 3 << 20, "rss": 4 << 20}},
            "killed": {"peer": "c", "at": 51.0}, "joined": {"peer": "d", "at": 75.0}}


class Figures(unittest.TestCase):
    def test_of_a_round(self):
        found = figures(record())
        self.assertAlmostEqual(found["tokens_per_s"], 3 * TOKENS / 10)
        self.assertAlmostEqual(found["training_tokens_per_s"], TOKENS / 8.5)
        self.assertAlmostEqual(found["waiting_percent"], 100 * 1.5 / 30)
        self.assertAlmostEqual(found["idle_percent"], 100 * 4.5 / 30)
        self.assertAlmostEqual(found["sync_ms"], 1000)
        self.assertEqual((found["pss_mib"], found["rss_mib"]), (2, 4))
        self.assertEqual(found["first_step_s"], 15)
        self.assertEqual(found["kill_s"], 13, "the last of the survivors counts")
        self.assertEqual(found["kill_wait_s"], 6, "of the survivor that waits longest")
        self.assertEqual(found["join_s"], 15, "what it only adopts is no contribution")
        self.assertEqual(found["equal"], (5, 6))

    def test_a_contribution_that_a_round_missed_counts_neither_more_nor_less(self):
        whole = record()
        whole["steps"] = [s for s in whole["steps"] if (s["peer"], s["step"]) != ("b", 3)]
        self.assertAlmostEqual(figures(whole)["tokens_per_s"], 5 * TOKENS / 20)

    def test_going_on_alone_is_no_average(self):
        alone = record()
        for one in alone["steps"]:
            one["members"] = 1 if one["step"] >= 5 else 3
        found = figures(alone)
        self.assertIsNone(found["kill_s"])
        self.assertIsNone(found["kill_wait_s"])
        self.assertIsNone(found["join_s"])

    def test_of_a_round_that_stuck_at_its_start(self):
        found = figures({"system": "hivemind", "started": 1.0, "steps": [], "memory": {}})
        self.assertEqual(set(found.values()), {None})

    def test_what_went_well_before_a_round_stuck_is_no_throughput(self):
        found = figures(record() | {"memory": {}})
        self.assertEqual((found["tokens_per_s"], found["idle_percent"], found["sync_ms"]), (None, None, None))
        self.assertEqual(found["first_step_s"], 15)

    def test_of_several_rounds(self):
        rounds = [figures(record()) for _ in range(3)]
        for one, seconds in zip(rounds, (1.0, 9.0, 2.0)):
            one["kill_s"] = seconds
        rounds[0]["join_s"] = None
        found = together(rounds)
        self.assertEqual((found["kill_s"], found["join_s"], found["equal"]), (2.0, 15, (15, 18)))


class Input(unittest.TestCase):
    LINE = json.dumps(step("a", 1, 1, 2, 3)) + "\n"

    def test_whole_lines_are_read_and_one_that_is_being_written_waits(self):
        self.assertEqual(len(read_steps(self.LINE + self.LINE + self.LINE[:20], "a.jsonl")), 2)

    def test_damaged_lines_are_refused_by_their_place(self):
        good = json.loads(self.LINE)
        for what, line in {
            "no JSON": self.LINE[:20],
            "not an object": "[]",
            "no field `digest`": json.dumps({key: value for key, value in good.items() if key != "digest"}),
            "`step` is True": json.dumps(good | {"step": True}),
            "`begun` is '1'": json.dumps(good | {"begun": "1"}),
            "do not follow": json.dumps(good | {"trained": 0.5}),
        }.items():
            with self.subTest(what), self.assertRaisesRegex(Damaged, "a.jsonl:2: .*" + what):
                read_steps(self.LINE + line + "\n", "a.jsonl")

    def test_a_damaged_record_is_refused(self):
        broken = record()
        del broken["memory"]
        with self.assertRaisesRegex(Damaged, "without `memory`"):
            figures(broken)
        broken = record()
        broken["steps"][2]["resumed"] = None
        with self.assertRaisesRegex(Damaged, "us, step 2: `resumed`"):
            figures(broken)

    def test_our_journals(self):
        lines = [{"event": "process_started", "peer": "0a", "t": 0.0},
                 {"event": "outer_step_begun", "outer_step": 3, "contributes": False, "t": 1.0},
                 {"event": "outer_step_committed", "outer_step": 3, "contributors": ["0b", "0c"], "digest": "d3", "t": 5.0},
                 {"event": "outer_step_begun", "outer_step": 4, "contributes": True, "t": 6.0},
                 {"event": "outer_step_committed", "outer_step": 4, "contributors": ["0a", "0b", "0c"], "digest": "d4", "t": 9.0}]
        self.assertEqual(Us.steps_of("x", lines, {("x", 3): 1.0, ("x", 4): 8.0}),
                         [step("x", 3, 1, 1, 6, members=2, contributed=False, digest="d3"), step("x", 4, 6, 8, 9, digest="d4")])

    def test_what_is_asked_for(self):
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            compare.options_of(["bin/field", "--only", "us,gloo"])
        self.assertIn("not gloo", said.getvalue())
        self.assertEqual(compare.options_of(["/somewhere/bin/field"]).bin, pathlib.Path("/somewhere/bin"))


class Output(unittest.TestCase):
    def test_the_table_has_ratios_to_ours_and_says_who_is_missing(self):
        ours = together([figures(record())])
        slower = ours | {"tokens_per_s": ours["tokens_per_s"] / 2, "sync_ms": 25000.0, "join_s": None}
        shown = table({"us": ours, "torchft": slower}, {"hivemind": "pip could not install it", "PCCL": "not measured"})
        self.assertIn("| tokens/s of the three | 12 288 | 6 144 (0.50) |", shown)
        self.assertIn("ms | 1 000 | 25 000 (25) |", shown)
        self.assertIn("contribution, s | 15.0 | none |", shown)
        self.assertIn("equal | 5 of 6 | 5 of 6 |", shown)
        self.assertTrue(shown.endswith("\nhivemind: pip could not install it\n\nPCCL: not measured"), shown)

    def test_without_us_there_are_no_ratios(self):
        self.assertIn("| tokens/s of the three | 12 288 |", table({"torchft": together([figures(record())])}, {}))

    def test_as_json(self):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            stuck = record() | {"stuck": "no outer step within 180 s"}
            compare.report(compare.options_of(["bin/field", "--json"]), [record(), stuck], {"prime": "1"}, {"PCCL": "none"})
        found = json.loads(said.getvalue())
        self.assertEqual(len(found["rounds"]["us"]), 2)
        self.assertEqual(found["figures"]["us"]["equal"], [10, 12])
        self.assertEqual(found["failures"], {"PCCL": "none", "us": "no outer step within 180 s"})

    def test_why_pip_could_not(self):
        said = subprocess.CompletedProcess([], 1, "", "WARNING: slow\nERROR: No matching distribution found for x\n\nnotice\n")
        self.assertEqual(install.reason(said), "No matching distribution found for x")


class Ends(unittest.TestCase):
    def test_no_process_is_left_also_of_those_that_detach_themselves(self):
        with tempfile.TemporaryDirectory() as folder:
            with Processes(pathlib.Path(folder)) as processes:
                parent = processes.start("parent", ["sh", "-c", "setsid sleep 1000 & echo ready; sleep 1000"])
                while len(processes.marked()) < 3 or len(tree(parent.pid)) < 3:
                    time.sleep(0.01)
                self.assertGreater(memory(parent.pid)["rss"], memory(parent.pid)["pss"])
            self.assertEqual(processes.marked(), [])
            self.assertEqual(parent.returncode, -9)


if __name__ == "__main__":
    unittest.main()
