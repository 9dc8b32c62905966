"""Owns where the shell blocks of the pages run: a folder that looks like a built checkout, on a machine (a network namespace) of its own, whose
runs are small. What a reader has before him and a page cannot know, such as an invite, is put in place of what stands for it."""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from waiting import LIMIT_S, wait_until  # noqa: E402

BIN = pathlib.Path(os.environ["PRIME_BIN"])
SOURCE = pathlib.Path(os.environ["PRIME_SOURCE"])
PRIMECTL = "build/release/bin/primectl"
QUICK = (("path: /usr/include ", "path: data "), ("layers: 2, dim: 96", "layers: 1, dim: 16"), ("batch: 16 ", "batch: 2 "),
         ("inner_steps: 20", "inner_steps: 2"), ("context: 128", "context: 64"), ("outer_steps: 60 ", "outer_steps: 100000 "))
FOREVER = {"attach", "logs --follow", "status --watch"}
ENDS = (0, 1, 3, 130, 143)  # of what was started and then stopped; 3: before all of its peers had found the run


def states_file(path, tokens, width=64):
    """A safetensors file of one bf16 tensor `hidden`."""
    size = tokens * width * 2
    header = json.dumps({"hidden": {"dtype": "BF16", "shape": [tokens, width], "data_offsets": [0, size]}}).encode()
    values = b"".join(struct.pack("<H", 0x3F80 + index * 37 % 97) for index in range(tokens * width))
    path.write_bytes(struct.pack("<Q", len(header)) + header + values)


