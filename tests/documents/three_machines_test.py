"""docs/THREE-MACHINES.md: its own blocks in three network namespaces, of whose ports those are open that the page names. Then the same run
by the command lines of the units for systemd, and as their user."""

import configparser
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import namespaces  # noqa: E402
from blocks import blocks_of  # noqa: E402
from waiting import LIMIT_S, wait_until  # noqa: E402

BIN = pathlib.Path(os.environ["PRIME_BIN"])
SOURCE = pathlib.Path(os.environ["PRIME_SOURCE"])
PAGE = SOURCE / "docs" / "THREE-MACHINES.md"
UNITS = SOURCE / "share" / "systemd"
PLACES = ("first machine", "second machine", "third machine")
INVITE = "prime://…"
WHY_NOT = namespaces.why_not() or ("" if os.environ["PRIME_TRAINER"] == "ON" else "this build has no trainer")
# What a test has no time for: the page's run takes minutes.
SHORTER = (("outer_steps: 60", "outer_steps: 4"), ("inner_steps: 20", "inner_steps: 2"), ("batch: 16", "batch: 2"), ("dim: 96", "dim: 16"))

# In a mount namespace: what is written to /etc is gone with it.
OWN_ETC = '''
mount -t tmpfs none /mnt
mkdir /mnt/written /mnt/work
mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/written,workdir=/mnt/work /etc
'''


def shorter(manifest):
    for long, short in SHORTER:
        assert long in manifest, f"the page's manifest has no `{long}` any more"
        manifest = manifest.replace(long, short)
    return manifest


