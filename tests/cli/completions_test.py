"""The scripts that complete command lines, in the shells that they are for; the manual page; and where an installation has them."""

import fcntl
import json
import os
import pathlib
import pty
import shutil
import struct
import subprocess
import termios
import unittest

from primectl import BIN, LIMIT_S, PRIMECTL, SOURCE, environment, primectl, temporary_directory, wait_until

# What is typed, the last word of which is completed; and some of what the shell must offer, and must not.
CASES = [
    (["sta"], {"standby", "status"}, {"up"}),
    (["status", "--sta"], {"--state-dir"}, {"--watch"}),
    (["up", "--l"], {"--listen", "--local", "--log-level"}, {"--set"}),
    (["completions", ""], {"bash", "fish", "zsh"}, {"status"}),
    (["status", "-o", ""], {"json", "table"}, {"small-aaaaaa"}),
    (["-o", "json", "sta"], {"standby", "status"}, {"json"}),
    (["help", "att"], {"attach"}, {"status"}),
    (["schema", "bench"], {"bench", "bench.kernels"}, {"status"}),
    (["status", ""], {"small-aaaaaa", "small-bbbbbb"}, {"data.yaml"}),
    (["logs", "--run", "small-b"], {"small-bbbbbb"}, {"small-aaaaaa"}),
    (["remove", "small-aaaaaa", "small-b"], {"small-bbbbbb"}, {"small-aaaaaa"}),
    (["validate", "da"], {"data.yaml"}, {"small-aaaaaa"}),
    (["plan", "da"], {"data.yaml"}, {"small-aaaaaa"}),
    (["plan", "run.yaml", "--st"], {"--state-dir", "--step-time"}, {"--set"}),
    (["bench", "k"], {"kernels"}, {"lanes"}),
    (["up", "run.yaml", "--from", "small-b"], {"small-bbbbbb"}, {"small-aaaaaa"}),
    (["status", "--state-dir", "../elsewhere", ""], {"small-cccccc"}, {"small-aaaaaa"}),
    (["logs", "--state-dir=../elsewhere", "--run", ""], {"small-cccccc"}, {"small-aaaaaa"}),
    (["status", "--state-dir", "../nowhere", ""], set(), {"small-aaaaaa", "small-cccccc"}),
]
# Cases that differ between shells: only this one completes what stands behind `=`.
BASH_CASES = [(["status", "--output=j"], {"json"}, {"table"})]

ZSH_SETUP = """
PROMPT= RPROMPT=
setopt no_beep
LISTMAX=10000
autoload -Uz compinit
compinit -u -D
source "$SCRIPT"
# Whatever is offered is written down, too.
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)* ]]; then builtin compadd "$@"; return; fi
  local -a offered
  builtin compadd -A offered "$@"
  print -rl -- $offered >>$CAPTURE
  builtin compadd "$@"
}
complete_and_tell() { _main_complete "$@"; print END >>$CAPTURE }
zle -C tell complete-word complete_and_tell
bindkey '^I' tell
print READY >>$CAPTURE
"""


def absent(shell):
    found = shutil.which(shell) is None
    if found:
        print(f"{shell} is not here: its completion is not tried (./dev setup --test installs it)")
    return found


