"""What is scarce or wrong: a full disk, a taken port, data that cannot be read; and what idle processes cost."""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import unittest

from prime_run import LIMIT_S, PRIMECTL, Run, wait_until

SOURCE = pathlib.Path(os.environ["PRIME_SOURCE"])


def cpu_ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


class Limits(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="prime-limits-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def up(self, *arguments, state=None, env=None):
        return subprocess.run([str(PRIMECTL), "up", *map(str, arguments), "--state-dir", str(state or self.folder / "state")], capture_output=True, text=True,
                              timeout=LIMIT_S, check=False, env={**os.environ, **(env or {})})

    def test_idle_processes_burn_less_than_two_percent_of_a_core(self):
        # Two of three peers: both wait for the third. CPU time, not speed: it does not depend on how busy the machine is.
        with Run(2, up_flags=["--quorum", "3"], beat="2s", dead_after="10s") as run:
            run.wait_for("peer_seated", 2)
            pids = [run.up["coordinator"]["pid"], *(peer["pid"] for peer in run.up["peers"])]
            before = {pid: cpu_ticks(pid) for pid in pids}
            clock = os.sysconf("SC_CLK_TCK")
            waited = 5
            with self.assertRaises(subprocess.TimeoutExpired):
                subprocess.run(["tail", "-f", "/dev/null"], timeout=waited, check=False)
            for pid in pids:
                self.assertLess((cpu_ticks(pid) - before[pid]) / clock / waited, 0.02, f"process {pid}")

    def test_a_port_that_is_taken_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen(1)
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            done = self.up(SOURCE / "manifests" / "quickstart.yaml", "--local", 2, "--listen", address)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"cannot listen at this address: {address}: address already in use", done.stderr)
        self.assertIn("hint:", done.stderr)

    def test_an_address_of_another_machine_or_of_nobody_is_named(self):
        for address, why in (("192.0.2.1:0", "cannot assign requested address"), ("nowhere.invalid:0", "nowhere.invalid")):
            done = self.up(SOURCE / "manifests" / "quickstart.yaml", "--listen", address)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("cannot listen at this address", done.stderr)
            self.assertIn(why, done.stderr)
            self.assertNotIn("in use", done.stderr)

    def test_data_that_cannot_be_read_is_named_before_anything_starts(self):
        done = self.up(SOURCE / "manifests" / "quickstart.yaml", "--set", "data.path=/nonexistent")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("the training data cannot be read: /nonexistent", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small file system")
    def test_a_full_disk_leaves_no_half_written_checkpoint_and_is_said(self):
        small = self.folder / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=10m", "tmpfs", str(small)], check=True)
        try:
            manifest = self.folder / "run.yaml"
            with Run(1, minimum=1, outer_steps=2) as other:
                manifest.write_text(other.manifest.read_text())
                wait_until("its end", lambda: other.events("process_ended"))
            done = self.up(manifest, "--local", 1, state=small / "state", env={"PRIME_QUADRATIC_ELEMENTS": "2000000"})
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("the final checkpoint is missing", done.stderr)
            self.assertIn("No space left on device", done.stderr)
            left = [str(path) for path in small.rglob("checkpoints/**/*")]
            self.assertEqual(left, [], "nothing half-written")
        finally:
            subprocess.run(["umount", "-l", str(small)], check=True)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to mount a small file system")
    def test_a_disk_that_is_too_small_or_becomes_full_is_named_whatever_it_breaks(self):
        small = self.folder / "small"
        small.mkdir()
        manifest = self.folder / "run.yaml"
        with Run(1, minimum=1, outer_steps=2) as other:
            manifest.write_text(other.manifest.read_text())
            wait_until("its end", lambda: other.events("process_ended"))
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], check=True)
        try:
            with contextlib.suppress(OSError):
                (small / "fill").write_bytes(bytes(1 << 20))
            done = self.up(manifest, "-d", state=small / "state")
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertIn("No space left on device", done.stderr)
            self.assertEqual([entry.name for entry in (small / "state").iterdir()], [])
        finally:
            subprocess.run(["umount", "-l", str(small)], check=True)
        for size in ("16k", "64k"):
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(small)], check=True)
            try:
                done = self.up(manifest, "--local", 2, "--set", "train.outer_steps=100000", "--set", "membership.coordinator_grace=4s", state=small / "state",
                               env={"PRIME_QUADRATIC_ELEMENTS": "1000"})
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                error = [line for line in done.stderr.splitlines() if line.startswith("error:")][-1]
                self.assertIn(str(small), error, done.stderr)
                self.assertIn("No space left on device", error)
                self.assertIn("PR0701", error)
            finally:
                subprocess.run(["umount", "-l", str(small)], check=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
