"""Owns what launchers of many processes (torchrun, srun) tell each of them: which part of which replica it is."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping

from ._errors import usage


def place(shards: int, environment: Mapping[str, str] = os.environ) -> tuple[str, int]:
    """The replica and the shard of this process, one of a launch of as many processes as there are shards, or a multiple of that.

    Neighbouring ranks are one replica. Its name is the launch's, so that no two launches share one, and that of a launch that is started again stays.
    """
    if shards < 1:
        raise usage(f"a model is held by at least one process, not by {shards}")
    for rank, world, launch in (("RANK", "WORLD_SIZE", _of_torchrun), ("SLURM_PROCID", "SLURM_NTASKS", _of_slurm)):
        if rank in environment and world in environment:
            number, count = int(environment[rank]), int(environment[world])
            if count % shards != 0:
                raise usage(f"{world} is {count}: {shards} processes hold one model together (`shards`), so it must be a multiple of that")
            return f"{launch(environment)}-{number // shards}", number % shards
    raise usage(f"no launcher says which of the {shards} shards this process holds: start it by torchrun or srun, or give `replica` and `shard`")


def check_ranks(ranks: int, environment: Mapping[str, str] = os.environ) -> None:
    """Whether this process is one of so many that are one peer together: they are a launch of their own, on one machine."""
    import torch.distributed as dist

    if ranks < 1:
        raise usage(f"a peer has at least one process, not {ranks}")
    if not dist.is_available() or not dist.is_initialized():
        raise usage("the ranks of a peer find each other by torch.distributed: call `init_process_group` before `join`")
    world, here = dist.get_world_size(), int(environment.get("LOCAL_WORLD_SIZE", ranks))
    if world != ranks or here != ranks:
        raise usage(f"{ranks} ranks are one peer (`ranks`), and a launch of their own on one machine: this one has {world} processes, {here} of them here")


def _of_torchrun(environment: Mapping[str, str]) -> str:
    told = [environment.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")]
    return f"torchrun-{zlib.crc32(' '.join(told).encode()):08x}"


def _of_slurm(environment: Mapping[str, str]) -> str:
    return f"slurm-{environment.get('SLURM_JOB_ID', '0')}-{environment.get('SLURM_STEP_ID', '0')}"
