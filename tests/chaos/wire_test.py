"""Every way in which a run's tensors may travel: digests are equal, also when a peer is killed in mid-reduce."""

import signal
import unittest

from prime_run import BULKY, Run, wait_until

WIRES = {
    "int8": ["sync.wire.codec=int8"],
    "int4_stochastic": ["sync.wire.codec=int4", "sync.wire.rounding=stochastic"],
    "ring": ["sync.wire.schedule=ring"],
    "streams_over_tls": ["sync.wire.streams=3", "local.network.shared_memory=false"],
    "streams_over_tcp": ["sync.wire.streams=3", "local.network.shared_memory=false", "trust.transport=plain"],
    "sockets": ["local.network.shared_memory=false"],
}


class Wire(unittest.TestCase):
    def travel(self, settings):
        flags = [word for setting in settings for word in ("--set", setting)]
        with Run(2, up_flags=["--quorum", "3", *flags], env=BULKY) as run:
            victim = run.join(env={"PRIME_FAULT": "agent@reducing:50:3"})
            wait_until("the victim's death", lambda: victim.poll() is not None)
            self.assertEqual(victim.returncode, -signal.SIGKILL, run.join_log(0))
            self.assertEqual(run.wait_for_end(), 0)
            commits = run.check(outer_steps=6, lost=1)
            self.assertEqual([len(c["contributors"]) for c in commits], [3, 3, 2, 2, 2, 2])


for _name, _settings in WIRES.items():
    setattr(Wire, "test_" + _name, lambda self, settings=_settings: self.travel(settings))


if __name__ == "__main__":
    unittest.main()
