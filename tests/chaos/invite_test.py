"""Invites of machines whose own name, bridges or protocols mislead: whoever gets one can use it, and who cannot is told why."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from prime_run import PRIMECTL, Run, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import namespaces  # noqa: E402
from waiting import LIMIT_S  # noqa: E402


WHY_NOT = namespaces.why_not()
DOCKER = ("docker0", "172.17.0.1/16")


def addresses_of(invite):
    """As host:port, in order."""
    return invite.removeprefix("prime://").split("/")[0].split(",")


def host_of(address):
    return address.rsplit(":", 1)[0]


class Invites(unittest.TestCase):
    def run_on(self, machine, flags=(), **options):
        return Run(1, up_flags=("--quorum", "1", *flags), minimum=1, machine=machine, **options)

    def takes_part(self, run, machine, flags=(), env=None):
        joiner = run.join(machine=machine, flags=flags, env=env)
        run.release(2)
        self.assertEqual(run.wait_for_end(), 0)
        wait_until("the joiner's end", lambda: joiner.poll() is not None)
        self.assertEqual(joiner.returncode, 0, run.join_log(len(run.processes) - 1))
        self.assertEqual(len(run.check(outer_steps=12)[-1]["contributors"]), 2)


@unittest.skipIf(WHY_NOT, WHY_NOT)
class FromElsewhere(Invites):
    """Each is one machine that starts the run, and another one that joins by what was printed, without a setting of its own."""

    def test_a_name_that_is_loopback_to_its_own_machine(self):
        with namespaces.machines(2) as names, namespaces.known_as(names[0], "worker1", "127.0.1.1") as inside, \
                self.run_on(inside, ("--listen", "worker1:0"), outer_steps=12, held_at=6) as run:
            told = addresses_of(run.up["invite"])
            self.assertEqual(host_of(told[0]), namespaces.address(0), told)
            self.assertFalse([each for each in told if each.startswith("127.")], told)
            self.takes_part(run, names[1])

    def test_a_bridge_for_containers_that_comes_first_and_no_default_route(self):
        with namespaces.machines(2, bridge=DOCKER) as names:  # both have one, of the same address
            with self.run_on(names[0], ("--listen", "0.0.0.0:0"), outer_steps=12, held_at=6) as run:
                told = [host_of(each) for each in addresses_of(run.up["invite"])]
                self.assertEqual(told, [namespaces.address(0), "172.17.0.1"])
                self.assertEqual([each["reached_from"] for each in run.up["coordinator"]["addresses"]],
                                 ["its own network", "containers of this machine, docker0"])
                self.takes_part(run, names[1])

    def test_a_machine_that_has_ipv6_alone(self):
        with namespaces.machines(2, ipv6=True) as names, self.run_on(names[0], ("--listen", "[::]:0"), outer_steps=12, held_at=6) as run:
            self.assertEqual(host_of(addresses_of(run.up["invite"])[0]), f"[{namespaces.address6(0)}]")
            self.takes_part(run, names[1])

    def test_the_one_of_several_addresses_that_leads_there_is_found(self):
        """The first ones swallow what is sent to them: nobody refuses."""
        with namespaces.machines(2) as names:
            for name in names:
                namespaces.add_address(name, "10.99.0.1/32" if name == names[0] else "10.99.0.2/32")
            namespaces.run("ip", "-n", names[1], "route", "add", "10.99.0.1/32", "dev", namespaces.DEVICE)
            namespaces.swallow(names[1], "10.99.0.1")
            with self.run_on(names[0], ("--listen", "0.0.0.0:0", "--set", f"local.network.advertise=[10.99.0.1, {namespaces.address(0)}]"),
                             outer_steps=12, held_at=6) as run:
                self.assertEqual([host_of(each) for each in addresses_of(run.up["invite"])], ["10.99.0.1", namespaces.address(0)])
                self.takes_part(run, names[1])

    def test_the_peers_of_up_listen_behind_the_coordinators_port_and_a_firewall_lets_nothing_else_in(self):
        with namespaces.machines(2) as names:
            namespaces.let_in_only(names[0], 7077, 7078)
            with self.run_on(names[0], ("--set", "local.network.listen=0.0.0.0:7077"), outer_steps=12, held_at=6) as run:
                self.assertTrue(addresses_of(run.up["invite"])[0].endswith(":7077"))
                joining = run.wait_for("peer_joining")[0]
                self.assertIn(f"{namespaces.address(0)}:7078", joining["address"].split(","))
                joiner = run.join(machine=names[1])
                wait_until("its greeting", lambda: len(run.events("peer_joining")) == 2)
                self.assertIsNone(joiner.poll())
                run.wait_for("peer_admitted", 2)  # it has fetched the state through port 7078

    def test_a_port_that_is_mapped_is_what_others_are_told_and_the_coordinator_comes_back_behind_it(self):
        with namespaces.machines(2) as names, namespaces.mapped_port(names[0], 17077, 7077), namespaces.mapped_port(names[0], 17078, 7078):
            with self.run_on(names[0], ("--set", "local.network.listen=0.0.0.0:7077",
                                        "--set", f"local.network.advertise={namespaces.address(0)}:17077"), outer_steps=12, held_at=6) as run:
                self.assertEqual(addresses_of(run.up["invite"]), [f"{namespaces.address(0)}:17077"])
                self.assertEqual(run.wait_for("peer_joining")[0]["address"], f"{namespaces.address(0)}:17078")
                run.wait_for("peer_admitted")
                os.kill(run.coordinator_pid(), 9)
                run.wait_for("coordinator_restarted")
                self.takes_part(run, names[1])

    def test_the_state_comes_through_another_member_where_its_donor_is_not_reached(self):
        with namespaces.machines(3) as names:
            with self.run_on(names[0], ("--listen", "0.0.0.0:0"), outer_steps=12, held_at=6) as run:
                namespaces.shut_for(names[0], 2, run.wait_for("peer_joining")[0]["address"].rsplit(":", 1)[1])
                run.wait_until_held()
                between = run.join(machine=names[1])
                run.wait_for("peer_admitted", 2)
                joiner = run.join(machine=names[2])
                run.wait_for("peer_admitted", 3)
                self.assertEqual(run.wait_for("peer_fetching", 2)[-1]["donor"], run.up["peers"][0]["name"], "the first one is asked")
                self.assertEqual(run.events("fetch_failed"), [])
                run.release(3)
                self.assertEqual(run.wait_for_end(), 0)
                for process in (between, joiner):
                    wait_until("the joiners' ends", lambda each=process: each.poll() is not None)
                run.check(outer_steps=12)

    def test_a_joiner_that_reaches_the_coordinator_and_no_peer_says_so_itself(self):
        with namespaces.machines(2) as names:
            namespaces.let_in_only(names[0], 7077)
            with self.run_on(names[0], ("--set", "local.network.listen=0.0.0.0:7077"), outer_steps=1_000_000) as run:
                run.wait_for("peer_admitted")  # the state is there; else the joiner may found it
                joiner = run.join(machine=names[1])
                place = run.directory / f"joiner-{len(run.processes) - 1}"

                def status():
                    done = subprocess.run([PRIMECTL, "status", run.up["run_id"], "--state-dir", place, "-o", "json"], capture_output=True,
                                          text=True, timeout=LIMIT_S, check=False)
                    return json.loads(done.stdout) if done.stdout else {}
                text = wait_until("its own status to say it", lambda: next(
                    (text for text in [json.dumps(status())] if f"{namespaces.address(0)}:7078" in text), None))
                self.assertIn("`local.network.listen`", text)
                self.assertIn("reaches the coordinator, but no peer", text)
                subprocess.run([*namespaces.inside(names[0]), PRIMECTL, "down", run.up["run_id"], "--state-dir", run.state], capture_output=True,
                               timeout=LIMIT_S, check=True)
                wait_until("its end", lambda: joiner.poll() is not None)
                ends = [each["run"] for each in (run.status(), status())]
                self.assertIn("stopped before its end", ends[0]["reason"])
                self.assertEqual(*((end["state"], end["reason"]) for end in ends), "its record of the run is the run's own")


@unittest.skipIf(WHY_NOT, WHY_NOT)
class WhatUpSays(Invites):
    def said(self, machine, *flags):
        with tempfile.TemporaryDirectory(prefix="prime-invite-") as directory, contextlib.ExitStack() as undo:
            manifest = pathlib.Path(directory) / "run.yaml"
            with Run(1, minimum=1, outer_steps=1_000_000, machine=machine, directory=directory) as other:
                manifest.write_text(other.manifest.read_text())
            up = subprocess.run([*machine_words(machine), PRIMECTL, "up", manifest, "--local", "1", "-d", "--state-dir", directory, *flags],
                                capture_output=True, text=True, timeout=LIMIT_S, check=False)
            undo.callback(subprocess.run, [*machine_words(machine), PRIMECTL, "down", "--state-dir", directory], capture_output=True, check=False)
            self.assertEqual(up.returncode, 0, up.stderr)
            return up.stderr

    def test_it_names_the_addresses_that_it_tells_and_warns_of_those_that_look_local(self):
        with namespaces.machines(1, bridge=DOCKER) as names:
            said = self.said(names[0], "--listen", "0.0.0.0:0")
            self.assertRegex(said, rf"Invite leads to {namespaces.address(0)}:\d+ \(from its own network\), 172.17.0.1:\d+ \(from containers of this machine, docker0\)")
            self.assertRegex(said, r"172.17.0.1:\d+ looks local")
            self.assertNotIn("no other machine can join", said)
            self.assertNotIn("Invite leads", self.said(names[0]), "who lets nobody in need not hear of it")
        with namespaces.machines(1, wired=False) as names:
            self.assertIn("no other machine can join by these", self.said(names[0], "--listen", "0.0.0.0:0"))


def machine_words(machine):
    return namespaces.inside(machine) if machine else []


if __name__ == "__main__":
    unittest.main(verbosity=2)
