"""Owns Callback: the Trainer of Hugging Face's transformers as the trainer of a peer. Importing this module imports transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import transformers

from ._errors import usage

if TYPE_CHECKING:
    from .run import Run, Step


class Callback(transformers.TrainerCallback):  # type: ignore[misc, unused-ignore]
    """Each optimizer step of a Trainer is a step of the run::

        with prime.join() as run:
            Trainer(model=model, args=args, train_dataset=dataset, callbacks=[Callback(run)]).train()

    Model and optimizer are bound when training begins. The schedule of learning rates and ``state.global_step`` follow the run's clock, also after a restart. Which samples a
    step has is the Trainer's affair: give each peer another ``data_seed``. ``max_steps`` should be the run's inner steps in all; training ends with the run.

    ``tokens``  of an optimizer step; without it those of ``input_ids`` that the model has seen in it
    """

    def __init__(self, run: Run, *, tokens: int | None = None) -> None:
        self._run = run
        self._step: Step | None = None
        self._tokens = tokens
        self._losses: list[torch.Tensor] = []
        self._seen = 0
        self._summed = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        model, optimizer = kwargs["model"], kwargs["optimizer"]
        self._run.bind(model, getattr(optimizer, "optimizer", optimizer))
        model.register_forward_hook(self._saw, with_kwargs=True)
        self._begin(state, control, kwargs["lr_scheduler"])

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._step is None:
            return
        if not self._losses:
            raise usage("the model gave no loss in this step: its output needs one (`labels` in the batch)")
        losses = torch.stack(self._losses)
        self._step.report(losses.sum() if self._summed else losses.mean(), self._tokens or self._seen, samples=0)
        self._losses, self._seen = [], 0
        self._begin(state, control, kwargs["lr_scheduler"])

    def _begin(self, state: Any, control: Any, scheduler: Any) -> None:
        self._step = self._run.next()
        if self._step is None:
            control.should_training_stop = True
            return
        state.global_step = self._step.clock
        inner = getattr(scheduler, "scheduler", scheduler)
        if inner.last_epoch != self._step.clock:  # this process goes on where another one was
            inner.last_epoch = self._step.clock - 1
            inner.step()

    def _saw(self, model: Any, inputs: Any, kwargs: dict[str, Any], output: Any) -> None:
        """Of each batch of a step: with ``num_items_in_batch`` its loss is a part of the step's, else a mean of its own."""
        loss = getattr(output, "loss", None)
        if not model.training or loss is None:
            return
        self._losses.append(loss.detach())
        self._summed = kwargs.get("num_items_in_batch") is not None
        ids = kwargs.get("input_ids")
        self._seen += ids.numel() if ids is not None else 1
