"""Owns what several processes that hold one model together (FSDP2) are to one agent: rank 0 has the session, the others share its memory and hear what it hears.

Every call of a run is then one of all ranks. What a session binds lies in one file in memory that all ranks map; each rank writes its slices there before rank 0
publishes or records, and reads them after rank 0 has loaded. So a record and a publication are of all ranks or of none, and all ranks apply the same.
"""

from __future__ import annotations

import datetime
import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from . import _prime, binding
from ._errors import Error, usage
from .slices import Slice, part_of, slice_of

if TYPE_CHECKING:
    import torch

ALIGNMENT, LENGTH_BYTES = 64, 8
# A run may be paused for long. Who waits for a rank that died hears of it by its connection, and not at this limit.
WAITS = datetime.timedelta(days=365)


@dataclass(frozen=True)
class Committed:
    """What was applied."""

    step: int
    revision: int
    state: str
    peers: int


@dataclass(frozen=True)
class InnerStep:
    """A step as rank 0's session gave it, with this rank's part of the samples."""

    outer_step: int
    base: int
    rank: int
    peers: int
    index: int
    inner_steps: int
    clock: int
    total: int
    first: int
    count: int
    evaluate: tuple[int, int]
    loaded: bool
    restored: bool
    stored: bool


@dataclass(frozen=True)
class Samples:
    first: int
    count: int


