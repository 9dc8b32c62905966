"""Standby coordinators with an etcd as people run it: TLS by an own CA, client certificates, users; one that is full, may be read only, is slow."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from prime_run import PRIMECTL, Run, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from etcd import PROGRAM, Etcd  # noqa: E402
from etcd_access import GuardedEtcd  # noqa: E402
from waiting import LIMIT_S  # noqa: E402

LEASE_S = 30


@unittest.skipUnless(PROGRAM, "no etcd here")
class EtcdAccess(unittest.TestCase):
    def setUp(self):
        self.undo = contextlib.ExitStack()
        self.addCleanup(self.undo.close)
        self.place = pathlib.Path(self.undo.enter_context(tempfile.TemporaryDirectory(prefix="prime-access-")))

    def etcd(self, **how):
        return self.undo.enter_context(GuardedEtcd(**how))

    def keys(self, etcd, *, authority=True, certificate=False, user=None, password=None):
        """What a machine sets of `local.etcd`."""
        words = []
        if authority:
            words += ["--set", f"local.etcd.authority={etcd.papers.authority}"]
        if certificate:
            words += ["--set", f"local.etcd.certificate={etcd.papers.place}/client.pem", "--set", f"local.etcd.key={etcd.papers.place}/client.key"]
        if user:
            file = self.place / f"password-{password}"
            file.write_text(password + "\n")
            file.chmod(0o600)
            words += ["--set", f"local.etcd.user={user}", "--set", f"local.etcd.password_file={file}"]
        return words

    def up(self, etcd, keys, **manifest):
        values = dict(minimum=1, outer_steps=1_000_000, standby=f"{{etcd: ['{etcd.url}'], lease: {LEASE_S}s}}")
        return Run(1, up_flags=("--quorum", "1", *keys), env={"PRIME_QUADRATIC_DELAY_MS": "50"}, **{**values, **manifest})

    def refused(self, etcd, keys):
        """What `up` says."""
        with self.assertRaises(AssertionError) as caught, self.up(etcd, keys):
            pass
        return str(caught.exception)

    def leads_and_is_followed(self, etcd, keys):
        """The one that leads is killed with its guard, and the standby, with the same keys, serves the run on."""
        with self.up(etcd, keys) as run:
            run.wait_for("leading")
            state = run.directory / "standby"
            log = self.undo.enter_context(open(run.directory / "standby.log", "wb"))
            standby = subprocess.Popen([PRIMECTL, "standby", run.up["invite"], "--etcd", etcd.url, "--state-dir", state, *keys], stdout=log,
                                       stderr=log, stdin=subprocess.DEVNULL)
            run.processes.append(standby)
            journal = state / run.up["run_id"] / "coordinator" / "journal.jsonl"
            wait_until("the standby", lambda: journal.exists() and any(e["event"] == "standing_by" for e in run.journal(journal)))
            wait_until("its peer to know both", lambda: any(e["event"] == "coordinators" and len(e["addresses"]) == 2
                                                            for lines in run.peer_journals().values() for e in lines))
            coordinator = run.coordinator_pid()
            os.kill(run.guard(), signal.SIGKILL)
            wait_until("the end of the coordinator, which goes with its guard", lambda: not run.ours(coordinator))
            wait_until("its lead", lambda: any(e["event"] == "outer_step_committed" for e in run.journal(journal)))
            subprocess.run([PRIMECTL, "down", run.up["run_id"], "--state-dir", state], capture_output=True, timeout=LIMIT_S, check=True)

    def test_tls_by_an_own_authority_certificates_and_a_user(self):
        etcd = self.etcd()
        etcd.let_in_only("prime", "s3cret")
        self.leads_and_is_followed(etcd, self.keys(etcd, user="prime", password="s3cret"))
        etcd = self.etcd(certificates=True)
        self.leads_and_is_followed(etcd, self.keys(etcd, certificate=True))

    def test_who_is_not_let_in_hears_which_key_says_otherwise(self):
        etcd = self.etcd(certificates=True)
        self.assertIn("local.etcd.authority", self.refused(etcd, self.keys(etcd, authority=False)))
        self.assertIn("local.etcd.certificate", self.refused(etcd, self.keys(etcd)))
        etcd = self.etcd()
        etcd.let_in_only("prime", "s3cret")
        begun = time.monotonic()
        for keys in (self.keys(etcd), self.keys(etcd, user="prime", password="wrong"), self.keys(etcd, user="other", password="s3cret")):
            self.assertIn("local.etcd.user", self.refused(etcd, keys))
        self.assertLess(time.monotonic() - begun, 15, "what is refused is not asked again for as long as a start waits for etcd (20 s)")
        file = self.place / "password-s3cret"
        file.chmod(0o644)
        said = self.refused(etcd, ["--set", "local.etcd.user=prime", "--set", f"local.etcd.password_file={file}"])
        self.assertIn("chmod 600", said)

    def test_one_that_may_only_be_read_or_is_full_is_said_to_be(self):
        etcd = self.etcd()
        etcd.let_in_only("prime", "s3cret", right="READ")
        self.assertIn("may not read and write below /prime/", self.refused(etcd, self.keys(etcd, user="prime", password="s3cret")))
        etcd = self.etcd(quota=2_000_000)
        etcd.fill()
        self.assertIn("it is full", self.refused(etcd, self.keys(etcd)))

    def test_a_token_that_etcd_has_forgotten_is_asked_for_again(self):
        etcd = self.etcd()
        etcd.let_in_only("prime", "s3cret")
        with self.up(etcd, self.keys(etcd, user="prime", password="s3cret")) as run:
            run.wait_for("outer_step_committed", 3)
            etcd.stop()
            etcd.start()  # its tokens are gone
            before = len(run.events("outer_step_committed"))
            run.wait_for("outer_step_committed", before + 5)
            self.assertEqual(len(run.events("process_started")), 1, "the coordinator has lived on")

    def test_a_slow_first_answer_is_waited_for_as_one_to_a_decision_is(self):
        with Etcd() as etcd:
            etcd.freeze()
            thaw = threading.Timer(7, etcd.thaw)  # longer than a lease, and so than one call
            thaw.start()
            try:
                with self.up(etcd, [], standby=f"{{etcd: ['{etcd.url}'], lease: 5s}}") as run:
                    run.wait_for("leading")
            finally:
                thaw.join()


if __name__ == "__main__":
    unittest.main(verbosity=2)
