"""Owns a real etcd of one test, on loopback: started with free ports, frozen, ended and started again by its process id."""

import base64
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request

from waiting import LIMIT_S, wait_until

PROGRAM = shutil.which("etcd")


def free_endpoint():
    """On an address of loopback for the etcds of this process alone: a port that is free when it is chosen may be another one's by the time
    etcd listens, and that one would answer in its place."""
    pid = os.getpid()
    host = f"127.{128 + (pid >> 16) % 64}.{pid >> 8 & 255}.{pid & 255}"
    with socket.socket() as probe:
        probe.bind((host, 0))
        return f"http://{host}:{probe.getsockname()[1]}"


class Etcd:
    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="prime-etcd-"))
        self.url, self.peer_url = (free_endpoint() for _ in range(2))
        self.process = None
        self.start()

    def start(self):
        with open(self.directory / "etcd.log", "ab") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "--data-dir", self.directory / "data", "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                 "--listen-peer-urls", self.peer_url, "--initial-advertise-peer-urls", self.peer_url,
                 "--initial-cluster", f"default={self.peer_url}"], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        wait_until("etcd", self.answers)

    def answers(self):
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            request = urllib.request.Request(self.url + "/v3/kv/range", data=b'{"key": "AA=="}', method="POST")
            with urllib.request.urlopen(request, timeout=2) as answer:
                return answer.status == 200
        return False

    def everything(self):
        """All keys with their values."""
        request = urllib.request.Request(self.url + "/v3/kv/range", data=b'{"key": "AA==", "range_end": "AA=="}', method="POST")
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            found = json.load(answer).get("kvs", [])
        return {base64.b64decode(kv["key"]): base64.b64decode(kv["value"]) for kv in found}

    def stop(self):
        """As a crash would: what it has answered is on its disk."""
        self.process.kill()
        self.process.wait()

    def forget(self):
        """What it had on its disk is gone; to be called while it is stopped."""
        shutil.rmtree(self.directory / "data")

    def freeze(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
