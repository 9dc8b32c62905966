"""What may stand between an agent and its trainer, with the real programs: a run trains to its end with the bits of one without a launcher.
Each is skipped by name where its program is not there, or cannot work here."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from prime_run import LIMIT_S, QUADRATIC, Run

SOURCE = pathlib.Path(os.environ["PRIME_SOURCE"])
PASSED_ON = ("PRIME_AGENT_SOCKET", "PRIME_AGENT_SECRET", "PRIME_QUADRATIC_ELEMENTS", "PRIME_QUADRATIC_DELAY_MS")


def first_lines(done):
    return " ".join((done.stderr or done.stdout).split())[:300]


class Launchers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.without = cls.digest_of_a_run(cls, QUADRATIC)

    def needs(self, program, *probe):
        """Its path; a probe that fails is the reason to skip."""
        found = shutil.which(program) or shutil.which(program, path=str(SOURCE / ".venv" / "bin"))
        if not found:
            self.skipTest(f"there is no {program} here")
        if probe:
            done = subprocess.run([found, *map(str, probe)], capture_output=True, text=True, timeout=LIMIT_S, check=False)
            if done.returncode != 0:
                self.skipTest(f"{program} cannot work here: {first_lines(done)}")
        return found

    def digest_of_a_run(self, *command, env=None):
        trainer = '", "'.join(json.dumps(str(word))[1:-1] for word in command)  # between the quotes of the manifest
        with Run(2, outer_steps=3, trainer=trainer, env={"PRIME_QUADRATIC_DELAY_MS": "1", **(env or {})}) as run:
            code = run.wait_for_end()
            logs = run.trainer_logs()
            assert code == 0, logs[-2000:]
            commits = run.check(outer_steps=3)
            assert len(commits[-1]["contributors"]) == 2, logs[-2000:]
            assert not any(line["event"] == "trainer_restarting" for lines in run.peer_journals().values() for line in lines), logs[-2000:]
            return commits[-1]["digest"]

    def trains(self, *command, env=None):
        self.assertEqual(self.digest_of_a_run(*command, env=env), self.without)

    def root_file_system(self):
        """The trainer and the libraries that it needs, below a root of their own: what an image would have."""
        root = pathlib.Path(tempfile.mkdtemp(prefix="prime-root-"))
        self.addCleanup(shutil.rmtree, root, ignore_errors=True)
        for name, program in (("trainer", QUADRATIC), ("true", shutil.which("true"))):
            needed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout.split()
            for path in {word for word in needed if word.startswith("/")}:
                inside = root / path[1:]
                inside.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, inside)
            shutil.copy(program, root / name)
        for folder in ("proc", "dev", "tmp", "etc", "run", "sys"):
            (root / folder).mkdir(exist_ok=True)
        return root

    def test_a_shell_script(self):
        self.trains("sh", "-c", f"echo begins; {QUADRATIC}; exit $?")

    def test_sudo(self):
        sudo = self.needs("sudo", "-n", "true")
        self.trains(sudo, "-n", "--preserve-env=" + ",".join(PASSED_ON), QUADRATIC)

    def test_torchrun(self):
        torchrun = self.needs("torchrun", "--help")
        self.trains(torchrun, "--no-python", "--nproc-per-node=1", "--master-port=0", QUADRATIC, env={"OMP_NUM_THREADS": "1"})

    def test_conda(self):
        conda = self.needs("conda", "run", "-n", "base", "true")
        self.trains(conda, "run", "-n", "base", "--no-capture-output", QUADRATIC)

    def test_srun(self):
        srun = self.needs("srun", "true")
        self.trains(srun, "-n", "1", QUADRATIC)

    def test_another_root_and_namespaces(self):
        unshare = self.needs("unshare", "--mount", "--pid", "--fork", "--ipc", "true")
        root = self.root_file_system()
        script = (f'at=$(dirname "$PRIME_AGENT_SOCKET"); mkdir -p "{root}$at" && mount --bind "$at" "{root}$at" && exec chroot {root} /trainer')
        self.trains(unshare, "--mount", "--pid", "--fork", "--ipc", "sh", "-c", script)

    def test_podman(self):
        podman = self.needs("podman", "--version")
        root = self.root_file_system()
        # What it sets by itself is more than this test may; which runtime works depends on how the kernel's cgroups are mounted.
        options = ["run", "--rm", "--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096"]
        tried = {}
        for runtime in ("crun", "runc"):
            done = subprocess.run([podman, "--runtime", runtime, *options, "--rootfs", str(root), "/true"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
            if done.returncode == 0:
                break
            tried[runtime] = first_lines(done)
        else:
            self.skipTest(f"podman cannot run a container here: {tried}")
        variables = [word for name in PASSED_ON for word in ("-e", name)]
        line = " ".join([podman, "--runtime", runtime, *options, *variables, '-v "$at:$at"', "--rootfs", str(root), "/trainer"])
        self.trains("sh", "-c", f'at=$(dirname "$PRIME_AGENT_SOCKET"); exec {line}')

    def test_docker(self):
        docker = self.needs("docker", "info")
        root = self.root_file_system()
        image = f"prime-launcher-{os.getpid()}"
        made = subprocess.run(f"tar -C {root} -c . | {docker} import - {image}", shell=True, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.addCleanup(subprocess.run, [docker, "rmi", image], capture_output=True, check=False)
        variables = " ".join(f"-e {name}" for name in PASSED_ON)
        self.trains("sh", "-c", f'at=$(dirname "$PRIME_AGENT_SOCKET"); exec {docker} run --rm {variables} -v "$at:$at" {image} /trainer')


if __name__ == "__main__":
    unittest.main(verbosity=2)
