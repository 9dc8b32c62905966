"""Owns the processes of a round: their start, their trees and memory, and their end, also of those that detach themselves.

Whoever is started has a mark in its environment, which its children inherit; what has it is ended at the end of the round, by its id.
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import time
import uuid

MARK = "PRIME_FIELD_ROUND"
LIMIT_S = 180


class Stuck(RuntimeError):
    pass


def wait_until(what, found, limit_s=LIMIT_S, alive=lambda: None):
    """What `found` says as soon as it is true; `alive` raises when it cannot come to that any more."""
    until = time.monotonic() + limit_s
    while not (answer := found()):
        alive()
        if time.monotonic() > until:
            raise Stuck(f"no {what} within {limit_s} s")
        time.sleep(0.05)
    return answer


def parents():
    """Each process's parent, by their ids."""
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            found[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    return found


def tree(pid):
    """The process and all that it started."""
    of = parents()
    members = {pid}
    while more := {child for child, parent in of.items() if parent in members} - members:
        members |= more
    return members


def memory(pid):
    """Resident bytes of a peer's processes, and those with each shared page divided among who shares it."""
    total = {"pss": 0, "rss": 0}
    for member in tree(pid):
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{member}/smaps_rollup").read_text().splitlines():
                word, _, value = line.partition(":")
                if word.lower() in total:
                    total[word.lower()] += int(value.split()[0]) * 1024
    return total


def kill_tree(pid):
    for member in tree(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)


class Processes:
    """All of one round. As a context it leaves none behind."""

    def __init__(self, folder):
        self.folder = folder
        self.mark = uuid.uuid4().hex
        self.started = {}

    def __enter__(self):
        return self

    def environment(self):
        return {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TMPDIR": str(self.folder), MARK: self.mark}

    def start(self, name, command):
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen([str(word) for word in command], env=self.environment(), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                       cwd=self.folder, start_new_session=True)
        self.started[name] = process
        return process

    def last_words(self, name):
        lines = (self.folder / f"{name}.log").read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "it said nothing"

    def check(self):
        for name, process in self.started.items():
            if process.poll() is not None:
                raise Stuck(f"{name} ended with {process.returncode}: {self.last_words(name)}")

    def marked(self):
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if f"{MARK}={self.mark}".encode() in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    def __exit__(self, *_):
        # Again while there are any: a guard may have started another one meanwhile.
        until = time.monotonic() + 10
        while (left := self.marked()) and time.monotonic() < until:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for process in self.started.values():
                process.poll()
            time.sleep(0.02)
        for process in self.started.values():
            process.wait()
