"""Owns a program: leads whoever connects to a port of this machine to another one of it, as a router's port map does. Arguments: both ports."""

import contextlib
import socket
import sys
import threading


def pass_on(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def main():
    outside, inside = map(int, sys.argv[1:])
    listener = socket.create_server(("0.0.0.0", outside))
    print("listens", flush=True)
    while True:
        client, _ = listener.accept()
        try:
            server = socket.create_connection(("127.0.0.1", inside))
        except OSError:
            client.close()
            continue
        for ends in ((client, server), (server, client)):
            threading.Thread(target=pass_on, args=ends, daemon=True).start()


main()