class Completions(unittest.TestCase):
    def setUp(self):
        directory = temporary_directory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        (self.directory / "nowhere").mkdir()
        for place, run in (("primectl", "small-aaaaaa"), ("primectl", "small-bbbbbb"), ("elsewhere", "small-cccccc")):
            journal = self.directory / place / run / "coordinator" / "journal.jsonl"
            journal.parent.mkdir(parents=True)
            journal.write_text(json.dumps({"t": "2031-05-04T09:14:02.137Z", "seq": 1, "event": "process_started", "pid": 1, "start_ticks": 1, "run": run}) + "\n")
        self.folder = self.directory / "folder"
        self.folder.mkdir()
        (self.folder / "data.yaml").touch()

    def script(self, shell):
        done = primectl("completions", shell, state=self.directory)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        path = self.directory / f"primectl.{shell}"
        path.write_text(done.stdout)
        return path

    def environment(self, **added):
        return environment(XDG_STATE_HOME=str(self.directory), PATH=f"{BIN}:{os.environ['PATH']}", HOME=str(self.directory), **added)

    def run_in(self, *command, **added):
        done = subprocess.run(command, env=self.environment(**added), cwd=self.folder, capture_output=True, text=True, timeout=LIMIT_S, check=False,
                              stdin=subprocess.DEVNULL)
        self.assertEqual(done.stderr, "", command)
        return done.stdout

    def compare(self, cases, offered_by):
        for words, wanted, unwanted in cases:
            offered = {word.rstrip() for word in offered_by(words)}
            self.assertLessEqual(wanted, offered, words)
            self.assertFalse(unwanted & offered, (words, offered))

    def test_bash(self):
        script = self.script("bash")

        def offered(words):
            typed = " ".join(f"'{part}'" for word in words for part in (word.replace("=", "\n=\n").split("\n") if word.startswith("--") else [word]))
            return self.run_in("bash", "--norc", "--noprofile", "-c",
                               f'source {script}; COMP_WORDS=(primectl {typed}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _primectl; '
                               'printf "%s\\n" "${COMPREPLY[@]}"').splitlines()

        self.compare(CASES + BASH_CASES, offered)
        self.assertEqual(offered(["up", "run.yaml", "more.y"]), [""], "it takes one file")

    def test_fish(self):
        if absent("fish"):
            return
        script = self.script("fish")

        def offered(words):
            line = " ".join(["primectl", *words])
            return [found.split("\t")[0] for found in self.run_in("fish", "--no-config", "-c", f"source {script}; complete -C '{line}'").splitlines()]

        self.compare(CASES, offered)
        described = self.run_in("fish", "--no-config", "-c", f"source {script}; complete -C 'primectl attac'")
        self.assertRegex(described, "attach\tshow the table")

    def test_zsh(self):
        if absent("zsh"):
            return
        capture = self.directory / "capture"
        setup = self.directory / "setup"
        setup.write_text(ZSH_SETUP)
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 200, 200, 0, 0))
        shell = subprocess.Popen(["zsh", "-f", "-i"], stdin=slave, stdout=slave, stderr=slave, cwd=self.folder, start_new_session=True,
                                 env=self.environment(TERM="xterm", SCRIPT=str(self.script("zsh")), CAPTURE=str(capture)))
        os.close(slave)
        os.set_blocking(master, False)
        self.addCleanup(os.close, master)
        self.addCleanup(shell.wait)
        self.addCleanup(shell.kill)

        def told(end):
            try:
                while os.read(master, 65536):  # or its output blocks
                    pass
            except BlockingIOError:
                pass
            return capture.exists() and end in (lines := capture.read_text().splitlines()) and lines

        os.write(master, f"source {setup}\n".encode())
        wait_until("the shell", lambda: told("READY"))

        def offered(words):
            capture.unlink()
            os.write(master, (" ".join(["primectl", *words]) + "\t").encode())
            found = wait_until(f"what completes {words}", lambda: told("END"))
            os.write(master, b"\x15")  # the line is emptied
            return found

        self.compare(CASES, offered)

    def test_another_shell_is_refused(self):
        done = primectl("completions", "tcsh", state=self.directory)
        self.assertEqual(done.returncode, 2)
        self.assertIn("tcsh", done.stderr)

    def test_peers_that_run_here_are_offered(self):
        self.assertEqual(self.run_in(PRIMECTL, "__complete", "runs"), "small-aaaaaa\nsmall-bbbbbb\n")
        self.assertEqual(self.run_in(PRIMECTL, "__complete", "peers"), "")
        run = self.directory / "primectl" / "small-aaaaaa" / "peers" / "brave-otter-a1"
        run.mkdir(parents=True)
        ticks = int(pathlib.Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
        (run / "journal.jsonl").write_text(json.dumps({"t": "2031-05-04T09:14:02.137Z", "seq": 1, "event": "process_started", "pid": os.getpid(),
                                                       "start_ticks": ticks, "run": "small-aaaaaa", "peer": "00000000000000a1", "name": "brave-otter"}) + "\n")
        self.assertEqual(self.run_in(PRIMECTL, "__complete", "peers"), "brave-otter\n")

    def test_the_manual_page_tells_of_every_command_and_option(self):
        page = primectl("man", state=self.directory).stdout
        plain = page.replace("\\-", "-")
        for command in ("up", "ls", "attach", "remove", "completions"):
            self.assertIn(f"\n.SS {command}\n", page)
            for option in (word.rstrip(",") for word in primectl(command, "--help", state=self.directory).stdout.split() if word.startswith("--")):
                self.assertIn(option, plain, command)
        self.assertNotIn("agent\n", "".join(line for line in page.splitlines(keepends=True) if line.startswith(".SS")))
        if shutil.which("man") is None:
            print("man is not here: the page is not formatted")
            return
        (self.directory / "primectl.1").write_text(page)
        shown = self.run_in("man", "--warnings", "-l", str(self.directory / "primectl.1"), MANWIDTH="100", MANPAGER="cat", LC_ALL="C.UTF-8")
        self.assertIn("primectl attach [options] [RUN]", shown)
        self.assertIn("primectl - Train one model together", shown)

    def test_an_installation_has_them(self):
        prefix = self.directory / "prefix"
        done = subprocess.run(["cmake", "--install", str(BIN.parent), "--component", "primectl", "--prefix", str(prefix)], capture_output=True,
                              text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for path, command in (("share/bash-completion/completions/primectl", ["completions", "bash"]),
                              ("share/zsh/site-functions/_primectl", ["completions", "zsh"]),
                              ("share/fish/vendor_completions.d/primectl.fish", ["completions", "fish"]), ("share/man/man1/primectl.1", ["man"])):
            self.assertEqual((prefix / path).read_text(), primectl(*command, state=self.directory).stdout, path)
        self.assertEqual((prefix / "share/prime/schema/output/status.v1.json").read_text(),
                         (SOURCE / "manifests/schema/output/status.v1.json").read_text())
        version = subprocess.run([prefix / "bin" / "primectl", "--version"], capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
        self.assertEqual(version, primectl("version", state=self.directory).stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
