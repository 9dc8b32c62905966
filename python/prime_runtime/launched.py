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


def _of_torchrun(environment: Mapping[str, str]) -> str:
    told = [environment.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")]
    return f"torchrun-{zlib.crc32(' '.join(told).encode()):08x}"


def _of_slurm(environment: Mapping[str, str]) -> str:
    return f"slurm-{environment.get('SLURM_JOB_ID', '0')}-{environment.get('SLURM_STEP_ID', '0')}"