class Ranks:
    """Stands in for the session on all ranks of one peer."""

    def __init__(self, make: Callable[[], _prime.Session]) -> None:
        import torch.distributed as dist

        self._dist = dist
        self._group: Any = dist.new_group(backend="gloo", timeout=WAITS)
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self._session: _prime.Session | None = None
        self._slices: list[Slice] = []
        self._blobs: list[binding.Blob] = []
        self._memory: torch.Tensor | None = None  # that all ranks have
        self._blob_places: list[int] = []
        self._ended = False

        def begin() -> tuple[Any, ...]:
            self._session = session = make()
            return session.manifest, session.local_manifest, session.peer, session.fresh, session.shards

        self.manifest, self.local_manifest, self.peer, self.fresh, self.shards = self._first(begin)
        self.shard, self.replica = 0, ""
        if self.shards > 1:
            self.leave()
            raise usage("a run with `membership.shards` has a process for each shard, and no ranks: join with `shards`")

    # --- what all ranks do together

    def _first(self, work: Callable[[], Any]) -> Any:
        """Rank 0 does it; all have what it returned, or end with what it raised."""
        told: list[Any] = [None]
        if self.rank == 0:
            try:
                told[0] = (True, work())
            except Error as error:
                told[0] = (False, error)
            except BaseException as error:
                detail = f"rank 0 ends: {type(error).__name__}: {error}"
                self._tell([(False, Error("Interrupted", "PR0801", "user", f"interrupted: {detail} [PR0801]", detail, [], "", 130))])
                raise
        self._tell(told)
        went_well, value = told[0]
        if not went_well:
            raise value
        return value

    def _tell(self, told: list[Any]) -> None:
        self._dist.broadcast_object_list(told, src=0, group=self._group)

    def _gather(self, value: Any) -> list[Any]:
        """Of all ranks. Nobody goes on before all have come."""
        gathered: list[Any] = [None] * self.ranks
        self._dist.all_gather_object(gathered, value, group=self._group)
        return gathered

    @property
    def _of_first(self) -> _prime.Session:
        assert self._session is not None
        return self._session

    @property
    def open(self) -> bool:
        return not self._ended and (self._session is None or self._session.open)

    # --- what is bound

    def bind(self, name: str, tensor: Any, role: str) -> None:
        import torch

        if self._memory is not None:
            raise usage("tensors are bound before the first step")
        given = tensor if isinstance(tensor, torch.Tensor) else torch.from_numpy(tensor)
        self._slices.append(slice_of(name, given, role, self.rank, self.ranks))

    def allocate(self, values: int) -> Any:
        raise usage(f"memory of the session's cannot hold {values} values of one rank: with `ranks` all of them share what is bound")

    def bind_blob(self, name: str, capacity: int, save: Callable[[], bytes], load: Callable[[bytes], object]) -> None:
        if self._memory is not None:
            raise usage("what is private is bound before the first step")
        self._blobs.append(binding.Blob(name, capacity, save, load))

    def _share(self) -> None:
        """Makes the memory of what all ranks have bound, and has rank 0 bind it."""
        told = [(each.name, each.role, each.shape, str(each.tensor.dtype), each.shared) for each in self._slices]
        blobs = [(blob.name, blob.capacity) for blob in self._blobs]
        for rank, other in enumerate(self._gather((told, blobs))):
            if other != (told, blobs):
                raise usage(f"rank {rank} binds other tensors than rank {self.rank}: all ranks bind the same global tensors, in the same order")
        size, places = 0, []
        for count in [each.size for each in self._slices] + [(blob.capacity + LENGTH_BYTES) * self.ranks for blob in self._blobs]:
            places.append(size)
            size += -(-count // ALIGNMENT) * ALIGNMENT
        self._memory = memory = self._map(max(size, ALIGNMENT))
        wholes = [memory[place : place + each.size].view(each.tensor.dtype).view(each.shape) for each, place in zip(self._slices, places)]
        self._blob_places = places[len(self._slices) :]
        for each, whole in zip(self._slices, wholes):
            each.lies(whole)
        self.bring()
        self._gather(None)
        self._first(lambda: self._bind(wholes))

    def _map(self, size: int) -> torch.Tensor:
        """A file of rank 0's that has no name, so that nothing is left of it when the ranks die."""
        import torch

        file = os.memfd_create("prime-ranks", os.MFD_CLOEXEC) if self.rank == 0 else -1
        if self.rank == 0:
            os.ftruncate(file, size)
        owner, number = self._first(lambda: (os.getpid(), file))
        if self.rank > 0:
            try:
                file = os.open(f"/proc/{owner}/fd/{number}", os.O_RDWR | os.O_CLOEXEC)
            except OSError:
                pass
        opened = self._gather(file >= 0)
        if not all(opened):
            raise usage("the ranks of a peer are processes of one machine, of one user and of one PID namespace: the memory of rank 0 cannot be opened by all")
        memory = torch.frombuffer(mmap.mmap(file, size), dtype=torch.uint8)
        self._gather(None)
        os.close(file)
        return memory

    def _bind(self, wholes: list[torch.Tensor]) -> None:
        for each, whole in zip(self._slices, wholes):
            self._of_first.bind(each.name, whole, each.role)
        for index, blob in enumerate(self._blobs):
            size = (blob.capacity + LENGTH_BYTES) * self.ranks
            self._of_first.bind_blob(blob.name, size, *self._as_bytes(index, size))

    def _as_bytes(self, index: int, size: int) -> tuple[Callable[[], bytes], Callable[[bytes], object]]:
        """What all ranks have saved of a blob, one behind the other."""
        memory, place = self._memory, self._blob_places[index]
        assert memory is not None
        whole = memory[place : place + size].numpy()

        def load(saved: bytes) -> None:
            whole[: len(saved)] = memoryview(saved)

        return lambda: whole.tobytes(), load

    def _own(self, index: int) -> Any:
        """This rank's place in a blob: its length, then itself."""
        assert self._memory is not None
        size = self._blobs[index].capacity + LENGTH_BYTES
        begin = self._blob_places[index] + self.rank * size
        return self._memory[begin : begin + size].numpy()

    def check(self) -> None:
        for each in self._slices if self._memory is not None else []:
            each.check()

    def bring(self) -> None:
        """Writes this rank's slices; rank 0 publishes or records them once all ranks have."""
        for each in self._slices:
            if self.rank == 0 or not each.shared:
                each.bring()
        for index, blob in enumerate(self._blobs):
            saved, own = blob.save(), self._own(index)
            if len(saved) > blob.capacity:
                raise usage(f"`{blob.name}` has {len(saved)} bytes, and was bound with a capacity of {blob.capacity}")
            own[:LENGTH_BYTES] = memoryview(len(saved).to_bytes(LENGTH_BYTES, "little"))
            own[LENGTH_BYTES : LENGTH_BYTES + len(saved)] = memoryview(saved)

    def _take(self, restored: bool) -> None:
        for each in self._slices:
            if each.role != "private" or restored:
                each.take()
        for index, blob in enumerate(self._blobs if restored else []):
            own = self._own(index)
            length = int.from_bytes(own[:LENGTH_BYTES].tobytes(), "little")
            blob.load(own[LENGTH_BYTES : LENGTH_BYTES + length].tobytes())

    # --- the loop

    def next(self) -> InnerStep | None:
        if self._memory is None:
            self._share()
        told = self._first(self._next)
        if told is None:
            self._take(restored=False)
            return None
        step = InnerStep(*told)
        if step.loaded or step.restored:
            self._take(step.restored)
        first, count = part_of(step.first, step.count, self.rank, self.ranks)
        return replace(step, first=first, count=count)

    def _next(self) -> tuple[Any, ...] | None:
        step = self._of_first.next()
        return None if step is None else tuple(getattr(step, field.name) for field in fields(InnerStep))

    def report(
        self, loss: float, tokens: int, samples: int | None, held_out: float | None, held_out_tokens: int, data_wait_s: float | None
    ) -> list[Committed]:
        """Of all ranks: their tokens and samples are added up, the loss is the mean over their tokens, the wait for samples the longest, for which the
        others waited too, and the held-out loss is rank 0's."""
        parts = self._gather((loss, tokens, samples, data_wait_s))
        total = sum(each[1] for each in parts)
        mean = sum(each[0] * each[1] for each in parts) / total if total > 0 else loss
        taken = None if any(each[2] is None for each in parts) else sum(each[2] for each in parts)
        waits = [each[3] for each in parts if each[3] is not None]
        return self._told(lambda: self._of_first.report(mean, total, taken, held_out, held_out_tokens, max(waits, default=None)))

    def contribute(self) -> list[Committed]:
        self._gather(None)
        return self._told(lambda: self._of_first.contribute())

    def _told(self, work: Callable[[], list[_prime.Committed]]) -> list[Committed]:
        return [Committed(*each) for each in self._first(lambda: [(each.step, each.revision, each.state, each.peers) for each in work()])]

    def upcoming(self, count: int) -> list[Samples]:
        ahead = self._first(lambda: [(each.first, each.count) for each in self._of_first.upcoming(count)])
        return [Samples(*part_of(first, length, self.rank, self.ranks)) for first, length in ahead]

    def finish(self, answer: Callable[[int, int, bool], tuple[float | None, int, str]]) -> None:
        """Each rank evaluates the same part, as a sharded model needs; rank 0's answer counts."""
        if self.rank > 0:
            while (asked := self._first(tuple)) is not None:
                answer(*asked)
            return

        def ask(index: int, of: int, sample: bool) -> tuple[float | None, int, str]:
            self._tell([(True, (index, of, sample))])
            return answer(index, of, sample)

        def end() -> None:
            self._of_first.finish(ask)

        self._first(end)

    # --- the rest is rank 0's

    def export_file(self, name: str, content: bytes) -> None:
        if self._session is not None:
            self._session.export_file(name, content)

    def describe_data(self, digest: str, summary: str) -> None:
        if self._session is not None:
            self._session.describe_data(digest, summary)

    def describe_device(self, device: str) -> None:
        if self._session is not None:
            self._session.describe_device(device)

    def alive(self, waits_for: str) -> None:
        if self._session is not None:
            self._session.alive(waits_for)

    def interrupt(self) -> None:
        if self._session is not None:
            self._session.interrupt()

    def leave(self) -> None:
        """Without the others: who leaves is not waited for."""
        if self._session is not None:
            self._session.leave()

    def fail(self, name: str, detail: str) -> None:
        if self._session is not None:
            self._session.fail(name, detail)

    def close(self) -> None:
        self._ended = True
        if self._session is not None:
            self._session.close()
