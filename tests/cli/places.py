"""Owns places that share a state directory with this one: PID namespaces, machines without locks, holders of locks that somebody else has."""

import ctypes
import errno
import fcntl
import json
import os
import pathlib
import platform
import struct
import subprocess
import sys

from primectl import PRIMECTL, environment, wait_until
from runs import SLOW

UNSHARE = ["unshare", "--pid", "--fork", "--kill-child", "--uts", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
CAN_UNSHARE = subprocess.run([*UNSHARE, "--mount-proc", "true"], check=False, capture_output=True).returncode == 0
LIFE_BYTE = 1 << 30
# Of the boot before this one, or of a machine that shares the files.
OTHER_BOOT = "11111111-2222-3333-4444-555555555555"


def own_place():
    return {"boot_id": pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip(), "pid_namespace": os.stat("/proc/self/ns/pid").st_ino,
            "host": platform.node()}


def start_ticks(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])


class Container:
    """A PID and UTS namespace with a first process that only waits; `proc=False`: /proc is that of the namespace outside."""

    def __init__(self, host, state, proc=True, lockless=False):
        self.state, self.lockless = state, lockless
        # The search for leaks looks for its own threads under the process number of the namespace, in the /proc of the one outside: it ends
        # every process whose number nobody has there.
        self.environment = {} if proc else {"ASAN_OPTIONS": ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "detect_leaks=0"]))}
        self.process = subprocess.Popen([*UNSHARE, *(["--mount-proc"] if proc else ["--mount"]), "sh", "-c", f"hostname {host}; echo; exec sleep infinity"],
                                        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self.process.stdout.readline()
        (self.first,) = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()

    def call(self, *arguments, env=None):
        enter = ["nsenter", "--target", self.first, "--pid", "--uts", "--mount", *([] if os.geteuid() == 0 else ["--user", "--preserve-credentials"])]
        return primectl(*arguments, state=self.state, env={**self.environment, **(env or {})}, before=enter, lockless=self.lockless)

    def kill(self):
        """As when the power of a machine goes: nobody says a word."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        wait_until("the end of the namespace", lambda: not pathlib.Path(f"/proc/{self.first}").exists())


def primectl(*arguments, state, env=None, before=(), lockless=False):
    command = [*before, *([sys.executable, "-B", __file__] if lockless else []), PRIMECTL, *map(str, arguments)]
    return subprocess.run(command, env=environment(XDG_STATE_HOME=str(state), **SLOW, **(env or {})), capture_output=True, text=True, timeout=300,
                          check=False, stdin=subprocess.DEVNULL)


def lock_life(descriptor):
    """What the holder of a lock file has, until it ends."""
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, LIFE_BYTE, 1, 0))


def forbid_locks():
    """From now on this process and its children see a system whose files cannot be locked."""
    numbers = {"x86_64": (0xC000003E, 73, 72), "aarch64": (0xC00000B7, 32, 25)}
    arch, flock, fcntl_number = numbers[platform.machine()]
    load, equal, give = 0x20, 0x15, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | errno.ENOLCK
    program = [(load, 0, 0, 4), (equal, 0, 8, arch), (load, 0, 0, 0), (equal, 5, 0, flock), (equal, 0, 5, fcntl_number), (load, 0, 0, 24)]
    program += [(equal, 2, 0, fcntl.F_OFD_SETLK), (equal, 1, 0, fcntl.F_OFD_GETLK), (equal, 0, 1, fcntl.F_SETLK), (give, 0, 0, refuse),
                (give, 0, 0, allow)]
    code = b"".join(struct.pack("HBBI", *line) for line in program)
    buffer = ctypes.create_string_buffer(code)
    filter_ = ctypes.create_string_buffer(struct.pack("H6xP", len(program), ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, filter_, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


def write_lines(path, *events):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"t": "2031-05-04T09:14:02.137Z", "seq": seq, **event}) + "\n" for seq, event in enumerate(events, start=1)))


if __name__ == "__main__":
    forbid_locks()
    os.execv(sys.argv[1], sys.argv[1:])
