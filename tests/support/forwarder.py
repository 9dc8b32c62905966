"""Owns a way to a server of one test, on loopback, that goes nowhere for the processes of one machine alone: the others notice nothing."""

import contextlib
import os
import pathlib
import socket
import threading

CHUNK_BYTES = 65536


def owner(port):
    """The process that dialed from that port; none when it is gone already."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        inodes = {fields[9] for fields in map(str.split, table) if fields[1] == f"0100007F:{port:04X}"}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for descriptor in os.listdir(entry / "fd"):
                with contextlib.suppress(OSError):
                    if os.readlink(entry / "fd" / descriptor).removeprefix("socket:[").removesuffix("]") in inodes:
                        return int(entry.name)
    return None


class Forwarder:
    """Forwards to `url`. Connections are left open when they are cut off, as no cut cable closes one."""

    def __init__(self, url):
        host, port = url.removeprefix("http://").split(":")
        self.target = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.is_cut_off = lambda pid: False
        self.open = [self.listener]
        threading.Thread(target=self.welcome, daemon=True).start()

    def cut_off(self, whom):
        """From now on nothing passes to or from a process for which `whom` is true of its id."""
        self.is_cut_off = whom

    def welcome(self):
        with contextlib.suppress(OSError):
            while True:
                client, (_, port) = self.listener.accept()
                server = socket.create_connection(self.target)
                self.open += [client, server]
                pid = owner(port)
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self.pump, args=(source, sink, pid), daemon=True).start()

    def pump(self, source, sink, pid):
        with contextlib.suppress(OSError):
            while chunk := source.recv(CHUNK_BYTES):
                if pid is None or not self.is_cut_off(pid):
                    sink.sendall(chunk)
            sink.shutdown(socket.SHUT_WR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for end in self.open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
