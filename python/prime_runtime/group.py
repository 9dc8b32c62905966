"""Owns Group: a fixed set of processes that reduce tensors together, without a coordinator or a run."""

from __future__ import annotations

import asyncio
import concurrent.futures
import socket
import sys
import time
from collections.abc import Generator, Sequence
from types import TracebackType
from typing import Any, Literal

from . import _endings, _prime
from ._errors import Error, usage
from ._prime import ReduceInfo

Op = Literal["avg", "sum", "prod", "min", "max"]
Codec = Literal["none", "f16", "bf16", "int8", "int8-minmax", "int8-zeropoint", "int4", "e3m0"]
Schedule = Literal["auto", "direct", "ring", "whole"]

TAGS = 2**64
# So long a member's address must refuse connections before the member is taken for gone: one that forms a new group closes its old
# listener first, and a machine under load takes seconds until the new one listens.
GONE_S = 5.0
ATTEMPT_S = 1.0
LOOK_AGAIN_S = 1.0


def _memory(tensor: Any) -> Any:
    """What speaks DLPack of it: a tensor that requires a gradient does not."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(tensor, torch.Tensor):
        return tensor
    if tensor.device.type == "cuda":
        torch.cuda.current_stream(tensor.device).synchronize()  # what writes the input must have finished
    return tensor.detach()


class Reduction:
    """A reduce under way. Its tensors are the group's until it has ended; dropping this object cancels it.

    ``wait(timeout)`` blocks, ``await reduction`` does in asyncio, ``future()`` is for concurrent.futures.
    """

    def __init__(self, core: _prime.Reduction) -> None:
        self._core = core
        self._future: concurrent.futures.Future[ReduceInfo] | None = None

    def wait(self, timeout: float | None = None) -> ReduceInfo:
        """Blocks until it is committed by all members, or aborted. Signals are handled meanwhile: Ctrl-C raises KeyboardInterrupt, and the reduce goes on.

        Aborted: the input is as it was, and Error has the cause as its ``name``: ``PeerLost``, ``LaneBroken`` (a member went away, or gave it up),
        ``DeadlineExceeded``, ``ReduceMismatch`` (members disagree on sizes or types), ``NonFiniteValue`` (with a codec), ``Usage``.
        TimeoutError when it still runs after ``timeout`` seconds.
        """
        return self._core.wait(timeout)

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._core.done()

    def cancel(self) -> None:
        """Asks for an end; it may have been committed already: ``wait`` tells."""
        self._core.cancel()

    def future(self) -> concurrent.futures.Future[ReduceInfo]:
        """The same, as a future of concurrent.futures, whose callbacks run on a thread of this package. Cancelling the future does not cancel the reduce."""
        if self._future is None:
            self._future = concurrent.futures.Future()
            self._core.when_done(self._tell)
        return self._future

    def _tell(self) -> None:
        future = self._future
        if future is None or not future.set_running_or_notify_cancel():
            return
        try:
            info = self._core.wait(0)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(info)

    def __await__(self) -> Generator[Any, None, ReduceInfo]:
        # One awaiter of several may be cancelled.
        return asyncio.shield(asyncio.wrap_future(self.future())).__await__()


class Group:
    """Members that reduce tensors together. Made by ``Group.form``; ``close`` it, or use it in a ``with``."""

    def __init__(self, core: _prime.Group, members: list[str], options: dict[str, Any]) -> None:
        self._core = core
        self._options = options
        self.members = members  #: "host:port" by rank

    @staticmethod
    def form(
        *, rank: int, members: Sequence[str], key: str, memory: bool = True, plain: bool = False, streams: int = 1, timeout: float = 30.0
    ) -> Group:
        """Listens at ``members[rank]``; the first reduce connects.

        ``members``  ``"host:port"`` by rank, the same list everywhere
        ``key``      a secret of at least 16 characters, the same everywhere
        ``memory``   members of one machine use shared memory
        ``plain``    no TLS; the key is proved either way
        ``streams``  connections between two members, 1 to 64; more than one pays where a network caps each
        ``timeout``  in seconds, of one connection attempt and of each reduce; members then ask each other for 5 s who stands still, or for 10 s where one has
                     voted already, before they give it up alike

        Error ``Usage`` for options that contradict themselves, ``AddressTaken``, ``MemoryUnavailable`` (descriptors or threads are used up).
        """
        if isinstance(members, str):
            raise usage(f"members of {members!r}: a list of `host:port` is meant")
        if not 0 <= rank < len(members):
            raise usage(f"rank {rank} of a group of {len(members)}")
        options: dict[str, Any] = {"key": key, "memory": memory, "plain": plain, "streams": streams, "timeout": timeout}
        core = _prime.form_group(rank, list(members), key, memory, plain, streams, timeout)
        _endings.serve()
        return Group(core, list(members), options)

    @property
    def rank(self) -> int:
        return self._core.rank

    @property
    def size(self) -> int:
        return self._core.size

    @property
    def peak_bytes(self) -> int:
        """Memory of the host that the group has taken beyond what callers gave it, at most."""
        return self._core.peak_bytes

    def reduce_async(
        self,
        tensor: Any,
        out: Any = None,
        *,
        op: Op = "avg",
        codec: Codec = "none",
        result_codec: Codec | None = None,
        schedule: Schedule = "auto",
        tag: int = 0,
        weights: Sequence[int] = (),
        residual: Any = None,
        stochastic: bool = False,
        seed: int = 0,
        version: int = 0,
        timeout: float | None = None,
    ) -> Reduction:
        """Starts a reduce, and returns at once.

        ``tensor``    of torch or numpy (or whatever speaks DLPack), contiguous, of any shape, the same count and type on all members:
                      f32, f64, bf16, f16, i8 to i64, u8 to u64; on the CPU without a copy, or on a GPU of CUDA's
        ``op``        integers wrap as they do in torch, and their average drops the fraction
        ``out``       where the result goes; without it, into ``tensor``. An aborted reduce leaves ``tensor`` as it was
        ``codec``     how f32 values travel; sum and avg only
        ``result_codec`` how the result does, if otherwise: ``codec="int4", result_codec="int8"``
        ``tag``       reduces of different tags run at once; those of one tag one after the other, in the order in which they were asked for
        ``weights``   of an average, by rank, the same everywhere; of other operations only whether one is 0: that member brings nothing
        ``residual``  error feedback of a codec: f32, one value for each of ``tensor``, 0 before the first reduce
        ``stochastic`` rounds a codec up and down with the right mean, by the bits of (``seed``, ``version``, index)
        ``timeout``   in seconds; without it, the group's

        Error ``Usage`` at once for tensors that do not fit; all else is told by the Reduction.
        """
        if not 0 <= tag < TAGS:
            raise usage(f"a tag of {tag}: tags are from 0 to {TAGS - 1}")
        if any(weight < 0 for weight in weights):
            raise usage(f"weights of {list(weights)}: they are integers from 0 on")
        memory = _memory(tensor)
        into = memory if out is None else _memory(out)
        kept = None if residual is None else _memory(residual)
        return Reduction(
            self._core.reduce(memory, into, op, codec, result_codec, schedule, tag, list(weights), kept, stochastic, seed, version, timeout)
        )

    def reduce(self, tensor: Any, out: Any = None, **options: Any) -> ReduceInfo:
        """``reduce_async`` and ``wait``, with the same options and errors. Ctrl-C cancels the reduce for all members."""
        reduction = self.reduce_async(tensor, out, **options)
        try:
            return reduction.wait()
        except BaseException:
            reduction.cancel()
            raise

    def broadcast(self, tensor: Any, *, source: int = 0, tag: int = 0, timeout: float | None = None) -> ReduceInfo:
        """Gives all members the ``tensor`` of the member ``source``, in place."""
        if not 0 <= source < self.size:
            raise usage(f"a source of {source} in a group of {self.size}")
        return self.reduce(tensor, op="avg", weights=[int(rank == source) for rank in range(self.size)], tag=tag, timeout=timeout)

    def empty(self, shape: int | Sequence[int], dtype: Any) -> Any:
        """A tensor, zeros, in memory that members on this machine read where it lies: a torch tensor for a torch.dtype, else an array of numpy's.

        Error ``MemoryUnavailable``: no more descriptors (each piece is one) or address space.
        """
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        count = 1
        for size in sizes:
            count *= size
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(dtype, torch.dtype):
            if count == 0:
                return torch.empty(sizes, dtype=dtype)
            return torch.from_numpy(self._core.allocate(count * dtype.itemsize)).view(dtype).view(sizes)
        import numpy

        kind = numpy.dtype(dtype)
        return numpy.empty(sizes, kind) if count == 0 else self._core.allocate(count * kind.itemsize).view(kind).reshape(sizes)

    def survivors(self) -> list[int]:
        """The ranks, this one among them, whose address answers. One is gone when its address was silent for GONE_S: that of a process which is
        killed may answer for a moment after its lanes have broken, and that of a member which forms the next group is silent for one."""
        begun = time.monotonic()
        heard = {rank: begun for rank in range(self.size) if rank != self.rank}
        with concurrent.futures.ThreadPoolExecutor(max(1, min(32, len(heard)))) as pool:
            while True:
                answers = pool.map(_answers, [self.members[rank] for rank in heard])
                answering = [rank for rank, here in zip(heard, answers, strict=True) if here]
                now = time.monotonic()
                heard.update(dict.fromkeys(answering, now))
                known = all(rank in answering or now - since >= GONE_S for rank, since in heard.items())
                if (known and now - begun >= GONE_S) or now - begun >= 4 * GONE_S:  # one that is started again and again is neither
                    return sorted([self.rank, *answering])
                time.sleep(LOOK_AGAIN_S)

    def reform(self) -> Group:
        """After a member was lost: closes this group, and forms one of the members that are left, by their order. All of them call it. It takes 5 s: so long
        the address of a member must be silent.

        Error ``PeerLost`` where no address is silent (nobody is gone), or nobody else is left; the group stays as it is then.
        """
        left = self.survivors()
        if len(left) == self.size or len(left) == 1:
            why = "every member still answers" if len(left) == self.size else "no other member answers"
            raise Error("PeerLost", "PR0502", "retry", f"a peer was lost: {why}, so no group is formed of the rest [PR0502]", why, [], "", 1)
        self.close()
        return Group.form(rank=left.index(self.rank), members=[self.members[rank] for rank in left], **self._options)

    def close(self) -> None:
        """Ends the group: reduces under way end with ``LaneBroken``, here and elsewhere."""
        self._core.close()

    def __enter__(self) -> Group:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _answers(member: str) -> bool:
    host, _, port = member.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=ATTEMPT_S):
            return True
    except OSError:
        return False
