"""Owns what happens in a round: three peers train, one is killed in the middle of its inner steps, and a new one comes."""

import pathlib
import statistics
import tempfile
import time

from figures import PEERS, by_step, steady
from processes import Processes, Stuck, kill_tree, memory, wait_until
from systems import ALL

AFTER_KILL = 2  # outer steps of each survivor
AFTER_JOIN = 2  # of the newcomer


def shared(steps, peer, since):
    """The outer steps of a peer since then that are an average with others."""
    return [step for step in steps if step["peer"] == peer and step["resumed"] > since and step["members"] > 1 and step["contributed"]]


def play(name, data, programs, python, count):
    """The record of one round (figures.py). What stuck is told in it, and the figures up to there stay."""
    with tempfile.TemporaryDirectory(prefix="prime-field-") as folder, Processes(pathlib.Path(folder)) as processes:
        record = {"system": name, "started": time.time(), "steps": [], "memory": {}}
        system = ALL[name](processes, data, programs, python)
        try:
            phases(system, record, count)
        except Stuck as why:
            record["stuck"] = str(why)
        record["steps"] = system.steps() if system.pids else []
        return record


def phases(system, record, count):
    system.start()
    wait_until(f"{count} outer steps of all three", lambda: len(steady(record | {"steps": system.steps()})) > count, alive=system.check)
    peers = list(system.pids)[:PEERS]
    record["memory"] = {peer: memory(system.pids[peer]) for peer in peers}
    strike(system, record, peers)
    survivors = [peer for peer in peers if peer != record["killed"]["peer"]]
    at = record["killed"]["at"]
    wait_until(f"{AFTER_KILL} outer steps of both survivors",
               lambda: all(len(shared(system.steps(), peer, at)) >= AFTER_KILL for peer in survivors), alive=system.check)
    at = time.time()
    joiner = system.join()
    record["joined"] = {"peer": joiner, "at": at}
    wait_until(f"{AFTER_JOIN} contributions of the newcomer", lambda: len(shared(system.steps(), joiner, at)) >= AFTER_JOIN, alive=system.check)


def strike(system, record, peers):
    """In the middle of the inner steps of the last peer, with all its processes at once."""
    victim = peers[-1]
    steps = system.steps()
    training = statistics.median(step["trained"] - step["begun"] for group in by_step(steps).values() for step in group)
    seen = len(shared(steps, victim, 0))
    wait_until("next outer step", lambda: len(shared(system.steps(), victim, 0)) > seen, alive=system.check)
    time.sleep(training / 2)
    record["killed"] = {"peer": victim, "at": time.time()}
    kill_tree(system.pids[victim])
    if victim in system.processes.started:  # else it is nobody's child here
        system.processes.started.pop(victim).wait()
