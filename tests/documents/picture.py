"""Makes docs/quickstart.svg from a real run: python3 tests/documents/picture.py. One of three peers is killed, another one joins."""

import fcntl
import html
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PRIMECTL = "build/release/bin/primectl"
SETTINGS = ["--set", "train.outer_steps=16", "--set", "train.evaluate.every=5"]
KILLED_IN, JOINS_AFTER, COLUMNS = 6, 7, 118
PLAIN, STRONG = "#d7dae0", "#ffffff"
COLOURS = {"31": "#e06c75", "32": "#98c379", "33": "#e5c07b", "2": "#8a919e", "90": "#8a919e", "1": STRONG}
TITLE = f"A local run of three peers; one is killed in step {KILLED_IN}, another joins in step {JOINS_AFTER + 1}"


def watched(state):
    """What `up` shows on a terminal while it is disturbed, as lines with its colours."""
    environment = {**os.environ, "XDG_STATE_HOME": state, "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    process = subprocess.Popen([PRIMECTL, "up", "manifests/quickstart.yaml", "--local", "3", *SETTINGS], cwd=SOURCE, env=environment,
                               stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    shown, done = "", set()

    def call(*words):
        return subprocess.run([PRIMECTL, *words], cwd=SOURCE, env=environment, capture_output=True, text=True, check=True).stdout

    def once(what, condition, act):
        if what not in done and condition:
            done.add(what)
            act()

    def kill():
        time.sleep(0.3)
        os.kill(json.loads(call("status", "-o", "json"))["peers"][-1]["pid"], 9)

    try:
        while part := os.read(master, 65536):
            shown += part.decode()
            steps = [int(number) for number in re.findall(r"\n +(\d+) +\d", re.sub(r"\x1b\[[\d;]*[mK]", "", shown))]
            last = max(steps, default=0)
            once("kill", last >= KILLED_IN - 1, kill)
            once("join", last >= JOINS_AFTER, lambda: call("join", call("invite").strip(), "--name", "late-comer", "-d"))
    except OSError:  # nobody has the other end any more
        pass
    assert process.wait() == 0, shown
    return shown.replace("\r\n", "\n").replace("\r", "").splitlines()


def picture(lines):
    body = []
    for number, line in enumerate([f"\x1b[1m$ ./dev quickstart {' '.join(SETTINGS)}", *lines]):
        colour = next((COLOURS[code] for found in re.findall(r"\x1b\[([\d;]+)m", line) for code in found.split(";") if code in COLOURS), PLAIN)
        text = re.sub(r"\x1b\[[\d;]*[a-zA-Z]", "", line)
        text = re.sub(r"#[\w-]{43}", lambda key: key[0][:5] + "…", text)
        text = text if len(text) <= COLUMNS else text[:COLUMNS - 1] + "…"
        body.append(f'<text x="20" y="{48 + 18 * number}" fill="{colour}" xml:space="preserve">{html.escape(text)}</text>')
    height = 48 + 18 * len(body) + 8
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="990" height="{height}" viewBox="0 0 990 {height}" '
        'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13">',
        f"<title>{TITLE}</title>", '<rect width="100%" height="100%" rx="8" fill="#16181d"/>',
        '<circle cx="20" cy="18" r="5" fill="#e06c75"/><circle cx="38" cy="18" r="5" fill="#e5c07b"/><circle cx="56" cy="18" r="5" fill="#98c379"/>',
        *body, "</svg>", ""])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="prime-picture-") as folder:
        lines = watched(str(pathlib.Path(folder) / "state"))
        text = picture([line.replace(folder + "/state", "~/.local/state") for line in lines])
    (SOURCE / "docs" / "quickstart.svg").write_text(text)
    print("\n".join(re.sub(r"\x1b\[[\d;]*[a-zA-Z]", "", line) for line in lines))
    sys.exit(0)
