"""prime_runtime.lightning with the real Trainer of PyTorch Lightning: runs of two, one of which is killed."""

import unittest

from programs import Trainers, has, main

TRAINER = """import logging, os, signal, warnings
import torch
import lightning.pytorch as pl
import prime_runtime as prime
from prime_runtime.lightning import Callback
warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
torch.set_num_threads(1)
torch.manual_seed(1)
class Sums(torch.utils.data.Dataset):
    def __len__(self): return 1000
    def __getitem__(self, index):
        inputs = torch.randn(8, generator=torch.Generator().manual_seed(index))
        return inputs, inputs.sum(0, keepdim=True)
class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def training_step(self, batch, index):
        losses.append((self.layer(batch[0]) - batch[1]).square().mean())
        return losses[-1]
    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-1)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda clock: 1 - clock / 24)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
class Watching(pl.Callback):
    def on_before_optimizer_step(self, trainer, module, optimizer):
        rates.append((callback._step.clock, optimizer.param_groups[0]["lr"]))
        if os.environ.get("DIES") and callback._step.clock == 9:
            try:
                open(os.environ["DONE"] + "-died", "x").close()
            except FileExistsError:
                return  # the other one has died
            os.kill(os.getpid(), signal.SIGKILL)
losses, rates, reported = [], [], []
report = prime.Step.report
def reporting(step, loss, tokens, **more):
    reported.append(float(loss))
    return report(step, loss, tokens, **more)
prime.Step.report = reporting
loader = torch.utils.data.DataLoader(Sums(), batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(os.getpid()))
with prime.join() as run:
    callback = Callback(run)
    trainer = pl.Trainer(max_steps=-1, max_epochs=-1, accelerator="cpu", accumulate_grad_batches=2, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                         callbacks=[callback, Watching()])
    trainer.fit(Module(), loader)
    for clock, rate in rates:
        assert abs(rate - 1e-1 * (1 - clock / 24)) < 1e-9, (clock, rate)
    for index, loss in enumerate(reported):
        assert abs(loss - float((losses[2 * index] + losses[2 * index + 1]) / 2)) < 1e-6, (index, loss)
    open(os.environ["DONE"] + "-ended-" + run.peer, "w").write(f"{rates[0][0]} {rates[-1][0]} {len(rates)} {len(reported)}")
"""

REFUSED = """import logging, warnings
import torch
import lightning.pytorch as pl
import prime_runtime as prime
from prime_runtime.lightning import Callback
warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
class Module(pl.LightningModule):
    automatic_optimization = False
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def training_step(self, batch, index): return None
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), lr=1e-2)
trainer = pl.Trainer(max_steps=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, callbacks=[Callback(None)])
try:
    trainer.fit(Module(), torch.utils.data.DataLoader(torch.zeros(4, 8)))
except prime.Error as error:
    print(error.name, error.detail)
"""


@unittest.skipUnless(has("torch", "lightning"), "there is no wheel lightning")
class Lightning(Trainers):
    def test_a_trainer_of_lightning_trains_with_others_and_goes_on_after_a_kill(self):
        for dies in ("", "1"):
            with self.subTest(dies), self.run_of(TRAINER, env={"DIES": dies}, lr=1.0, momentum=0.0) as run:
                commits = self.ends(run)
                self.assertEqual({len(commit["contributors"]) for commit in commits}, {2})
                self.assertEqual({commit["weight"] for commit in commits}, {2 * 4 * 2 * 4})
                self.assertLess(commits[-1]["loss"], commits[0]["loss"])
                ended = sorted(tuple(map(int, text.split())) for text in self.ended(2))
                self.assertEqual(ended, [(0, 23, 24, 24), (8, 23, 16, 16)] if dies else [(0, 23, 24, 24)] * 2)

    def test_what_it_does_not_know_is_refused_by_name(self):
        output = self.one(REFUSED)
        self.assertIn("Usage", output)
        self.assertIn("automatic optimization", output)


if __name__ == "__main__":
    main()
