"""Several processes that hold one model together (FSDP2) as the trainer of one peer: their bits, the death of one of them, and what is refused by name."""

import subprocess
import unittest

from programs import LIMIT_S, PYTHON, Run, Trainers, environment, has, main

# With RANKS=1 the same computation in one process: each half of the batch as a rank has it, their mean as FSDP makes it.
SHARDED = """import os, signal
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
import prime_runtime as prime
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 17), torch.nn.Tanh(), torch.nn.Linear(17, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
ranks = int(os.environ["RANKS"])
if ranks > 1:
    dist.init_process_group("gloo")
    for layer in (model[0], model[2], model[4], model):
        fully_shard(layer)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
here = int(os.environ.get("RANK", 0))
with prime.join(ranks=ranks) as run:
    run.bind(model, optimizer, evaluate=lambda index, of: (float(model(torch.ones(2, 8)).detach().mean()) ** 2, of))
    for step in run:
        samples = list(step.samples)
        parts = [samples] if ranks > 1 else [samples[:len(samples) // 2], samples[len(samples) // 2:]]
        optimizer.zero_grad()
        total = 0.0
        for part in parts:
            inputs = torch.stack([torch.randn(8, generator=torch.Generator().manual_seed(number)) for number in part])
            loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean() / len(parts)
            loss.backward()
            total += loss.item()
        optimizer.step()
        {extra}
        step.report(total, len(samples))
    moment = optimizer.state[model[0].weight]["exp_avg"]
    steps = int(optimizer.state[model[0].weight]["step"])
    whole = model[0].weight.full_tensor() if ranks > 1 else model[0].weight
    rows = moment.to_local().shape[0] if ranks > 1 else moment.shape[0]
    open(os.environ["DONE"] + f"-{{run.peer}}-{{here}}", "w").write(f"{{whole.detach().double().sum().item()!r}} {{steps}} {{rows}}")
if ranks > 1:
    dist.destroy_process_group()
"""
LAUNCH = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


@unittest.skipUnless(has("torch", "numpy"), "there are no wheels torch and numpy")
class Ranks(Trainers):
    def check_bits(self, extra, deaths, **manifest):
        """Two peers of two ranks each come to what two peers of one process each come to."""
        with self.run_of(SHARDED.format(extra="pass"), env={"RANKS": "1"}, **manifest) as run:
            alone = self.ends(run)
        with self.run_of(SHARDED.format(extra=extra), words=LAUNCH, env={"RANKS": "2"}, **manifest) as run:
            together = self.ends(run)
            restarts = [line["reason"] for lines in run.peer_journals().values() for line in lines if line["event"] == "trainer_restarting"]
            self.assertEqual(len(restarts), deaths, f"{restarts} {run.trainer_logs()}")
        self.assertEqual([commit["digest"] for commit in together], [commit["digest"] for commit in alone])
        self.assertEqual([commit["weight"] for commit in together], [commit["weight"] for commit in alone])
        said = [told.split() for told in self.done().values()]
        self.assertEqual(len(said), 6)  # two peers of one process, then two ranks of each of two
        self.assertEqual(len({each[0] for each in said}), 1, said)
        self.assertEqual({each[1] for each in said}, {"24"})
        self.assertEqual(sorted(each[2] for each in said), sorted(["17"] * 2 + ["9", "8"] * 2))

    def test_two_ranks_of_two_peers_come_to_the_bits_of_one_process_each_also_when_one_of_them_is_killed(self):
        deaths = ((3, 1, 1), (5, 0, 0))  # an outer step, the peer's rank in the run, the process's rank in the peer: another one, then the one with the session
        died = self.folder / "died"
        extra = f"""
        place = (step.outer_step, step.rank, here)
        if place in {deaths} and step.index == 2 and not os.path.exists(f"{died}-{{step.outer_step}}"):
            open(f"{died}-{{step.outer_step}}", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)"""
        self.check_bits(extra, len(deaths), evaluate=2)

    def test_they_follow_each_algorithm(self):
        for manifest in ({"algorithm": "delayed"}, {"algorithm": "streaming", "fragments": 2}):
            manifest |= {"lr": 0.4, "momentum": 0.5}
            with self.subTest(manifest["algorithm"]):
                self.check_bits("pass", 0, **manifest)
            for path in self.folder.glob("done-*"):
                path.unlink()

    def test_what_cannot_be_is_refused_by_name(self):
        said = self.one("""
import torch.distributed as dist, prime_runtime as prime
def refused(**options):
    try:
        prime.join("prime://127.0.0.1:1/x#y", **options)
    except prime.Error as error:
        print(error)
refused(ranks=2)
refused(ranks=2, shards=2)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
refused(ranks=2)
""").splitlines()
        for line, wanted in zip(said, ("call `init_process_group` before `join`", "a model that both hold is not supported", "this one has 1 processes"), strict=True):
            self.assertIn(wanted, line)

    def test_ranks_that_differ_end_by_name_on_all_of_them(self):
        program = """import os, torch, torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
import prime_runtime as prime
dist.init_process_group("gloo")
rank = dist.get_rank()
def tell(error):
    print(error, file=open(os.environ["DONE"] + f"-{rank}", "a"))
with prime.join(ranks=2) as run:
    for work in (lambda: run.share(torch.nn.Linear(2, 2)), lambda: run.bind_tensor("x", distribute_tensor(torch.ones(4, 4), init_device_mesh("cpu", (2,)), [Shard(1)]))):
        try:
            work()
        except prime.Error as error:
            tell(error)
    run.bind_tensor("x", torch.ones(5000 + rank))
    try:
        run.next()
    except prime.Error as error:
        tell(error)
        raise
"""
        path = self.folder / "launched.py"
        path.write_text(program)
        with Run(1, outer_steps=6, up_flags=["--quorum", "2"], minimum=2, wait_limit="1h", env={"PRIME_QUADRATIC_ELEMENTS": "5000"}) as run:
            env = environment(PRIMECTL_INVITE=run.up["invite"], XDG_STATE_HOME=str(run.directory / "joiner"), DONE=str(self.folder / "done"))
            done = subprocess.run([PYTHON, *LAUNCH, str(path)], env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            run.wait_for("peer_joining", 2)
            run.wait_for("peer_lost")
        told = self.done()
        self.assertEqual(set(told), {"0", "1"}, done.stdout + done.stderr)
        for rank, lines in told.items():
            shared, placed, differ = lines.splitlines()
            self.assertIn("with `ranks` all of them share what is bound", shared)
            self.assertIn("`x` is placed as S(1)" if "S(1)" in placed else "`x` is placed as Shard(dim=1)", placed)
            self.assertIn(f"rank {1 - int(rank)} binds other tensors than rank {rank}", differ)


if __name__ == "__main__":
    main()
