"""Which rank a process is of, as launchers tell by environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

RUN = "PASTA_RUN"
"""Environment variable that names a run where no launcher does."""
_LAUNCHERS = (
    # (rank, local rank, world size): torchrun and accelerate, Slurm, Open MPI, MPICH, MVAPICH
    ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE"),
)
_RUN_IDS = (
    (RUN,),
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("PMIX_NAMESPACE",),
    ("OMPI_MCA_ess_base_jobid",),
    ("PMI_JOBID",),
    ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"),
)
_DIGITS = 9


class Place(NamedTuple):
    """Where a process stands among those that run together."""

    rank: int
    local_rank: int
    world_size: int


def place(environment: Mapping[str, str]) -> Place:
    """Return a process's place; the first launcher whose rank and size make sense is believed."""
    for names in _LAUNCHERS:
        rank, local_rank, world_size = (_number(environment.get(name)) for name in names)
        if rank is not None and world_size is not None and rank < world_size:
            return Place(rank, rank if local_rank is None else local_rank, world_size)
    return Place(0, 0, 1)


def run_id(environment: Mapping[str, str]) -> str | None:
    """Return what all ranks of one run have in common and no other run has; `None`: unknown."""
    for names in _RUN_IDS:
        values = [environment.get(name) for name in names]
        if all(values):
            return f"{names[0]}={'/'.join(map(str, values))}"
    return None


def process_name(pid: int) -> str:
    """Return what tells a process of this machine from all others, those before it too."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        stat = file.read()
    started = stat.rpartition(")")[2].split()[19]
    return f"{os.uname().nodename}/{pid}/{started}"


def _number(text: str | None) -> int | None:
    """Return a count of at most nine digits, which the columns of ranks hold; `None`: it is none."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > _DIGITS:
        return None
    return int(text)
