"""Replay the prefetches that `uvm_advisor` plans, in managed memory, where everything fits.

    import pasta.collect.torch_prefetch

    with pasta.collect.torch_prefetch.replay("results/plan.parquet", "with-plan") as recorder:
        train()

Managed memory never takes more than is free on the device: a plan that needs more is refused, and so is an
allocation beyond. See docs/collectors/uvm_prefetch.md.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pasta.collect.target.cuda_driver import CudaDriver, CudaError
from pasta.collect.target.ranks import place
from pasta.collect.target.torch.managed import use_managed_memory
from pasta.collect.target.torch.prefetch import Plan, Prefetcher
from pasta.collect.torch import Recorder, record
from pasta.errors import CollectError

if TYPE_CHECKING:
    import polars as pl

SHARE = 0.9
"""Of the device's free memory, how much managed memory may take."""

_COLUMNS = ("rank", "pid", "device", "granularity", "advice", "operator", "occurrence", "place", "object_id", "bytes")  # fmt: skip


@dataclass(frozen=True)
class ReadPlan:
    """The prefetches of one process.

    Attributes:
        calls: what to prefetch before which call of which operator.
        device: of the tensors; -1: the host.
        peak_bytes: most bytes of tensors between their first and last use in the plan, at one time.
    """

    calls: Plan
    device: int
    peak_bytes: int


def read_plan(path: str | Path, *, rank: int = 0) -> ReadPlan:
    """Read the prefetches by tensor of a plan that `uvm_advisor` wrote.

    Args:
        path: the table `plan`, a Parquet file.
        rank: the rank whose prefetches are read.

    Raises:
        CollectError: it is no such file, or has no prefetch of that rank, or those of several
            processes or devices.
    """
    import polars as pl

    try:
        rows = pl.read_parquet(path, columns=list(_COLUMNS))
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = str(error).splitlines()[0]
        raise CollectError(
            f"{path}: no plan of uvm_advisor ({reason}); make one: pasta run uvm_advisor --out DIR"
        ) from error
    rows = rows.filter(granularity="tensor", advice="prefetch", rank=rank).sort(
        "place", "object_id"
    )
    if rows.is_empty():
        raise CollectError(
            f"{path}: has no prefetch of tensors on rank {rank}; record with: pasta collect --with"
            " torch:touch"
        )
    if rows.select("pid", "device").n_unique() > 1:
        raise CollectError(
            f"{path}: has several processes or devices of rank {rank}; one is needed"
        )
    calls = rows.group_by("operator", "occurrence").agg("object_id")
    return ReadPlan(
        {(name, int(call)): ids for name, call, ids in calls.iter_rows()},
        int(rows["device"][0]),
        _peak_bytes(rows),
    )


def _peak_bytes(rows: pl.DataFrame) -> int:
    """Return the most bytes of objects between their first and last place, at one place."""
    import polars as pl

    objects = rows.group_by("object_id").agg(
        pl.col("place").min().alias("first"), pl.col("place").max() + 1, pl.col("bytes").max()
    )
    changes = pl.concat(
        [
            objects.select(at="first", change="bytes"),
            objects.select(at="place", change=-pl.col("bytes")),
        ]
    )
    held = changes.group_by("at").agg(pl.col("change").sum()).sort("at")["change"].cum_sum()
    return int(held.max() or 0)  # type: ignore[arg-type]


def check_fits(plan: ReadPlan, free: int) -> int:
    """Return how many bytes managed memory may take of those that are `free`.

    Raises:
        CollectError: the plan needs more.
    """
    limit = int(SHARE * free)
    if plan.peak_bytes > limit:
        raise CollectError(
            f"the plan holds {plan.peak_bytes:,} bytes at once, but of the {free:,} bytes free on"
            f" device {plan.device} managed memory may take {limit:,}; use a smaller batch"
        )
    return limit


@contextlib.contextmanager
def replay(plan: str | Path | None, name: str, out: str | Path | None = None) -> Iterator[Recorder]:
    """Record the block at level `touch` in managed memory, with the prefetches of a plan.

    It comes before the program's first use of CUDA: PyTorch's allocator is changed for the rest of the
    process.

    Args:
        plan: the table `plan` of `uvm_advisor`, a Parquet file; `None`: managed memory without prefetches,
            to compare with.
        name: name of the run, as of `pasta.collect.torch.record`.
        out: folder of the trace, likewise.

    Yields:
        The recorder.

    Raises:
        CollectError: the plan cannot be read, is of the host, or does not fit; or memory cannot be
            managed here.
    """
    here = place(os.environ)
    read = read_plan(plan, rank=here.rank) if plan else ReadPlan({}, here.local_rank, 0)
    if read.device < 0:
        raise CollectError(f"{plan}: is of tensors in host memory; record the plan's run on a GPU")
    try:
        driver = CudaDriver(_current_stream)
        use_managed_memory(check_fits(read, driver.free_bytes(read.device)))
    except (CudaError, RuntimeError) as error:
        raise CollectError(f"replay({name!r}): memory cannot be managed: {error}") from error
    with record(name, out) as recorder:
        prefetcher = Prefetcher(read.calls, driver, read.device, recorder.session)
        recorder.listen(prefetcher)
        try:
            yield recorder
        finally:
            prefetcher.finish()


def _current_stream(device: int) -> int:
    import torch

    stream: int = torch.cuda.current_stream(device).cuda_stream
    return stream
