"""A trainer that is SIGKILLed goes on exactly where its last record was: the run ends with the bits of one in which nobody was killed."""

import os
import pathlib
import random
import signal
import tempfile
import unittest
import unittest.mock

from prime_run import BIN, Run, wait_until


def last_digest(run):
    return run.check(outer_steps=6)[-1]["digest"]


class Records(unittest.TestCase):
    def quadratic(self, dies_at, record_every, **manifest):
        """The digest of a run whose trainers die there, once each, and how often trainers were started again."""
        died = self.enterContext(tempfile.TemporaryDirectory(prefix="prime-died-"))
        env = {"PRIME_QUADRATIC_MOMENTUM": "1", "PRIME_QUADRATIC_DIES_AT": dies_at, "PRIME_QUADRATIC_DIED": died}
        with Run(1, minimum=1, env=env, restarts=20, up_flags=["--set", f"local.record_every={record_every}"], **manifest) as run:
            self.assertEqual(run.wait_for_end(), 0)
            restarts = [line for lines in run.peer_journals().values() for line in lines if line["event"] == "trainer_restarting"]
            self.assertEqual(len(restarts), len(list(pathlib.Path(died).iterdir())))
            return last_digest(run), len(restarts)

    def test_a_trainer_killed_at_any_boundary_or_while_it_records_ends_with_the_bits_of_one_that_was_not(self):
        for fragments in (1, 3):
            manifest = {"fragments": fragments}
            env_tensors = {"PRIME_QUADRATIC_TENSORS": "5"}
            with unittest.mock.patch.dict(os.environ, env_tensors):
                whole, _ = self.quadratic("", 0, **manifest)
                for every, places in ((0, "1.0,1.3,2.1,2.3r,3.3r,4.0,5.2,6.3"), (1, "1.0r,1.2,2.0,2.2r,3.3r,4.1r,6.3r"), (3, "1.2r,2.3,3.1,4.2r,4.3r")):
                    with self.subTest(fragments=fragments, every=every):
                        digest, restarts = self.quadratic(places, every, **manifest)
                        self.assertEqual(restarts, len(places.split(",")), "each of these places was reached")
                        self.assertEqual(digest, whole)

    def prime_trainer(self, kills, record_every, *flags):
        with Run(1, minimum=1, trainer=BIN / "prime-trainer", inner_steps=150, restarts=20,
                 up_flags=["--set", f"local.record_every={record_every}", "--set", f"data.path={self.data}", "--set", "model.context=64", *flags]) as run:
            chance = random.Random(kills)
            for kill in range(kills):
                run.wait_for("outer_step_begun", kill + 2)
                pids = wait_until("a trainer", lambda: [p["trainer_pid"] for p in run.status()["peers"] if p.get("trainer_pid")])
                wait_until("a moment", lambda: chance.random() < 0.3)
                try:
                    os.kill(pids[0], signal.SIGKILL)
                except ProcessLookupError:
                    continue
            self.assertEqual(run.wait_for_end(), 0)
            restarts = [line for lines in run.peer_journals().values() for line in lines if line["event"] == "trainer_restarting"]
            self.assertGreaterEqual(len(restarts), min(kills, 2), "it was killed while it trained")
            return last_digest(run)

    @unittest.skipUnless((BIN / "prime-trainer").exists(), "this build has no prime-trainer")
    def test_prime_trainer_keeps_its_moments(self):
        self.data = self.enterContext(tempfile.TemporaryDirectory(prefix="prime-records-"))
        for name in range(8):
            pathlib.Path(self.data, f"{name}.txt").write_text("".join(f"{name} and {i}, {i * i}\n" for i in range(900)))
        whole = self.prime_trainer(0, 0)
        self.assertEqual(self.prime_trainer(0, 0), whole, "nothing else makes runs differ")
        for every in (0, 1, 7):
            with self.subTest(every=every):
                self.assertEqual(self.prime_trainer(4, every), whole)
        for optimizer in ("{sgd: {nesterov: true}}", "{sgd: {momentum: 0}}", "{muon: {}}"):
            with self.subTest(optimizer=optimizer):
                flags = ("--set", f"train.optimizer={optimizer}")
                self.assertEqual(self.prime_trainer(3, 7, *flags), self.prime_trainer(0, 0, *flags))


if __name__ == "__main__":
    unittest.main(verbosity=2)
