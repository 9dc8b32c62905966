"""What CPack makes: the tarball's programs run from another place without the checkout, the .deb has the right contents and dependencies."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["PRIME_BUILD"])
SOURCE = pathlib.Path(os.environ["PRIME_SOURCE"])
TRAINER = os.environ["PRIME_TRAINER"] == "ON"
VERSION = os.environ["PRIME_VERSION"]
LIMIT_S = 300
LACKING = [tool for tool in ("cpack", "dpkg-deb", "dpkg-shlibdeps", "file") if not shutil.which(tool)]

MANIFEST = """version: 1
run: packed
model: {layers: 1, dim: 8, heads: 2, context: 8}
data: {path: "%s", include: "*.txt"}
train: {batch: 2, outer_steps: 1}
sync: {inner_steps: 2}
membership: {peers: 1..2}
"""


def run(*command, env=None):
    return subprocess.run([str(part) for part in command], env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=LIMIT_S, check=False,
                          stdin=subprocess.DEVNULL)


def call(*command, env=None):
    done = run(*command, env=env)
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


@unittest.skipIf(LACKING, f"there is no {LACKING}: `./dev setup --test` installs it")
class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="prime-package-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        call("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", cls.folder / "made")
        (cls.tarball,) = (cls.folder / "made").glob("*.tar.gz")
        (cls.deb,) = (cls.folder / "made").glob("*.deb")
        elsewhere = cls.folder / "elsewhere"
        elsewhere.mkdir()
        call("tar", "-xzf", cls.tarball, "-C", elsewhere)
        (cls.prefix,) = elsewhere.iterdir()
        data = cls.folder / "data"
        data.mkdir()
        (data / "a.txt").write_text("all work and no play " * 100)
        cls.manifest = cls.folder / "run.yaml"
        cls.manifest.write_text(MANIFEST % data)

    def without_checkout(self, *command, torch=None):
        """Where the checkout is an empty folder, as on a machine that never had one; `torch` is what lib/prime/torch leads to."""
        place = self.folder / "wheel"
        place.mkdir(exist_ok=True)
        script = f'{f"mount --bind {torch} {place} && " if torch else ""}mount -t tmpfs none "{SOURCE}" && cd / && exec "$@"'
        return run("unshare", "--mount", "sh", "-ec", script, "sh", *command, env={"LD_LIBRARY_PATH": ""})

    def setUp(self):
        self.link = self.prefix / "lib" / "prime" / "torch"
        self.link.unlink(missing_ok=True)

    def test_the_tarball_is_one_folder_without_libtorch_and_without_links(self):
        names = call("tar", "-tzf", self.tarball).splitlines()
        self.assertEqual({name.split("/")[0] for name in names}, {self.tarball.name.removesuffix(".tar.gz")})
        self.assertFalse([name for name in names if "torch" in name])
        self.assertFalse([path for path in self.prefix.rglob("*") if path.is_symlink()])

    def test_its_programs_find_nothing_by_the_path_of_a_build(self):
        for name in ("prime-trainer", "prime-inference") if TRAINER else ():
            (path,) = [line for line in call("readelf", "-d", self.prefix / "bin" / name).splitlines() if "RUNPATH" in line or "RPATH" in line]
            self.assertTrue(path.endswith("[$ORIGIN/../lib/prime/torch/lib]"), path)

    @unittest.skipUnless(os.geteuid() == 0, "only root can hide the checkout")
    def test_what_needs_no_libtorch_runs_without_checkout_and_libtorch(self):
        primectl = self.prefix / "bin" / "primectl"
        done = self.without_checkout(primectl, "--version")
        self.assertIn(f"primectl {VERSION}", done.stdout, done.stderr)
        done = self.without_checkout(primectl, "doctor", "--state-dir", self.folder / "doctor-state")
        self.assertRegex(done.stdout, r"doubtful +trainer: prime-trainer does not start: .*\n +hint: it needs libtorch: `lib/prime/torch`")
        done = self.without_checkout(primectl, "validate", self.prefix / "share" / "prime" / "quickstart.yaml")
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root can hide the checkout")
    @unittest.skipUnless(TRAINER, "this build has no trainer")
    def test_a_run_without_libtorch_names_it_and_with_it_trains(self):
        up = [self.prefix / "bin" / "primectl", "up", self.manifest, "--local", "2", "--state-dir"]
        done = self.without_checkout(*up, self.folder / "without-state")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("libtorch_cpu.so", done.stderr)
        self.assertIn("hint: it needs libtorch", done.stderr)
        self.link.parent.mkdir(exist_ok=True)
        self.link.symlink_to(self.folder / "wheel")
        done = self.without_checkout(*up, self.folder / "state", torch=os.environ["PRIME_TORCH"])
        self.assertIn("Done 1 outer step", done.stdout, done.stderr)
        done = self.without_checkout(up[0], "doctor", "--state-dir", self.folder / "state", torch=os.environ["PRIME_TORCH"])
        self.assertRegex(done.stdout, r"good +trainer: \S+/bin/prime-trainer starts")

    def test_the_control_file_names_what_the_programs_stand_on(self):
        self.assertEqual(call("dpkg-deb", "-f", self.deb, "Package").strip(), "prime")
        self.assertEqual(call("dpkg-deb", "-f", self.deb, "Version").strip(), VERSION)
        self.assertEqual(call("dpkg-deb", "-f", self.deb, "Architecture").strip(), call("dpkg", "--print-architecture").strip())
        depends = {each.split()[0] for each in call("dpkg-deb", "-f", self.deb, "Depends").split(",")}
        self.assertLessEqual({"libc6", "libstdc++6", "libcaf-core0.17", "libcaf-io0.17", "libssl3", "libcurl4", "libyaml-cpp0.7", "libfmt9"}, depends)
        self.assertFalse([each for each in depends if "torch" in each or each.endswith("-dev")], depends)

    def test_the_deb_is_owned_by_root_and_lies_below_usr(self):
        lines = [line.split() for line in call("dpkg-deb", "-c", self.deb).splitlines()]
        self.assertEqual({line[1] for line in lines}, {"root/root"})
        names = {line[5] for line in lines}
        self.assertFalse([name for name in names if not name.startswith("./usr/")])
        wanted = ["bin/primectl", "include/prime/prime/session.hpp", "lib/cmake/prime/primeConfig.cmake", "lib/systemd/system/prime-peer@.service",
                  "share/man/man1/primectl.1", "share/doc/prime/copyright", "share/prime/quickstart.yaml", "share/prime/schema/run.v1.json",
                  "share/bash-completion/completions/primectl"] + (["bin/prime-trainer", "bin/prime-inference"] if TRAINER else [])
        self.assertFalse([name for name in wanted if f"./usr/{name}" not in names])

    @unittest.skipUnless(os.geteuid() == 0, "only root can install a package")
    def test_dpkg_installs_and_removes_it(self):
        root = self.folder / "root"
        (root / "var" / "lib" / "dpkg" / "updates").mkdir(parents=True)
        (root / "var" / "lib" / "dpkg" / "info").mkdir()
        (root / "var" / "lib" / "dpkg" / "status").touch()
        # The folder has no other package; that those which it names suffice is seen in the image of container_test.py.
        dpkg = ["dpkg", f"--root={root}", "--force-depends", "--log=/dev/null"]
        call(*dpkg, "--install", self.deb)
        self.assertIn("install ok installed", call(*dpkg[:2], "--status", "prime"))
        self.assertIn(f"primectl {VERSION}", call(root / "usr" / "bin" / "primectl", "--version"))
        call(*dpkg, "--purge", "prime")
        self.assertFalse((root / "usr").exists())


if __name__ == "__main__":
    if LACKING:
        print(f"skipped: there is no {LACKING}: `./dev setup --test` installs it", file=sys.stderr)
    unittest.main(verbosity=2)
