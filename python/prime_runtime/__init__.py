"""Fault-tolerant, decentralized training: a PyTorch script joins a run in ten lines (docs/PYTHON.md).

``join`` makes this process the trainer of a peer, ``Group`` reduces tensors between processes without a run, ``ddp_hook`` lets
DistributedDataParallel survive the loss of a peer. Every error is an ``Error``. torch is imported only by programs that have imported it.
"""

from ._errors import Error
from ._prime import Committed, ReduceInfo, Samples
from .ddp import DdpHook, ddp_hook
from .data import Loader
from .group import Group, Reduction
from .run import Run, Step, join

__all__ = ["Committed", "DdpHook", "Error", "Group", "Loader", "ReduceInfo", "Reduction", "Run", "Samples", "Step", "ddp_hook", "join"]
