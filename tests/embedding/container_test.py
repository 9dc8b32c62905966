"""Containerfile: the image is built from a copy of the checkout, with ./dev and nothing else, and trains. It takes a quarter of an hour or more."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["PRIME_SOURCE"])
LIMIT_S = 5000
IMAGE = f"localhost/prime-test-{os.getpid()}"


def why_not():
    if os.environ.get("PRIME_CONTAINER") != "1":
        return "it downloads and compiles all that is needed; PRIME_CONTAINER=1 asks for it"
    lacking = [tool for tool in ("podman", "debootstrap") if not shutil.which(tool)]
    if lacking:
        return f"there is no {lacking}"
    return "" if os.geteuid() == 0 else "only root can make the base image by debootstrap"


def call(*command, stdin=subprocess.DEVNULL):
    done = subprocess.run([str(part) for part in command], stdin=stdin, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout


def pip_sources():
    """Where this machine's pip finds packages, for the one in the image: options of podman. Files keep their paths."""
    pip = {key.split(".")[-1]: value.strip("'") for key, _, value in (line.partition("=") for line in call("python3", "-m", "pip", "config", "list").splitlines())}
    options = []
    if folder := pip.get("find-links"):
        options += ["--env", f"PIP_FIND_LINKS={folder}"] + (["--volume", f"{folder}:{folder}:ro"] if pathlib.Path(folder).is_dir() else [])
    if certificates := pip.get("cert"):
        options += ["--env", "PIP_CERT=/run/certificates.crt", "--volume", f"{certificates}:/run/certificates.crt:ro"]
    return options


@unittest.skipIf(why_not(), why_not())
class Container(unittest.TestCase):
    # No daemon, and no container of its own for each step: that works inside of containers, too.
    PODMAN_BUILD = ("podman", "build", "--isolation", "chroot", "--network", "host", "--ulimit", "nofile=8192:8192")

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="prime-container-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.addClassCleanup(subprocess.run, ["podman", "rmi", "--force", IMAGE, f"{IMAGE}-base", f"{IMAGE}-tried"], capture_output=True, check=False)
        cls.base = os.environ.get("PRIME_CONTAINER_BASE")
        if not cls.base:
            cls.base = f"{IMAGE}-base"
            call("debootstrap", "--variant=minbase", "bookworm", cls.folder / "base")
            call("tar", "-C", cls.folder / "base", "-cf", cls.folder / "base.tar", ".")
            call("podman", "import", cls.folder / "base.tar", cls.base)

    def test_the_image_is_built_and_trains(self):
        checkout = self.folder / "checkout"
        checkout.mkdir()
        names = call("git", "-C", SOURCE, "ls-files", "-z", "-co", "--exclude-standard").split("\0")
        for name in names:
            # A link here may be a folder of packages elsewhere.
            if name and (SOURCE / name).is_file():
                (checkout / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(SOURCE / name, checkout / name)
        call(*self.PODMAN_BUILD, *pip_sources(), "--build-arg", f"BASE={self.base}", "--tag", IMAGE, checkout)
        # As a step of another build, since `podman run` needs rights that a container has not.
        tried = self.folder / "tried"
        tried.mkdir()
        (tried / "Containerfile").write_text(
            f"FROM {IMAGE}\nRUN mkdir data && yes 'all work and no play' | head -c 20000 >data/a.txt && primectl --version && primectl up "
            "/usr/share/prime/quickstart.yaml --set data.path=data --set 'data.include=*.txt' --set train.outer_steps=1 --set sync.inner_steps=2 --set data.held_out=0% --local 2\n")
        said = call(*self.PODMAN_BUILD, "--tag", f"{IMAGE}-tried", tried)
        self.assertIn("Done 1 outer step", said)


if __name__ == "__main__":
    if why_not():
        print(f"skipped: {why_not()}")
    unittest.main(verbosity=2)
