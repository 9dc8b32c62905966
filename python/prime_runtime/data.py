"""Owns Loader: the samples of each step, out of a data set of torch's."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ._errors import usage

if TYPE_CHECKING:
    from .run import Run, Step


class Loader:
    """``for step, batch in run.data(dataset)``: the numbers of a step's samples mean the same samples on all peers, as often as the data is gone through.

    ``dataset``  map-style (``len`` and ``[]``): sample n is number n mod ``len`` of an order that is drawn anew for each pass.
                 Iterable: sample n is the n-th that it yields, over and over; each peer reads past what is not its own
    ``shuffle``  of map-style data; False: as it is
    ``seed``     of that order, the same on all peers
    ``collate``  makes a batch of a list of samples; None: ``torch.utils.data.default_collate``
    """

    def __init__(self, run: Run, dataset: Any, *, shuffle: bool = True, seed: int = 0, collate: Callable[[list[Any]], Any] | None = None) -> None:
        self._run = run
        self._dataset = dataset
        self._shuffle = shuffle
        self._seed = seed
        self._collate = collate
        self._order: tuple[int, Any] = (-1, None)
        self._mapped = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
        self._stream: Iterator[Any] = iter(())
        self._at = -1  # the number of the next sample of the stream; -1: it has not begun
        if self._mapped and len(dataset) == 0:
            raise usage("the data set is empty")

    def __iter__(self) -> Iterator[tuple[Step, Any]]:
        import torch.utils.data

        collate = self._collate or torch.utils.data.default_collate
        for step in self._run:
            began = time.monotonic()
            batch = collate([self.sample(number) for number in step.samples])
            step._data_wait_s = time.monotonic() - began
            yield step, batch

    def sample(self, number: int) -> Any:
        """One sample by its number in the run's order."""
        if not self._mapped:
            return self._streamed(number)
        count = len(self._dataset)
        return self._dataset[self._place(number // count, number % count, count)]

    def _place(self, turn: int, place: int, count: int) -> int:
        if not self._shuffle:
            return place
        if self._order[0] != turn:
            import torch

            generator = torch.Generator().manual_seed(self._seed * 1_000_003 + turn)
            self._order = turn, torch.randperm(count, generator=generator)
        return int(self._order[1][place])

    def _streamed(self, number: int) -> Any:
        if self._at < 0 or number < self._at:
            self._stream = itertools.chain.from_iterable(self._turns())
            self._at = 0
        for skipped in itertools.islice(self._stream, number - self._at):
            del skipped
        self._at = number + 1
        return next(self._stream)

    def _turns(self) -> Iterator[Iterator[Any]]:
        while True:
            turn = iter(self._dataset)
            first = next(turn, self)
            if first is self:
                raise usage("the data set is empty")
            yield itertools.chain([first], turn)
