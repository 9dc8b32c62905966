"""The fault-proxy program as a test drives it: one line asks, one line answers, and its input's end is its own."""

import pathlib
import socket
import subprocess
import sys
import unittest

LIMIT_S = 60
PROGRAM = pathlib.Path(sys.argv.pop()) if len(sys.argv) > 1 else pathlib.Path("build/release/bin/fault-proxy")


class Program(unittest.TestCase):
    def setUp(self):
        self.target = socket.create_server(("127.0.0.1", 0))
        self.target.settimeout(LIMIT_S)
        self.addCleanup(self.target.close)
        self.process = subprocess.Popen([PROGRAM, "--listen", "127.0.0.1:0", "--target", f"127.0.0.1:{self.target.getsockname()[1]}"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.addCleanup(self.process.communicate)
        host, port = self.process.stdout.readline().removeprefix("listening at ").strip().split(":")
        self.address = (host, int(port))

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        return self.process.stdout.readline().strip()

    def connected(self):
        client = socket.create_connection(self.address, timeout=LIMIT_S)
        self.addCleanup(client.close)
        server, _ = self.target.accept()
        server.settimeout(LIMIT_S)
        self.addCleanup(server.close)
        return client, server

    def test_every_command_is_answered(self):
        for line in ("hold up", "hold down", "hold both", "release", "forget", "refuse", "accept", "drop-after 10", "drop-after off", "cut"):
            self.assertEqual(self.ask(line), "ok", line)
        for line in ("", "hold", "hold sideways", "drop-after", "drop-after 0", "drop-after -1", "drop-after 1x", "drop-after 99999999999999999999", "cut it"):
            self.assertRegex(self.ask(line), f"^error: '{line}' is no command; there are cut, hold")

    def test_what_passes_is_counted_and_a_cut_is_seen(self):
        client, server = self.connected()
        client.sendall(b"hello")
        self.assertEqual(server.recv(100), b"hello")
        server.sendall(b"hi")
        self.assertEqual(client.recv(100), b"hi")
        self.assertEqual(self.ask("count"), "accepted 1 refused 0 open 1 up 5 down 2")
        self.assertEqual(self.ask("cut"), "ok")
        with self.assertRaises(ConnectionResetError):
            client.recv(1)
        self.assertEqual(self.ask("count"), "accepted 1 refused 0 open 0 up 5 down 2")

    def test_it_ends_with_its_input(self):
        self.process.stdin.close()
        self.assertEqual(self.process.wait(LIMIT_S), 0)
        self.process.stdin = None

    def test_a_wrong_address_is_named(self):
        for arguments, what in ((["--listen", "nowhere", "--target", "127.0.0.1:1"], "--listen nowhere: no port"),
                                (["--listen", "127.0.0.1:%d" % self.address[1], "--target", "127.0.0.1:1"], "address already in use")):
            done = subprocess.run([PROGRAM, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(what, done.stderr)


if __name__ == "__main__":
    unittest.main()
