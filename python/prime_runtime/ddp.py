"""Owns the hook that lets DistributedDataParallel average gradients by a Group, and go on when a peer dies."""

from __future__ import annotations

import concurrent.futures
import inspect
import threading
from typing import TYPE_CHECKING, Any

from ._errors import Error
from .group import Codec, Group

if TYPE_CHECKING:
    import torch


class DdpHook:
    """A communication hook: ``model.register_comm_hook(None, prime.ddp_hook(group))``.

    Each bucket of gradients is one reduce, averaged over the members of ``group``. When a member is lost, the buckets that were not committed
    are as they were on all that are left; these form a new group (``Group.reform``), reduce those buckets again, and go on, averaging
    over fewer. ``group`` is the one in use now.
    """

    def __init__(self, group: Group, codec: Codec = "none") -> None:
        self.group = group
        self.codec: Codec = codec
        # DDP looks at what a hook says of itself, and knows annotations as classes of torch alone.
        self.__name__ = self.__qualname__ = "ddp_hook"
        self.__signature__ = inspect.Signature([inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("state", "bucket")])
        self._lock = threading.Lock()
        # What failed is made good one after the other, not on the thread that tells of ends: forming a group takes its time.
        self._mends = concurrent.futures.ThreadPoolExecutor(1, "prime-ddp")

    def __call__(self, state: object, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        import torch

        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        buffer = bucket.buffer()
        tag = bucket.index()
        group = self.group

        def ended(reduced: concurrent.futures.Future[Any]) -> None:
            error = reduced.exception()
            if error is None:
                future.set_result(buffer)
            else:
                self._mends.submit(self._mend, group, buffer, tag, error, future)

        group.reduce_async(buffer, codec=self.codec, tag=tag).future().add_done_callback(ended)
        return future

    def _mend(self, failed: Group, buffer: Any, tag: int, error: BaseException, future: Any) -> None:
        try:
            while True:
                if not isinstance(error, Error) or error.name not in ("PeerLost", "LaneBroken", "DeadlineExceeded"):
                    raise error
                with self._lock:
                    if self.group is failed:
                        self.group = failed.reform()
                    failed = self.group
                try:
                    failed.reduce(buffer, codec=self.codec, tag=tag)
                    break
                except Error as again:
                    error = again
        except BaseException as final:
            future.set_exception(final)
        else:
            future.set_result(buffer)


def ddp_hook(group: Group, codec: Codec = "none") -> DdpHook:
    """The hook for ``DistributedDataParallel.register_comm_hook``; see DdpHook."""
    return DdpHook(group, codec)
