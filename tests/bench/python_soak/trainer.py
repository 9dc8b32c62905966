"""Owns a trainer of the soak. A resident (RESIDENT=its log) reduces in a Group with the other one while it trains, forms that anew every now and then, and writes down
what it and its agent have of memory and descriptors; a guest lives LIFE seconds, and ends as ENDS says."""

import gc
import json
import os
import signal
import sys
import time
import tracemalloc

import torch
import prime_runtime as prime

torch.set_num_threads(1)
TAGS, FORMED_EVERY, SAMPLE_S = 4, 40, 1.0


def process(pid):
    """Resident memory in bytes, and descriptors."""
    with open(f"/proc/{pid}/status") as file:
        resident = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS:"))
    return resident, len(os.listdir(f"/proc/{pid}/fd"))


class Mates:
    """Reduces of several tags at once between the residents, beside the run."""

    def __init__(self, rank):
        self.rank, self.group, self.formed, self.reduces = rank, None, 0, 0
        self.tensors = [torch.empty(10_000) for _ in range(TAGS)]

    def begin(self, outer_step):
        if self.group is None or outer_step % FORMED_EVERY == 0:
            if self.group is not None:
                self.group.close()
            # Elsewhere than the group before, where the other one may listen yet.
            members = os.environ["MEMBERS"].split()
            at = outer_step // FORMED_EVERY % 2 * 2
            self.group = prime.Group.form(rank=self.rank, members=members[at:at + 2], key="a secret of the soak", timeout=60)
            self.formed += 1
        for tag, tensor in enumerate(self.tensors):
            tensor.fill_(float(tag + self.rank))
        return [self.group.reduce_async(tensor, tag=tag, codec="int8" if tag == 3 else "none") for tag, tensor in enumerate(self.tensors)]

    def end(self, waits):
        for each in waits:
            each.wait()
            self.reduces += 1
        for tag, tensor in enumerate(self.tensors):
            assert (tensor - (tag + 0.5)).abs().max() < 0.01, f"the mean of tag {tag} is {tensor[0]}"


def guest_ends(ends):
    if ends == "leaves":
        return True
    if ends == "raises":
        raise ValueError("as it was told to")
    if ends == "exits":
        sys.exit(0)
    if ends == "interrupted":
        signal.signal(signal.SIGINT, signal.default_int_handler)  # who is started in the background ignores it
        os.kill(os.getpid(), signal.SIGINT)
    if ends == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if ends == "agent_killed":
        with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as file:
            os.kill(int(file.read().split()[0]), signal.SIGKILL)
    return False


def main():
    resident = os.environ.get("RESIDENT")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.BatchNorm1d(128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    until = time.monotonic() + float(os.environ.get("LIFE", "inf"))
    with prime.join() as run:
        run.share(model)
        run.bind(model, optimizer)
        mates, log, sampled = None, None, 0.0
        for step in run:
            waits = []
            if resident and step.index == 0:
                mates = mates or Mates(step.rank)
                waits = mates.begin(step.outer_step)
            torch.manual_seed(step.samples.start)
            inputs = torch.randn(16, 64)
            optimizer.zero_grad()
            loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
            if waits:
                mates.end(waits)
            step.report(loss, 16)
            if not resident and time.monotonic() > until and guest_ends(os.environ["ENDS"]):
                break
            if not resident or time.monotonic() < sampled + SAMPLE_S:
                continue
            sampled = time.monotonic()
            if log is None:
                log = open(f"{resident}-{step.rank}", "w", buffering=1)
                tracemalloc.start()
            gc.collect()
            own, agent = process(os.getpid()), process(os.getppid())
            log.write(json.dumps({"resident": own[0], "descriptors": own[1], "agent_resident": agent[0], "agent_descriptors": agent[1], "traced": tracemalloc.get_traced_memory()[0],
                                  "formed": mates.formed, "reduces": mates.reduces, "outer_step": step.outer_step}) + "\n")


main()
