"""Peers on several machines, which are network namespaces: the addresses that the README gives, and no other setting."""

import pathlib
import sys
import unittest

from prime_run import Run, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import namespaces  # noqa: E402


WHY_NOT = namespaces.why_not()


@unittest.skipIf(WHY_NOT, WHY_NOT)
class Machines(unittest.TestCase):
    def run_on(self, machine, flags=(), **options):
        return Run(1, up_flags=("--quorum", "1", *flags), minimum=1, machine=machine, **options)

    def test_a_peer_of_another_machine_takes_part_without_a_setting_of_its_own(self):
        for flags in (("--listen", "0.0.0.0:0"), ("--listen", f"{namespaces.address(0)}:0"),
                      ("--listen", "0.0.0.0:0", "--set", f"local.network.advertise={namespaces.address(0)}")):
            with self.subTest(flags=flags), namespaces.machines(3) as names:
                with self.run_on(names[0], flags, outer_steps=12, held_at=6) as run:
                    self.assertIn(f"prime://{namespaces.address(0)}:", run.up["invite"])
                    self.assertTrue(run.up["coordinator"]["address"].startswith(namespaces.address(0)), run.up)
                    joiners = [run.join(machine=names[1]), run.join(machine=names[2])]
                    run.release(3)
                    self.assertEqual(run.wait_for_end(), 0)
                    for index, joiner in enumerate(joiners):
                        wait_until("the joiner's end", lambda p=joiner: p.poll() is not None)
                        self.assertEqual(joiner.returncode, 0, run.join_log(index))
                    commits = run.check(outer_steps=12)
                    self.assertEqual(len(commits[-1]["contributors"]), 3)
                    self.assertEqual(run.events("outer_step_aborted"), [])

    def test_an_address_that_the_others_cannot_reach_is_refused_at_once(self):
        with namespaces.machines(2) as names, self.run_on(names[0], ("--listen", "0.0.0.0:0"), outer_steps=1_000_000) as run:
            for setting in ("local.network.listen=127.0.0.1:0", "local.network.advertise=localhost"):
                joiner = run.join(machine=names[1], flags=("--set", setting))
                wait_until("the refusal", lambda p=joiner: p.poll() is not None)
                self.assertEqual(joiner.returncode, 2, run.join_log(len(run.processes) - 1))
                self.assertIn("PR0705", run.join_log(len(run.processes) - 1))
            self.assertEqual(len(run.events("peer_joining")), 1, "the run never heard of it")


if __name__ == "__main__":
    unittest.main(verbosity=2)