class Machine:
    """A folder and a network namespace, with nothing of another machine in reach of its commands."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        (folder / "data").mkdir(parents=True)
        for number in range(30):
            (folder / "data" / f"{number}.txt").write_text(f"{number} bottles of beer on the wall, {number} bottles of beer. " * 40)
        self.environment = {**{key: value for key, value in os.environ.items() if not key.startswith(("PRIME", "XDG_"))}, "HOME": str(folder),
                            "PATH": f"{BIN}:{os.environ['PATH']}"}

    def start(self, words, log, **added):
        return subprocess.Popen(namespaces.inside(self.name, *words), cwd=self.folder, env={**self.environment, **added}, stdin=subprocess.DEVNULL,
                                stdout=log, stderr=log)

    def shell(self, text):
        """What it prints; each of its lines has to succeed."""
        done = subprocess.run(namespaces.inside(self.name, "bash", "-euo", "pipefail", "-c", text), cwd=self.folder, env=self.environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, f"on {self.name}: {text}\nexit {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def end(self):
        """Whatever still goes on here, after a failure."""
        for run in self.folder.glob(".local/state/primectl/*"):
            subprocess.run(namespaces.inside(self.name, "primectl", "down", run.name), cwd=self.folder, env=self.environment, capture_output=True,
                           timeout=LIMIT_S, check=False)


class ThreeMachines(unittest.TestCase):
    def setUp(self):
        if WHY_NOT:
            self.skipTest(WHY_NOT)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="prime-three-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        names = self.enterContext(namespaces.machines(3))
        for name, ports in zip(names, ((7077, 7078), (7078,), (7078,))):
            namespaces.let_in_only(name, *ports)
        self.machines = dict(zip(PLACES, (Machine(name, self.folder / str(index)) for index, name in enumerate(names))))

    def ends_with_three(self, said):
        self.assertIn("Done 4 outer steps", said)
        self.assertRegex(said, r"(?m)^ *4 .*\b3/3\b", "all three contributed to the last step")

    def test_the_page(self):
        for machine in self.machines.values():
            self.addCleanup(machine.end)
        # Of the third machine, nothing but what its router maps is reached.
        namespaces.let_in_only(self.machines[PLACES[2]].name)
        self.enterContext(namespaces.mapped_port(self.machines[PLACES[2]].name, 17078, 7078))
        invite, said = INVITE, ""
        for block in blocks_of(PAGE, SOURCE):
            if block.word == "file" and block.language == "yaml":
                (self.machines[PLACES[0]].folder / block.said).write_text(shorter(block.text))
            elif block.word == "on":
                self.assertIn(block.said, (*PLACES, "each machine"), block.place)
                of = PLACES if block.said == "each machine" else [block.said]
                told = [self.machines[place].shell(block.text.replace(INVITE, invite)) for place in of]
                if "version" in block.text or "sha256sum" in block.text:
                    self.assertEqual(len(set(told)), 1, f"{block.place}: equal on all three\n{told}")
                if "primectl invite" in block.text:
                    invite = told[0].splitlines()[-1]
                    self.assertTrue(invite.startswith(f"prime://{namespaces.address(0)}:7077/three-"), told)
                said = told[-1]
            else:
                self.assertIn(block.word, ("not run", "file"), f"{block.place}: nobody says what is to be done with this block")
        self.ends_with_three(said)

    def service(self, unit):
        text = configparser.RawConfigParser()
        text.optionxform = str
        text.read(UNITS / unit)
        return text["Service"]

    def successes(self, unit):
        return [0, *map(int, self.service(unit)["SuccessExitStatus"].split())]

    def test_the_command_lines_of_the_units(self):
        pages = {block.said: block.text for block in blocks_of(PAGE, SOURCE) if block.word == "file"}
        first, second, third = self.machines.values()
        started = []

        def serve(machine, unit, options):
            settings = dict(line.split("=", 1) for line in options.splitlines())
            words = []
            for word in self.service(unit)["ExecStart"].replace("%i", "three").replace("/etc/prime", str(machine.folder)).replace("/var/lib/prime", str(machine.folder)).split():
                words += settings.get(word[1:], "").split() if word.startswith("$") else [word]
            log = open(machine.folder / "log", "wb")
            self.addCleanup(log.close)
            process = machine.start(words, log, PRIMECTL_INVITE=shlex.split(settings.get("PRIMECTL_INVITE", "") or "''")[0])
            started.append(process)
            self.addCleanup(lambda: (process.poll() is None and process.terminate(), process.wait(LIMIT_S)))
            return process

        def log_of(machine):
            return (machine.folder / "log").read_text(errors="replace")

        (first.folder / "three.yaml").write_text(shorter(pages["three.yaml"]).replace("outer_steps: 4", "outer_steps: 100000"))
        data = "PRIME_OPTIONS=--set local.data_path=/srv/prime/data"
        self.assertIn(data, pages["three.env"])
        for machine in (first, second, third):  # as it is where there is a folder /srv/prime
            (machine.folder / "data").rename(machine.folder / "srv")
        data_of = {machine.name: data.replace("/srv/prime/data", str(machine.folder / "srv")) for machine in (first, second, third)}
        up = serve(first, "prime-run@.service", data_of[first.name] + " --quorum 3")
        invite = wait_until("the invite", lambda: re.search(r"prime://[^'\s]+", log_of(first)))[0]
        peers = [serve(machine, "prime-peer@.service", pages["three.env"].replace(INVITE, invite).replace(data, data_of[machine.name]))
                 for machine in (second, third)]
        wait_until("an outer step of three", lambda: re.search(r"\b3/3\b", log_of(first)) or up.poll() is not None)
        self.assertIsNone(up.poll(), log_of(first))
        # As `systemctl stop` does it: the main process alone hears of it, and what it answers is success to systemd.
        peers[0].terminate()
        self.assertIn(peers[0].wait(LIMIT_S), self.successes("prime-peer@.service"), log_of(second))
        wait_until("a step of two", lambda: re.search(r"\b2/2\b", log_of(first)) or up.poll() is not None)
        self.assertIsNone(up.poll(), log_of(first))
        up.terminate()
        self.assertIn(up.wait(LIMIT_S), self.successes("prime-run@.service"), log_of(first))
        self.assertEqual(peers[1].wait(LIMIT_S), 1, "a run that others stopped may come back: systemd looks for it, for a while")
        self.assertTrue(list(first.folder.glob("three-*/coordinator/journal.jsonl")), "its files lie where --state-dir says")

    def test_the_run_of_the_page_begins_as_the_user_of_its_unit(self):
        if why_not := self.no_place_of_its_own():
            self.skipTest(why_not)
        (account,) = [block.text for block in blocks_of(PAGE, SOURCE) if "useradd" in block.text]
        pages = {block.said: block.text for block in blocks_of(PAGE, SOURCE) if block.word == "file"}
        (first, *_) = self.machines.values()
        (first.folder / "three.yaml").write_text(shorter(pages["three.yaml"]))
        self.folder.chmod(0o755)
        service = self.service("prime-run@.service")
        line = service["ExecStart"].replace("%i", "three").replace("$PRIME_OPTIONS", f"--local 1 --quorum 1 --set membership.peers=1..8 --set local.data_path={first.folder}/data")
        done = subprocess.run(namespaces.inside(first.name, "unshare", "--mount", "bash", "-euc", f'''
            {OWN_ETC}
            sudo() {{ "$@"; }}
            {account}
            cp {first.folder}/three.yaml /etc/prime/
            mount -t tmpfs none /var/lib
            install -d -o {service["User"]} /var/lib/{service["StateDirectory"]}
            cd {service["WorkingDirectory"]}
            runuser -u {service["User"]} -- {line}
            '''), env=first.environment, cwd="/", capture_output=True, text=True, timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL)
        self.assertIn("Done 4 outer steps", done.stdout, done.stderr)

    def no_place_of_its_own(self):
        """Why the user of the units cannot be made here, or has no way to the programs."""
        done = subprocess.run(["unshare", "--mount", "bash", "-euc", OWN_ETC + f"useradd --system other\nrunuser -u other -- test -x {BIN}/primectl"],
                              capture_output=True, text=True, check=False)
        return f"no other user over a copy of /etc can run {BIN}/primectl: {done.stderr.strip()}" if done.returncode else ""

    def test_systemd_reads_the_units(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("no systemd-analyze here")
        for unit in UNITS.glob("*.service"):
            copy = self.folder / unit.name.replace("@", "@three")
            copy.write_text(unit.read_text().replace("ExecStart=primectl", f"ExecStart={BIN / 'primectl'}"))
            done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, timeout=LIMIT_S, check=False)
            complaints = [line for line in done.stderr.splitlines() if unit.stem.rstrip("@") in line]
            self.assertEqual(complaints, [], done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
