"""`primectl doctor`: a healthy pair in a few seconds, and each fault that is planted found and named. Machines are network namespaces."""

import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

from prime_run import PRIMECTL, Run

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import namespaces  # noqa: E402
from waiting import LIMIT_S  # noqa: E402


WHY_NOT = namespaces.why_not()


def doctor(*arguments, machine=None, words=(), limits=None, state=None):
    """Exit code and findings by check."""
    with tempfile.TemporaryDirectory(prefix="prime-doctor-") as directory:
        inside = namespaces.inside(machine) if machine else []
        done = subprocess.run([*inside, *words, PRIMECTL, "doctor", *arguments, "--state-dir", state or directory, "-o", "json"],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False, preexec_fn=limits)
    try:
        said = json.loads(done.stdout)
    except json.JSONDecodeError as problem:
        raise AssertionError(f"exit {done.returncode}: {done.stdout} {done.stderr}") from problem
    assert said["schema"] == "primectl.doctor/1"
    return done.returncode, {each["check"]: each for each in said["findings"]}


class ThisMachine(unittest.TestCase):
    def test_what_is_well_is_said_to_be(self):
        code, found = doctor()
        self.assertEqual(code, 0, found)
        self.assertEqual(list(found), ["clock", "descriptors", "memory", "locked memory", "shared memory", "disk", "mtu", "addresses", "trainer"])

    def test_a_trainer_that_the_loader_cannot_start_is_named_and_one_that_needs_only_its_agent_is_well(self):
        with tempfile.TemporaryDirectory(prefix="prime-doctor-") as folder:
            primectl, trainer = pathlib.Path(folder) / "primectl", pathlib.Path(folder) / "prime-trainer"
            shutil.copy2(PRIMECTL, primectl)
            for script, level, text in (("echo error while loading shared libraries: libtorch.so >&2; exit 127", "doubtful", "does not start: error while"),
                                        ("kill -SEGV $$", "doubtful", "does not start: "),
                                        ("exec sleep 600", "doubtful", "did not end within 10 s"),
                                        ("test -z \"$PRIME_AGENT_SOCKET\" || exit 127; echo no agent; exit 1", "good", f"{trainer} starts")):
                trainer.write_text(f"#!/bin/sh\n{script}\n")
                trainer.chmod(0o755)
                done = subprocess.run([primectl, "doctor", "--state-dir", folder, "-o", "json"], capture_output=True, text=True, timeout=LIMIT_S,
                                      check=False, env={**os.environ, "PRIME_AGENT_SOCKET": "/of/an/agent"})
                found = next(each for each in json.loads(done.stdout)["findings"] if each["check"] == "trainer")
                self.assertEqual((found["level"], bool(found["hint"])), (level, level != "good"), found)
                self.assertIn(text, found["text"])
                self.assertEqual("libtorch" in found["hint"], "libtorch" in script)

    def test_few_descriptors(self):
        code, found = doctor(limits=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))
        self.assertEqual(code, 5)
        self.assertEqual(found["descriptors"]["level"], "stops")
        self.assertIn("256 may be open", found["descriptors"]["text"])
        self.assertIn("ulimit -n", found["descriptors"]["hint"])

    def test_what_memory_a_peer_gets_is_told_of_the_machine_and_of_its_cgroup(self):
        _, found = doctor()
        self.assertRegex(found["memory"]["text"], r"^\d+ [GM]iB of \d+ GiB can be had(, .* that its cgroup allows .*)?: enough for one peer of up to \d+ M parameters")
        folder = pathlib.Path("/sys/fs/cgroup/memory") / f"prime-doctor-{os.getpid()}"
        try:
            folder.mkdir()
            (folder / "memory.limit_in_bytes").write_text(str(300 << 20))
        except OSError as problem:
            self.skipTest(f"no cgroup with a limit can be made here: {problem}")
        self.addCleanup(folder.rmdir)
        code, found = doctor(limits=lambda: (folder / "cgroup.procs").write_text(str(os.getpid())))
        self.assertEqual(code, 5, found)
        self.assertEqual(found["memory"]["level"], "stops")
        self.assertRegex(found["memory"]["text"], rf", \d+ MiB of the 300 MiB that its cgroup allows \({folder}/memory.limit_in_bytes\): ")
        self.assertIn("raise that limit", found["memory"]["hint"])

    def test_a_full_disk(self):
        for options in ("size=8m", "size=512m,ro"):
            with self.subTest(options=options), tempfile.TemporaryDirectory(prefix="prime-full-") as place:
                mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, text=True, check=False)
                if mounted.returncode != 0:
                    self.skipTest(f"no file system can be mounted here: {mounted.stderr.strip()}")
                try:
                    code, found = doctor(state=place)
                finally:
                    subprocess.run(["umount", place], check=True)
                self.assertEqual(code, 5)
                self.assertEqual(found["disk"]["level"], "stops")
                self.assertIn(place, found["disk"]["text"])
                self.assertIn("--state-dir", found["disk"]["hint"])

    @unittest.skipIf(WHY_NOT, WHY_NOT)
    def test_a_machine_without_a_network_and_one_with_a_narrow_device(self):
        with namespaces.machines(1, wired=False) as names:
            code, found = doctor(machine=names[0])
            self.assertEqual((code, found["addresses"]["level"]), (0, "doubtful"), "runs of its own are possible")
        with namespaces.machines(1) as names:
            namespaces.run("ip", "-n", names[0], "link", "set", namespaces.DEVICE, "mtu", 1000)
            code, found = doctor(machine=names[0])
            self.assertEqual((code, found["mtu"]["level"]), (5, "stops"))
            self.assertIn(f"{namespaces.DEVICE} 1000", found["mtu"]["text"])

    def test_a_wrong_invite_or_key_is_no_finding(self):
        for words, code in ((["prime://10.0.0.1:7/run"], 2), (["--set", "train.batch=2"], 2)):
            done = subprocess.run([PRIMECTL, "doctor", *words], capture_output=True, text=True, timeout=LIMIT_S, check=False)
            self.assertEqual(done.returncode, code, done.stderr)


