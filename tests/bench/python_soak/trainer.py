"""Owns a trainer of the soak. A resident (RESIDENT=its log) reduces in a Group with the other one beside its steps, forms that anew every now and then, and writes down
what it and its agent have of memory and descriptors; a guest says in the file STAGE how far it is, lives LIFE seconds, and ends as ENDS says."""

import gc
import json
import os
import signal
import sys
import threading
import time
import tracemalloc

import torch
import prime_runtime as prime

torch.set_num_threads(1)
TAGS, FORMED_EVERY, PACE_S, SAMPLE_S = 4, 40, 0.3, 1.0


def process(pid):
    """Resident memory in bytes, and descriptors."""
    with open(f"/proc/{pid}/status") as file:
        resident = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS:"))
    return resident, len(os.listdir(f"/proc/{pid}/fd"))


class Mates(threading.Thread):
    """Reduces of several tags at once between the residents, beside the run and at a pace of their own: who waited within a step for the other one would wait for ever
    where that one has come later and waits for the end of the step."""

    def __init__(self):
        super().__init__(name="mates", daemon=True)
        self.rank = self.place()
        self.formed, self.reduces = 0, 0
        self.tensors = [torch.empty(10_000) for _ in range(TAGS)]

    @staticmethod
    def place():
        """Whoever comes first is rank 0: in the run others may stand between the two."""
        try:
            os.close(os.open(os.environ["RESIDENT"] + ".first", os.O_CREAT | os.O_EXCL))
            return 0
        except FileExistsError:
            return 1

    def run(self):
        members = os.environ["MEMBERS"].split()
        while True:
            # Elsewhere than the group before, where the other one may listen yet.
            at = self.formed % 2 * 2
            group = prime.Group.form(rank=self.rank, members=members[at:at + 2], key="a secret of the soak", timeout=60)
            self.formed += 1
            for _ in range(FORMED_EVERY):
                self.reduce(group)
                time.sleep(PACE_S)
            group.close()

    def reduce(self, group):
        for tag, tensor in enumerate(self.tensors):
            tensor.fill_(float(tag + self.rank))
        for each in [group.reduce_async(tensor, tag=tag, codec="int8" if tag == 3 else "none") for tag, tensor in enumerate(self.tensors)]:
            each.wait()
            self.reduces += 1
        for tag, tensor in enumerate(self.tensors):
            assert (tensor - (tag + 0.5)).abs().max() < 0.01, f"the mean of tag {tag} is {tensor[0]}"


def stage(name):
    """How far a guest is, for who looks whether it hangs: how long an interpreter takes to load torch is the machine's affair."""
    if "STAGE" in os.environ:
        with open(os.environ["STAGE"] + ".new", "w") as file:
            file.write(name)
        os.replace(file.name, os.environ["STAGE"])  # who looks sees one name or the other


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
    mates, log, sampled = Mates() if resident else None, None, 0.0
    stage("joins")
    with prime.join() as run:
        run.share(model)
        run.bind(model, optimizer)
        for step in run:
            stage("trains")
            torch.manual_seed(step.samples.start)
            inputs = torch.randn(16, 64)
            optimizer.zero_grad()
            loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
            step.report(loss, 16)
            if not resident and time.monotonic() > until:
                stage("ends")
                if guest_ends(os.environ["ENDS"]):
                    break
            if not resident or time.monotonic() < sampled + SAMPLE_S:
                continue
            sampled = time.monotonic()
            if log is None:
                log = open(f"{resident}-{mates.rank}", "w", buffering=1)
                tracemalloc.start()
                mates.start()
            assert mates.is_alive(), "the reduces beside the run have ended"
            gc.collect()
            own, agent = process(os.getpid()), process(os.getppid())
            log.write(json.dumps({"resident": own[0], "descriptors": own[1], "agent_resident": agent[0], "agent_descriptors": agent[1], "traced": tracemalloc.get_traced_memory()[0],
                                  "formed": mates.formed, "reduces": mates.reduces, "outer_step": step.outer_step}) + "\n")


main()
