"""The manifests that are shipped: each is valid and can be planned, says what it is for, and those of a size for this machine train."""

import json
import unittest

from primectl import BIN, SOURCE, primectl, temporary_directory

SHIPPED = sorted((SOURCE / "manifests").glob("*.yaml"))
SMALL = ("decoupled", "delayed", "eager", "quickstart", "streaming")


class Manifests(unittest.TestCase):
    def setUp(self):
        directory = temporary_directory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def call(self, *arguments):
        done = primectl(*arguments, "-o", "json", state=self.directory)
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])

    def test_each_is_valid_and_has_a_plan(self):
        self.assertGreaterEqual({path.stem for path in SHIPPED}, set(SMALL))
        for path in SHIPPED:
            with self.subTest(path=path.name):
                lines = path.read_text().splitlines()
                self.assertTrue(lines[1].startswith(f"# {path.name}: "), "says what it is for")
                self.call("validate", path)
                plan = self.call("plan", path, "--link", "1Gbit/s", "--step-time", "10s")
                self.assertEqual(plan["run"], path.stem)
                self.assertGreater(plan["compute_utilization"], 0.5)
                self.assertGreater(plan["parameters"], 100_000)

    def test_the_sizes_are_those_of_their_names(self):
        for path in SHIPPED:
            size = path.stem.rsplit("-", 1)[-1]
            if size[:-1].isdigit():
                named = int(size[:-1]) * {"m": 1e6, "b": 1e9}[size[-1]]
                with self.subTest(path=path.name):
                    self.assertAlmostEqual(self.call("plan", path)["parameters"] / named, 1, delta=0.75)

    @unittest.skipUnless((BIN / "prime-trainer").exists(), "this build has no trainer: libtorch is not instrumented")
    def test_the_small_ones_train(self):
        for name in SMALL:
            with self.subTest(name=name):
                result = self.call("up", SOURCE / "manifests" / f"{name}.yaml", "--local", "2", "-q", "--set", f"data.path={SOURCE}/messages",
                                   "--set", "train.outer_steps=2", "--set", "train.batch=2")
                self.assertEqual((result["state"], result["outer_step"]), ("done", 2))
                self.assertLess(result["held_out_loss"], 6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
