"""prime.ddp_hook in real DistributedDataParallel: parity, and a peer that is killed."""

import unittest

from programs import Programs, has, main

TRAINING = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)  # DDP's own: of this process alone
group = prime.Group.form(**options)
torch.manual_seed(rank)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
for tag, parameter in enumerate(model.parameters()):
    group.broadcast(parameter, tag=tag)
hook = prime.ddp_hook(group)
model = DistributedDataParallel(model, bucket_cap_mb=0.05)
model.register_comm_hook(None, hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(100 + rank)
for step in range(20):
    if rank == 2 and step == 10:
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.zero_grad()
    model(torch.randn(16, 64)).square().mean().backward()
    optimizer.step()
flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
assert flat.isfinite().all()
info = hook.group.reduce(flat.clone(), op="max")
print(hook.group.size, flat.view(torch.int32).sum().item(), info.digest)
hook.group.reduce(torch.zeros(1), tag=1)
"""


@unittest.skipUnless(has("torch", "numpy"), "there is no wheel torch")
class Ddp(Programs):
    def test_parameters_stay_equal_bit_for_bit(self):
        said = self.all_of(TRAINING, 2)
        self.assertRegex(said[0], "^2 ")
        self.assertEqual(len(set(said)), 1, said)

    def test_a_killed_peer_costs_its_part_of_the_mean_and_nothing_else(self):
        first, second, third = self.group(TRAINING, 3)
        self.assertEqual(third.wait(300), -9, third.stdout)
        said = [self.finish(first), self.finish(second)]
        self.assertRegex(said[0], "^2 ")
        self.assertEqual(len(set(said)), 1, said)

    def test_what_no_new_group_would_mend_fails_the_backward_pass_by_its_name(self):
        program = TRAINING.replace("randn(16, 64)", "randn(16, 64) * float('nan')").replace("ddp_hook(group)", "ddp_hook(group, codec='int8')")
        said = [self.finish(each, 1) for each in self.group(program, 1)]
        self.assertIn("a tensor holds NaN or infinity", said[0])


if __name__ == "__main__":
    main()
