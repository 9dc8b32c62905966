"""What `cmake --install` makes, moved to another place: its programs train, and a project outside the checkout builds against it."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["PRIME_BUILD"])
SOURCE = pathlib.Path(os.environ["PRIME_SOURCE"])
LIMIT_S = 500

GROUP_PROJECT = """cmake_minimum_required(VERSION 3.25)
project(outside LANGUAGES CXX)
find_package(prime 0.1 CONFIG REQUIRED)
add_executable(outside main.cpp)
target_link_libraries(outside PRIVATE prime::session prime::group)
"""
# A group without a secret, and a session that nobody serves: both libraries work as far as their refusals.
GROUP_PROGRAM = """#include <cstdio>
#include <prime/group.hpp>
#include <prime/session.hpp>
int main() {
  auto group = prime::Group::form({.rank = 0, .members = {"127.0.0.1:1", "127.0.0.1:2"}, .key = "short"});
  auto session = prime::Session::attach();
  if (!group) std::puts(prime::render(group.error()).c_str());
  if (!session) std::puts(prime::render(session.error()).c_str());
}
"""
MANIFEST = """version: 1
run: installed
model: {layers: 1, dim: 8, heads: 2, context: 8}
data: {path: "%s", include: "*.txt"}
train: {batch: 2, outer_steps: 1}
sync: {inner_steps: 2}
membership: {peers: 1..2}
"""


def call(*command, cwd=None, env=None):
    done = subprocess.run([str(part) for part in command], cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=LIMIT_S,
                          check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="prime-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        call("cmake", "--install", BUILD, "--prefix", cls.folder / "first")
        cls.prefix = cls.folder / "moved" / "prime"
        cls.prefix.parent.mkdir()
        (cls.folder / "first").rename(cls.prefix)

    def build(self, source, target):
        call("cmake", "-G", "Ninja", "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_BUILD_TYPE=Release",
             "-DCMAKE_CXX_FLAGS=" + {"address": "-fsanitize=address,undefined", "thread": "-fsanitize=thread"}.get(os.environ["PRIME_SANITIZED"], ""))
        call("cmake", "--build", source / "build", "--target", target)
        return source / "build" / target

    def test_its_files_name_neither_the_checkout_nor_where_they_were_put_first(self):
        names = (str(SOURCE), str(self.folder / "first"))
        for path in [*self.prefix.rglob("*.cmake"), *self.prefix.rglob("*.hpp")]:
            for name in names:
                self.assertNotIn(name, path.read_text(), path)

    def test_the_units_for_systemd_lie_where_it_looks(self):
        for unit in (SOURCE / "share" / "systemd").iterdir():
            self.assertEqual((self.prefix / "lib" / "systemd" / "system" / unit.name).read_bytes(), unit.read_bytes())

    def test_the_example_builds_outside_the_checkout_and_trains(self):
        source = self.folder / "embed"
        shutil.copytree(SOURCE / "examples" / "embed", source)
        program = self.build(source, "embed")
        manifest = self.folder / "embed.yaml"
        manifest.write_text((MANIFEST % self.folder) + f'local: {{trainer_command: ["{program}"]}}\n')
        said = call(self.prefix / "bin" / "primectl", "up", manifest, "--local", "1", "--state-dir", self.folder / "embed-state")
        self.assertIn("Done 1 outer step", said)

    def test_find_package_gives_both_libraries(self):
        source = self.folder / "outside"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(GROUP_PROJECT)
        (source / "main.cpp").write_text(GROUP_PROGRAM)
        said = call(self.build(source, "outside"))
        self.assertEqual(len(re.findall(r"\[PR\d{4}\]", said)), 2, said)

    @unittest.skipUnless(os.environ["PRIME_TRAINER"] == "ON", "this build has no trainer")
    def test_the_installed_programs_train_where_they_were_moved_to(self):
        data = self.folder / "data"
        data.mkdir()
        (data / "a.txt").write_text("all work and no play " * 100)
        manifest = self.folder / "run.yaml"
        manifest.write_text(MANIFEST % data)
        said = call(self.prefix / "bin" / "primectl", "up", manifest, "--local", "1", "--state-dir", self.folder / "state")
        self.assertIn("Done 1 outer step", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
