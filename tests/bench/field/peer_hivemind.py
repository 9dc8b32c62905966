"""Owns a peer of hivemind: a loop like OpenDiLoCo's over DecentralizedAverager, with 20 inner steps and groups of three. The one that is named
`bootstrap` is only the node of the DHT that the others ask first.

A peer that finds itself behind its group fetches the state anew, as hivemind.Optimizer does. Where no group is found, it goes on alone.
"""

import logging
import os
import threading

import hivemind
import torch
from hivemind.p2p import P2P

import model

# The sockets to its daemon lie in the round's folder, and go with it.
P2P._UNIX_SOCKET_PREFIX = f"/unix{os.getcwd()}/"  # noqa: SLF001
GROUP = 3
MATCHMAKING_S = 5.0  # hivemind's default, as all that is not named; hivemind.Optimizer waits as long for the next part of a tensor
LIMIT_S = 15.0  # of an average, and of a fetched state; without any, a group that lost its way waits for ever


def node(initial):
    return hivemind.DHT(start=True, initial_peers=initial, host_maddrs=["/ip4/127.0.0.1/tcp/0"], use_relay=False, use_ipfs=False)


class Averager(hivemind.DecentralizedAverager):
    """Averages pseudo-gradients; what a joiner fetches are parameters, outer momentum and the number of the step."""

    def __init__(self, shared, lock, **options):
        self.shared, self.lock = shared, lock
        super().__init__(**options)

    def get_current_state(self):
        with self.lock:
            return {"step": self.shared["step"]}, [t.clone() for t in (*self.shared["parameters"], *self.shared["momentum"])], None


def outer_step(shared, gradients):
    """SGD with Nesterov's momentum, written out, for its momentum is part of the state."""
    for parameter, momentum, gradient in zip(shared["parameters"], shared["momentum"], gradients):
        momentum.mul_(model.OUTER["momentum"]).add_(gradient)
        parameter.sub_(gradient + model.OUTER["momentum"] * momentum, alpha=model.OUTER["lr"])
    shared["step"] += 1


def fetch(averager, shared, lock):
    found = averager.load_state_from_peers(timeout=LIMIT_S)
    if not found:
        return False
    metadata, tensors = found
    with lock:
        for mine, theirs in zip((*shared["parameters"], *shared["momentum"]), tensors):
            mine.copy_(theirs)
        shared["step"] = metadata["step"]
    return True


def average(averager, step):
    """Who was in the group and at which step, or nothing; the averaged tensors are changed in place."""
    try:
        return averager.step(gather={"step": step}, timeout=LIMIT_S)
    except Exception as why:  # noqa: BLE001: of many kinds; the peer goes on alone, and its line says so
        logging.warning("no average: %r", why)
        return None


@torch.no_grad()
def synchronise(averager, learner, shared, lock):
    """The number of members whose work is in the result."""
    with averager.get_tensors() as gradients:
        for gradient, before, after in zip(gradients, shared["parameters"], learner.model.parameters()):
            gradient.copy_(before - after)
    group = average(averager, shared["step"])
    behind = group is not None and max(member["step"] for member in group.values()) > shared["step"]
    if not behind or not fetch(averager, shared, lock):
        with averager.get_tensors() as gradients, lock:
            outer_step(shared, gradients)
    for parameter, new in zip(learner.model.parameters(), shared["parameters"]):
        parameter.copy_(new)
    return len(group) if group else 1


def main():
    options = model.arguments("--initial")
    if options.name == "bootstrap":
        dht = node([])
        with open(options.events, "w", encoding="utf-8") as file:
            file.write(str(dht.get_visible_maddrs()[0]) + "\n")
        threading.Event().wait()
    learner = model.Learner(options.data, options.seed)
    steps, lock = model.Steps(options), threading.Lock()
    shared = {"step": 0, "parameters": [p.detach().clone() for p in learner.model.parameters()],
              "momentum": [torch.zeros_like(p) for p in learner.model.parameters()]}
    averager = Averager(shared, lock, averaged_tensors=[torch.zeros_like(p) for p in shared["parameters"]], dht=node([options.initial]), start=True,
                        prefix="field", target_group_size=GROUP, min_group_size=2, min_matchmaking_time=MATCHMAKING_S,
                        allreduce_timeout=LIMIT_S, next_chunk_timeout=MATCHMAKING_S)
    if fetch(averager, shared, lock):
        with torch.no_grad():
            for parameter, new in zip(learner.model.parameters(), shared["parameters"]):
                parameter.copy_(new)
    while True:
        begun = model.now()
        for _ in range(model.INNER_STEPS):
            learner.inner_step()
        trained = model.now()
        members = synchronise(averager, learner, shared, lock)
        steps.write(shared["step"], begun, trained, model.now(), members, True, learner.digest())


if __name__ == "__main__":
    main()
