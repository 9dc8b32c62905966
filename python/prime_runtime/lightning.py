"""Owns Callback: the Trainer of PyTorch Lightning as the trainer of a peer. Importing this module imports lightning, or pytorch_lightning where that is what is installed."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import torch

from ._errors import usage

if TYPE_CHECKING:
    from .run import Run, Step

if importlib.util.find_spec("lightning") is not None:
    import lightning.pytorch as pl
    from lightning.pytorch.utilities.data import extract_batch_size
else:
    import pytorch_lightning as pl
    from pytorch_lightning.utilities.data import extract_batch_size


class Callback(pl.Callback):  # type: ignore[misc, unused-ignore]
    """Each optimizer step of a Trainer is a step of the run::

        with prime.join() as run:
            pl.Trainer(max_steps=-1, callbacks=[Callback(run)]).fit(module, loader)

    The module and its one optimizer are bound when training begins, and training ends with the run. Schedules of learning rates with ``interval: step`` follow the run's clock,
    also after a restart; ``trainer.global_step`` counts the steps of this process. Which samples a step has is the loader's affair: shuffle with another seed on each peer.
    One process is one peer: for more of them leave ``devices`` at 1 and start as many.

    ``tokens``  of an optimizer step; without it the samples of its batches, as Lightning counts them
    """

    def __init__(self, run: Run, *, tokens: int | None = None) -> None:
        self._run = run
        self._step: Step | None = None
        self._tokens = tokens
        self._losses: list[torch.Tensor] = []
        self._seen = 0
        self._steps = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if trainer.world_size != 1:
            raise usage(f"the Trainer has {trainer.world_size} processes: each peer is one (`devices=1`), and the run averages over peers")
        if len(trainer.optimizers) != 1 or not pl_module.automatic_optimization:
            raise usage("the callback knows modules with one optimizer and automatic optimization; bind others by `run.bind` in a loop of your own")
        self._run.bind(pl_module, trainer.optimizers[0])
        self._steps = trainer.global_step
        self._begin(trainer)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self._step is None:
            return
        if outputs is None:
            raise usage("`training_step` gave no loss: a batch that is skipped has nothing to report")
        # Lightning has divided it by the number of batches that a step has, also where an epoch ends before that many.
        self._losses.append(outputs["loss"] * trainer.accumulate_grad_batches)
        self._seen += extract_batch_size(batch)
        if trainer.global_step == self._steps:
            return  # gradients of further batches are added up
        self._steps = trainer.global_step
        self._step.report(torch.stack(self._losses).mean(), self._tokens or self._seen, samples=0)
        self._losses, self._seen = [], 0
        self._begin(trainer)

    def _begin(self, trainer: Any) -> None:
        self._step = self._run.next()
        if self._step is None:
            trainer.should_stop = True
            return
        for config in trainer.lr_scheduler_configs:
            scheduler = config.scheduler
            if config.interval == "step" and hasattr(scheduler, "last_epoch") and scheduler.last_epoch != self._step.clock:  # this process goes on where another one was
                scheduler.last_epoch = self._step.clock - 1
                scheduler.step()
