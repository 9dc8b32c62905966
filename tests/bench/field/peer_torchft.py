"""Owns a peer of torchft: its DiLoCo over its Manager and Gloo, with 20 inner steps. torchft announces the machine's name; here that is loopback."""

import datetime
import socket

socket.gethostname = lambda: "127.0.0.1"  # before torchft asks

import torch  # noqa: E402
from torch import distributed  # noqa: E402
from torchft import Manager, ProcessGroupGloo  # noqa: E402
from torchft.local_sgd import DiLoCo  # noqa: E402

import model  # noqa: E402

LIMIT = datetime.timedelta(seconds=60)


def main():
    options = model.arguments("--lighthouse")
    learner = model.Learner(options.data, options.seed)
    steps = model.Steps(options)
    healed = trained = None

    def load(state):
        nonlocal healed
        healed = True
        learner.model.load_state_dict(state["model"])
        learner.optimizer.load_state_dict(state["inner"])

    def save():
        return {"model": learner.model.state_dict(), "inner": learner.optimizer.state_dict()}

    def stamp(*_):
        nonlocal trained
        trained = model.now()

    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = Manager(pg=ProcessGroupGloo(timeout=LIMIT), load_state_dict=load, state_dict=save, min_replica_size=2, use_async_quorum=False,
                      rank=0, world_size=1, store_addr="127.0.0.1", store_port=store.port, lighthouse_addr=options.lighthouse,
                      replica_id=options.name, hostname="127.0.0.1")
    outer = torch.optim.SGD(learner.model.parameters(), **model.OUTER)
    learner.optimizer.register_step_post_hook(stamp)  # before DiLoCo's, which synchronises in the last one
    with DiLoCo(manager, [learner.model], learner.optimizer, outer, sync_every=model.INNER_STEPS, use_bucketization=True):
        while True:
            begun, before, healed = model.now(), manager.current_step(), False
            for _ in range(model.INNER_STEPS):
                learner.inner_step()
            resumed = model.now()
            # A joiner's first average has its donor's work twice, and none of its own.
            if manager.current_step() > before:
                steps.write(manager.current_step(), begun, trained, resumed, manager.num_participants(), not healed, learner.digest())


if __name__ == "__main__":
    main()
