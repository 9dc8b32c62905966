"""Owns how the command line's tests call primectl."""

import contextlib
import fcntl
import functools
import json
import os
import pathlib
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from json_schema import faults  # noqa: E402
from waiting import LIMIT_S, lives, wait_until  # noqa: E402, F401

BIN = pathlib.Path(os.environ["PRIME_BIN"])
SOURCE = pathlib.Path(os.environ["PRIME_SOURCE"])
PRIMECTL = str(BIN / "primectl")
END_OF_OUTPUT = b"\0end\0"

MANIFEST = """version: 1
run: small
model: {{arch: llama, layers: 1, dim: 8, heads: 2, vocab: 256, context: 8}}
train: {{batch: 4, outer_steps: {outer_steps}, evaluate: {{every: 0}}}}
sync: {{algorithm: diloco, inner_steps: 4, deadline: 60s}}
membership: {{peers: {minimum}..8, heartbeat: {{every: 200ms, dead_after: 5s}}, wait_limit: 2min}}
local: {{trainer_command: ["{trainer}"], trainer: {{restarts: {restarts}}}}}
"""


@functools.cache
def schema_of(name):
    """`name` as it stands in the output, such as primectl.status/1."""
    return json.loads((SOURCE / "manifests" / "schema" / "output" / (name.removeprefix("primectl.").removesuffix("/1") + ".v1.json")).read_text())


def check_schemas(out):
    """Every object that names its schema has to be as that says."""
    for line in out.splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict) and str(told.get("schema", "")).startswith("primectl."):
            found = faults(schema_of(told["schema"]), told)
            assert not found, f"{found} in {line}"


def environment(**added):
    """Ours without what would change the output."""
    removed = ("NO_COLOR", "CLICOLOR_FORCE", "XDG_STATE_HOME", "PRIMECTL_INVITE")
    return {**{key: value for key, value in os.environ.items() if key not in removed}, **added}


def primectl(*arguments, state, env=None, stdout=subprocess.PIPE, pass_fds=()):
    command = [PRIMECTL, *map(str, arguments)]
    done = subprocess.run(command, env=environment(XDG_STATE_HOME=str(state), **(env or {})), stdout=stdout, stderr=subprocess.PIPE, text=True,
                          errors="replace", timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL, pass_fds=pass_fds)
    check_schemas(done.stdout or "")
    return done


@contextlib.contextmanager
def started(*arguments, **streams):
    """primectl running beside the block, and ended with it: a block that fails does not wait for what would never end."""
    with subprocess.Popen([PRIMECTL, *map(str, arguments)], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, **streams) as process:
        try:
            yield process
        finally:
            process.kill()


def on_terminal(*arguments, state, columns=80, typed="", env=None):
    """The exit code, and all that a terminal of this width would show; `typed` is what a person answers."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen([PRIMECTL, *map(str, arguments)], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                               env=environment(XDG_STATE_HOME=str(state), TERM="xterm", NO_COLOR="1", **(env or {})))
    os.write(master, typed.encode())
    shown = [b""]

    def read():
        while END_OF_OUTPUT not in shown[0]:
            shown[0] += os.read(master, 4096)

    reading = threading.Thread(target=read)
    reading.start()
    try:
        code = process.wait(LIMIT_S)
    finally:
        process.kill()
        # The terminal stays open until here: one that nobody has open any more may lose what was written last.
        os.write(slave, END_OF_OUTPUT)
        reading.join()
        os.close(slave)
        os.close(master)
    return code, shown[0].split(END_OF_OUTPUT)[0].decode(errors="replace").replace("\r\n", "\n")


def temporary_directory():
    return tempfile.TemporaryDirectory(prefix="prime-cli-", ignore_cleanup_errors=True)


def write_manifest(directory, *, outer_steps=3, minimum=1, trainer=BIN / "quadratic_trainer", restarts=0):
    path = pathlib.Path(directory) / "run.yaml"
    path.write_text(MANIFEST.format(outer_steps=outer_steps, minimum=minimum, trainer=trainer, restarts=restarts))
    return path
