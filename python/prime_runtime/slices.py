"""Owns what one of several ranks has of a range of samples, and of a global tensor: its slice, in its own memory and in that of all ranks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import binding
from ._errors import usage

if TYPE_CHECKING:
    import torch


@dataclass
class Slice:
    """What one rank binds of a global tensor, and where that lies: in its own memory, and in that of all ranks."""

    name: str
    role: str
    shape: tuple[int, ...]  #: of the global tensor
    tensor: torch.Tensor  #: of the caller's
    first: int  #: row of the global tensor
    rows: int
    shared: bool = False  #: each rank has all of it: rank 0's is brought, and all take that
    address: int = 0
    bytes: int = 0
    mirror: torch.Tensor | None = None

    @property
    def local(self) -> torch.Tensor:
        from torch.distributed.tensor import DTensor

        tensor = self.tensor.detach()
        return tensor.to_local() if isinstance(tensor, DTensor) else tensor

    @property
    def size(self) -> int:
        """Of the global tensor, in bytes."""
        return math.prod(self.shape) * self.tensor.dtype.itemsize

    def lies(self, whole: torch.Tensor) -> None:
        """In this memory of all ranks."""
        local = self.local
        self.address, self.bytes = local.data_ptr(), local.untyped_storage().nbytes()
        self.mirror = whole.flatten()[self.first * self.row : (self.first + self.rows) * self.row].view(local.shape)

    @property
    def row(self) -> int:
        return math.prod(self.shape[1:])

    def check(self) -> None:
        local = self.local
        if local.data_ptr() != self.address or local.untyped_storage().nbytes() != self.bytes:
            raise binding.moved(self.name)

    def bring(self) -> None:
        assert self.mirror is not None
        self.mirror.copy_(self.local)

    def take(self) -> None:
        assert self.mirror is not None
        self.local.copy_(self.mirror)


def part_of(first: int, count: int, rank: int, ranks: int) -> tuple[int, int]:
    """A rank's part of a range: neighbouring ranks have neighbouring parts, whose lengths differ by one at most."""
    begin, end = (count * each // ranks for each in (rank, rank + 1))
    return first + begin, end - begin


def slice_of(name: str, tensor: torch.Tensor, role: str, rank: int, ranks: int) -> Slice:
    """Sharded along its first dimension, or whole on each rank. Private tensors that are not sharded are each rank's own."""
    from torch.distributed.tensor import DTensor

    shape = tuple(tensor.shape)
    whole = Slice(name, role, shape, tensor, 0, shape[0] if shape else 1, shared=True)
    if not isinstance(tensor, DTensor):
        return whole if role != "private" else Slice(name, role, (ranks, *shape), tensor, rank, 1)
    mesh, placements = tensor.device_mesh, tensor.placements
    if mesh.ndim != 1 or mesh.size() != ranks:
        raise usage(f"`{name}` lies on a mesh of {tuple(mesh.shape)} processes; what can be bound lies on one of {ranks}, all ranks of its peer")
    if placements[0].is_replicate():
        return whole
    if not placements[0].is_shard(0):
        raise usage(f"`{name}` is placed as {placements[0]}; what can be bound is sharded along its first dimension, or whole on each rank")
    length = -(-shape[0] // ranks)  # as torch.chunk has it: the last shards may be shorter, or empty
    first = min(mesh.get_local_rank() * length, shape[0])
    return Slice(name, role, shape, tensor, first, min(length, shape[0] - first))