@unittest.skipIf(WHY_NOT, WHY_NOT)
class TheWayToARun(unittest.TestCase):
    def run_on(self, machine, *flags):
        return Run(1, up_flags=("--quorum", "1", *flags), minimum=1, machine=machine, outer_steps=1_000_000, env={"PRIME_QUADRATIC_DELAY_MS": "100"})

    def test_a_healthy_pair(self):
        with namespaces.machines(2) as names, self.run_on(names[0], "--listen", "0.0.0.0:0") as run:
            code, found = doctor(run.up["invite"], machine=names[1])
            self.assertEqual(code, 0, found)
            self.assertLessEqual({"to the run", "from the run", "clocks", "packets"}, set(found))
            self.assertTrue(all(found[check]["level"] == "good" for check in ("to the run", "from the run", "clocks", "packets")), found)
            self.assertIn(namespaces.address(1), found["from the run"]["text"])

    def test_a_closed_port_and_a_swallowed_one(self):
        with namespaces.machines(2) as names, self.run_on(names[0], "--listen", "0.0.0.0:7077") as run:
            shut = run.up["invite"].replace(":7077/", ":7079/")
            code, found = doctor(shut, machine=names[1])
            self.assertEqual((code, found["to the run"]["level"]), (5, "stops"))
            self.assertIn("7079: connection refused", found["to the run"]["text"])
            namespaces.let_in_only(names[0])
            code, found = doctor(run.up["invite"], machine=names[1])
            self.assertEqual((code, found["to the run"]["level"]), (5, "stops"))
            self.assertIn("7077: no answer in time", found["to the run"]["text"])
            self.assertIn("firewall", found["to the run"]["hint"])

    def test_a_way_that_is_open_in_one_direction(self):
        with namespaces.machines(2) as names, self.run_on(names[0], "--listen", "0.0.0.0:0") as run:
            namespaces.let_in_only(names[1])
            code, found = doctor(run.up["invite"], "--set", "local.network.listen=0.0.0.0:7200", machine=names[1])
            self.assertEqual(found["to the run"]["level"], "good")
            self.assertEqual((code, found["from the run"]["level"]), (5, "stops"))
            self.assertIn(f"{namespaces.address(1)}:7200: no answer in time", found["from the run"]["text"])
            self.assertIn("local.network.listen", found["from the run"]["hint"])
            namespaces.let_in_only(names[1], 7200)
            code, found = doctor(run.up["invite"], "--set", "local.network.listen=0.0.0.0:7200", machine=names[1])
            self.assertEqual(code, 0, found)

    def test_a_path_that_swallows_large_packets(self):
        with namespaces.machines(2) as names, self.run_on(names[0], "--listen", "0.0.0.0:0") as run:
            for name in names:
                namespaces.send_single_packets(name)
            code, found = doctor(run.up["invite"], machine=names[1])
            self.assertEqual(code, 0, found)
            namespaces.swallow_large_packets(1, 1280)
            code, found = doctor(run.up["invite"], machine=names[1])
            self.assertEqual((code, found["packets"]["level"]), (5, "stops"), found)
            self.assertIn("black hole", found["packets"]["text"])
            self.assertIn("mtu 1280", found["packets"]["hint"])

    def test_a_clock_that_is_off_by_an_hour(self):
        with namespaces.machines(2) as names, self.run_on(names[0], "--listen", "0.0.0.0:0") as run:
            for shift, word in (("+1h", "ahead of"), ("-1h", "behind")):
                # AddressSanitizer would rather be loaded first, but the library takes nothing from it.
                words = ["env", "ASAN_OPTIONS=verify_asan_link_order=0", "faketime", "-f", shift]
                _, found = doctor(run.up["invite"], machine=names[1], words=words)
                self.assertEqual(found["clocks"]["level"], "doubtful", found["clocks"])
                self.assertRegex(found["clocks"]["text"], rf"(3599|3600|3601) s {word} the coordinator's")

    def test_an_invite_with_another_key(self):
        with namespaces.machines(2) as names, self.run_on(names[0], "--listen", "0.0.0.0:0") as run:
            other = run.up["invite"].split("#")[0] + "#" + "A" * 43
            code, found = doctor(other, machine=names[1])
            self.assertEqual((code, found["to the run"]["level"]), (5, "stops"))
            self.assertIn("invite", found["to the run"]["hint"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
