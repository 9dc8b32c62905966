"""The script ./dev in a folder of its own: what it says before it downloads, and what it refuses. Nothing is installed or built."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["PRIME_SOURCE"])
LIMIT_S = 60
BENCHES = ("allreduce", "links")

# Stand-ins write down that they were called, in the order of their calls.
INSTALLED = 'shift 2; for name in "$@"; do echo "installed $name"; done'
NOT_INSTALLED = "exit 1"
APT = 'case "$*" in *--assume-no*) echo "Need to get 117 MB of archives."; echo "After this operation, 559 MB of additional disk space will be used.";; esac'


class Dev(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="prime-dev-")
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name) / "checkout"
        self.programs = pathlib.Path(directory.name) / "programs"
        self.called = pathlib.Path(directory.name) / "called"
        self.programs.mkdir()
        (self.root / "build" / "release").mkdir(parents=True)
        (self.root / "build" / "release" / "build.ninja").touch()
        for bench in BENCHES:
            (self.root / "tests" / "bench" / bench).mkdir(parents=True)
            (self.root / "tests" / "bench" / bench / "compare.py").touch()
        for wheel in ("torch-2.13.0+cpu", "numpy-1", "safetensors-1", "transformers-1", "accelerate-1.15.0", "nanobind-3.1.0", "scikit_build_core-1.1.2", "mypy-2.4.1", "scikit_learn-1.9.1", "pyarrow-26.0.1", "lightning-2.6.6", "sentencepiece-0.2.3", "protobuf-7.36.2", "toploc-0.1.6"):
            record = self.root / ".venv" / "lib" / "python3.11" / "site-packages" / f"{wheel}.dist-info" / "RECORD"
            record.parent.mkdir(parents=True)
            record.touch()
        shutil.copy(SOURCE / "dev", self.root / "dev")
        self.stand_in("dpkg-query", INSTALLED)
        self.stand_in("cmake", "")
        self.stand_in("apt-get", APT)
        self.stand_in("sudo", '"$@"')
        (self.programs / "ctest").symlink_to(os.environ["PRIME_CTEST"])

    def stand_in(self, name, script):
        path = self.programs / name
        path.write_text(f'#!/bin/sh\necho {name} "$@" >>"{self.called}"\n{script}\n')
        path.chmod(0o755)

    def dev(self, *arguments, program=None, folder=None):
        return subprocess.run([program or str(self.root / "dev"), *arguments], cwd=folder, capture_output=True, text=True, timeout=LIMIT_S,
                              env={**os.environ, "PATH": f"{self.programs}:{os.environ['PATH']}"}, check=False, stdin=subprocess.DEVNULL)

    def calls(self):
        return self.called.read_text().splitlines() if self.called.exists() else []

    def test_a_test_that_does_not_exist_is_no_success(self):
        done = self.dev("test", "-R", "no_such_test")
        self.assertNotEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("No tests were found", done.stdout + done.stderr)

    def test_a_benchmark_that_does_not_exist_is_refused_before_anything_is_installed(self):
        done = self.dev("bench", "nonsense")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no such benchmark: nonsense; there are: allreduce links", done.stderr)
        self.assertEqual(self.calls(), [])

    def test_the_size_of_a_download_is_told_by_who_downloads_and_before(self):
        self.stand_in("dpkg-query", NOT_INSTALLED)
        done = self.dev("setup")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("dev: Need to get 117 MB of archives.", done.stderr)
        asked, installed = (call for call in self.calls() if call.startswith("apt-get install"))
        self.assertIn("--assume-no", asked)
        self.assertIn("-y", installed)

    def test_quickstart_names_primectl_so_that_its_lines_paste_where_it_was_started(self):
        (self.root / "build" / "release" / "bin").mkdir()
        # A script cannot see how it was called; cat begins its complaint with that.
        (self.root / "build" / "release" / "bin" / "primectl").symlink_to(shutil.which("cat"))
        self.assertRegex(self.dev("quickstart", program="./dev", folder=self.root).stderr, "^build/release/bin/primectl:")
        self.assertRegex(self.dev("quickstart", program="./checkout/dev", folder=self.root.parent).stderr, f"^{self.root}/build/release/bin/primectl:")

    def test_quickstart_takes_another_number_of_peers(self):
        (self.root / "build" / "release" / "bin").mkdir()
        (self.root / "build" / "release" / "bin" / "primectl").symlink_to(shutil.which("echo"))
        self.assertEqual(self.dev("quickstart").stdout, "up manifests/quickstart.yaml --local 3\n")
        self.assertEqual(self.dev("quickstart", "--local", "2").stdout, "up manifests/quickstart.yaml --local 2\n")

    def test_a_package_that_cannot_be_built_costs_one_test_and_is_tried_once(self):
        shutil.rmtree(self.root / ".venv" / "lib" / "python3.11" / "site-packages" / "toploc-0.1.6.dist-info")
        (self.root / ".venv" / "bin").mkdir()
        python = self.root / ".venv" / "bin" / "python"
        python.write_text(f'#!/bin/sh\necho python "$@" >>"{self.called}"\necho no compiler >&2\nexit 1\n')
        python.chmod(0o755)
        done = self.dev("setup", "--test")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("dev: toploc 0.1.6 cannot be had: no compiler; its test is skipped", done.stderr)
        tried = [call for call in self.calls() if call.startswith("python -m pip install")]
        self.assertEqual(len(tried), 1)
        self.assertIn("--no-binary :all: toploc==0.1.6", tried[0])
        self.assertEqual(self.dev("setup", "--test").stderr, "")
        self.assertEqual(len([call for call in self.calls() if call.startswith("python")]), 1)

    def test_what_lasts_says_that_it_goes_on_and_how_long_it_will_be(self):
        script = (self.root / "dev").read_text()
        self.assertIn("\nTELL_EVERY_S=15\n", script)
        (self.root / "dev").write_text(script.replace("TELL_EVERY_S=15", "TELL_EVERY_S=0.3"))
        self.stand_in("cmake", "echo '[1/40] one'; sleep 1.1; echo '[20/40] two'; sleep 1; echo 'an error'; exit 3")
        done = self.dev("build")
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, r"\[1/40, \d+ s\] one\n")  # however busy the machine is
        self.assertRegex(done.stderr, r"\[20/40, \d+ s, about \d+ s left\] two\n")
        self.assertRegex(done.stderr, r"dev: still compiling, for \d+ s\n")
        self.assertIn("\nan error\n", done.stderr)
        self.stand_in("dpkg-query", NOT_INSTALLED)
        self.stand_in("apt-get", 'case "$*" in *-qq*install*|*install*-qq*) sleep 1;; esac')
        self.assertRegex(self.dev("setup", "--packages").stderr, r"dev: apt-get install goes on, for \d+ s\n")

    def test_the_download_of_libtorch_is_seen(self):
        shutil.rmtree(self.root / ".venv" / "lib" / "python3.11" / "site-packages" / "torch-2.13.0+cpu.dist-info")
        (self.root / ".venv" / "bin").mkdir()
        python = self.root / ".venv" / "bin" / "python"
        python.write_text("#!/bin/sh\necho '  Downloading torch-2.13.0+cpu.whl (190.1 MB)'\n")
        python.chmod(0o755)
        self.assertIn("dev: Downloading torch-2.13.0+cpu.whl (190.1 MB)\n", self.dev("setup").stderr)

    def test_build_without_tests_builds_what_install_installs(self):
        product = "--target primectl prime-trainer prime-inference prime_session prime_group"
        self.assertEqual(self.dev("build", "--no-tests").returncode, 0)
        done = self.dev("install", "--prefix", "there", folder=self.root.parent)
        self.assertEqual(done.returncode, 0, done.stderr)
        built, again, installed = (call for call in self.calls() if call.startswith("cmake"))
        self.assertTrue(built.endswith(product), built)
        self.assertEqual(again, built)
        self.assertEqual(installed, f"cmake --install build/release --prefix {self.root.parent}/there")
        self.assertIn("install knows only --prefix", self.dev("install", "there").stderr)
        self.assertIn("build knows only --no-tests", self.dev("build", "--fast").stderr)

    def test_install_warns_of_a_libtorch_that_other_users_cannot_read(self):
        home = self.root.parent / "home"
        libtorch = home / "torch"
        libtorch.mkdir(parents=True)
        prefix = self.root.parent / "there"
        self.stand_in("cmake", f'case "$1" in --install) mkdir -p "{prefix}/lib/prime"; ln -sfn "{libtorch}" "{prefix}/lib/prime/torch";; esac')
        self.root.parent.chmod(0o755)
        home.chmod(0o700)
        said = self.dev("install", "--prefix", str(prefix)).stderr
        self.assertIn(f"dev: warning: other users cannot enter {home}, so that", said)
        self.assertIn("/opt/torch", said)
        home.chmod(0o711)
        done = self.dev("install", "--prefix", str(prefix))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("warning", done.stderr)

    def test_package_says_what_it_made(self):
        self.stand_in("cpack", 'mkdir "$4/_CPack_Packages"; touch "$4/prime_1_amd64.deb" "$4/prime-1.tar.gz"')
        done = self.dev("package")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"dev: made {self.root}/build/packages/prime_1_amd64.deb", done.stderr)
        self.assertEqual({path.name for path in (self.root / "build" / "packages").iterdir()}, {"prime_1_amd64.deb", "prime-1.tar.gz"})
        self.stand_in("cpack", "echo no room; exit 1")
        done = self.dev("package")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no room\ndev: error: cpack failed", done.stderr)
        self.assertIn("package takes no argument", self.dev("package", "deb").stderr)

    def test_clean_says_what_it_removes(self):
        done = self.dev("clean")
        self.assertRegex(done.stderr, r"^dev: removed build \(\S+\); \.venv stays\n$")
        self.assertFalse((self.root / "build").exists())
        self.assertEqual(self.dev("clean").stderr, "dev: nothing to remove\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