class Stage:
    def __init__(self, enter):
        """`enter`: the words before a command that runs on the stage's machine."""
        self.enter = enter
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="prime-pages-"))
        (self.folder / "build" / "release").mkdir(parents=True)
        (self.folder / "build" / "release" / "bin").symlink_to(BIN)
        (self.folder / "manifests").mkdir()
        for name in ("scenarios", "schema"):
            (self.folder / "manifests" / name).symlink_to(SOURCE / "manifests" / name)
        manifest = (SOURCE / "manifests" / "quickstart.yaml").read_text()
        for written, quick in QUICK:
            assert written in manifest, f"manifests/quickstart.yaml has no `{written}` any more"
            manifest = manifest.replace(written, quick)
        (self.folder / "manifests" / "quickstart.yaml").write_text(manifest)
        (self.folder / "data").mkdir()
        for number in range(30):
            (self.folder / "data" / f"{number}.h").write_text(f"#include <{number}.h>\nint bottles_of_beer_{number};\n" * 40)
        (self.folder / "mine").symlink_to(BIN / "quadratic_trainer")
        for name in ("states", "mine", "ours", "theirs"):
            states_file(self.folder / f"{name}.safetensors", 640)
        if (SOURCE / ".venv").exists():
            (self.folder / ".venv").symlink_to(SOURCE / ".venv")
        self.state = self.folder / "state" / "primectl"
        self.environment = {**{key: value for key, value in os.environ.items() if not key.startswith(("PRIME", "XDG_"))}, "HOME": str(self.folder),
                            "XDG_STATE_HOME": str(self.folder / "state"), "PATH": f"{BIN}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1",
                            "PRIME_QUADRATIC_ELEMENTS": "1000", "PRIME_QUADRATIC_DELAY_MS": "5"}
        self.other_state = self.folder / "other-state"
        self.beside = []
        self.finished = None

    def close(self):
        self.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def popen(self, line, log):
        return subprocess.Popen([*self.enter, "bash", "-euo", "pipefail", "-c", f"exec env {line}"], cwd=self.folder, env=self.environment,
                                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def call(self, line, codes=(0,)):
        done = subprocess.run([*self.enter, "bash", "-euo", "pipefail", "-c", line], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", timeout=LIMIT_S, check=False)
        assert done.returncode in codes, f"{line}\nexit {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def runs(self):
        return json.loads(self.call(f"{PRIMECTL} ls -o json"))["runs"] if self.state.exists() else []

    def active(self):
        return [run["id"] for run in self.runs() if run["state"] not in ("done", "stopped", "left", "failed")]

    def peers(self):
        return sum(len(json.loads(self.call(f"{PRIMECTL} status {run} -o json"))["peers"]) for run in self.active())

    def last_run(self):
        return next(run["id"] for run in self.runs() if run["id"] != self.finished)

    def finished_run(self):
        """A run that is done, and its checkpoint."""
        if self.finished is None:
            self.call(f"{PRIMECTL} up manifests/quickstart.yaml --local 2 --set train.outer_steps=2 --set checkpoint.keep_contributions=true")
            self.finished = self.runs()[0]["id"]
            self.checkpoint = json.loads(self.call(f"{PRIMECTL} status {self.finished} -o json"))["run"]["checkpoint"]
        return self.finished

    def filled(self, line):
        """What stands in a page for something that is drawn anew in each run."""
        if "prime://" in line:
            invite = self.call(f"{PRIMECTL} invite {self.last_run()}").strip()
            line = re.sub(r"prime://[^']*…", invite, line)
        if re.search(r"…/checkpoints/step-\d+|CHECKPOINT", line):
            self.finished_run()
            line = re.sub(r"…/checkpoints/step-\d+|CHECKPOINT", self.checkpoint, line)
        if "quickstart-k7qd2m" in line:
            of_an_ended_one = any(word in line for word in ("--from", " remove ", " replay "))
            line = line.replace("quickstart-k7qd2m", self.finished_run() if of_an_ended_one else self.last_run())
        return line

    def run(self, line):
        """One command of a page, as a reader would have it: what takes part in a run goes on beside the next lines."""
        line = self.filled(line)
        words = shlex.split(line, comments=True)
        program = next(pathlib.Path(word).name for word in words if not re.match(r"\w+=", word))
        command = words[1] if program == "primectl" else ""
        if command in ("up", "join") and not {"-d", "--detach"} & set(words) or program == "embed":
            self.start_beside(line)
        elif command == "standby":  # another machine has files of its own
            self.call(f"XDG_STATE_HOME={self.other_state} {line}")
        elif any(f"primectl {each}" in line for each in FOREVER):
            self.watch(line)
        elif command == "remove":
            self.call(f"{line.split(' #')[0]} --yes")
            self.finished = None
        else:
            self.call(line)

    def start_beside(self, line):
        """Until it has told that it is there, or its run knows of it."""
        before = self.peers()
        log = self.folder / f"beside-{len(self.beside)}.log"
        with open(log, "wb") as file:
            process = self.popen(line, file)
        self.beside.append((line, process, log))
        wait_until(f"a sign of `{line}`", lambda: re.search(rb"Ready|Welcome", log.read_bytes()) or process.poll() is not None or self.peers() > before)
        if process.poll() not in (None, 0):  # a short run may be over by now
            raise AssertionError(f"{line}\nexit {process.returncode}\n{log.read_text(errors='replace')}")

    def watch(self, line):
        """Until it shows something; then Ctrl-C."""
        with tempfile.TemporaryFile() as log:
            process = self.popen(line, log)
            wait_until(f"what `{line}` shows", lambda: os.fstat(log.fileno()).st_size > 0 or process.poll() is not None)
            process.send_signal(signal.SIGINT)
            code = process.wait(LIMIT_S)
            log.seek(0)
            assert code in (0, 130, -signal.SIGINT), f"{line}\nexit {code}\n{log.read().decode(errors='replace')}"

    def clear(self):
        """Nothing goes on after a block. What was started beside has ended well, or by our stopping it."""
        for run in self.active():
            self.call(f"{PRIMECTL} down {run}", codes=ENDS)
        for run in self.other_state.glob("primectl/*"):
            self.call(f"XDG_STATE_HOME={self.other_state} {PRIMECTL} down {run.name}", codes=ENDS)
            shutil.rmtree(run)
        beside, self.beside = self.beside, []
        for line, process, log in beside:
            if process.poll() is None:
                process.terminate()
            code = process.wait(LIMIT_S)
            assert code in ENDS, f"{line}\nexit {code}\n{log.read_text(errors='replace')}"
