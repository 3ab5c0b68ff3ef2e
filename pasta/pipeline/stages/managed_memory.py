"""Stage `managed_memory`: what moves between host and device where memory is managed."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.arguments import Bytes
from pasta.pipeline.columns import frame, integers, number_groups, require, unsigned
from pasta.pipeline.frames import mask
from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import changes, group_sums, order_by
from pasta.pipeline.kernels.paging import Moves, Uses, move
from pasta.pipeline.kernels.ranges import cut_evenly
from pasta.pipeline.stage import Within, stage

_MOST_PAGES = 64
_AT_ONCE = 2
"""Groups that are followed beside each other on processors; each takes a dozen arrays of its uses."""

_BEYOND, _LARGEST = 1 << 57, 1 << 42
_SUMS = (
    "faults", "fault_bytes", "prefetch_bytes", "new_bytes", "evictions", "bytes_out", "wasted_bytes",
    "fitting_faults", "fitting_bytes",
)  # fmt: skip


def _in_order(
    rows: pl.LazyFrame, *, by: list[str], policy: str, order: list[str], **_arguments: Any
) -> pl.LazyFrame:
    return rows.sort(*by, policy, *order, maintain_order=True)


def _needed(given: Mapping[str, Any]) -> list[str]:
    return ["address", "bytes", "prefetch", "held", *given["by"], given["policy"], *given["order"]]


@stage(
    "managed_memory",
    within=Within(lambda given: given["by"], _in_order),
    order="own",
    needs=_needed,
)
def managed_memory(
    uses: pl.DataFrame,
    *,
    by: list[str],
    policy: str,
    order: list[str],
    memory: Bytes = Bytes(0),  # noqa: B008 (a plain integer)
    oversubscription: float = 1.0,
    page: Bytes = Bytes(65536),  # noqa: B008 (a plain integer)
    block: Bytes = Bytes(2097152),  # noqa: B008 (a plain integer)
) -> pl.DataFrame:
    """Simulate the managed memory of devices: page faults, prefetches and evictions, step by step.

    A page that is used and is not in the memory faults, or is moved ahead by a prefetch. It comes
    from the host if it was on the device before, or `held` data before; else it is new, and nothing
    moves. A block goes, with those of its pages that are there, when its place is needed and no
    other was used longer ago. Of one step the prefetches come first; blocks in order of addresses.

    Args:
        uses: rows with `address`, `bytes`, `prefetch` and `held` (both bool) and the columns that the
            arguments name; those whose range is empty, unknown or beyond what a device has (57 bits
            of addresses, 4 TiB) do not count.
        by: columns that name a device.
        policy: column that names what is simulated apart, with the same memory.
        order: columns that tell a device's steps apart and in which order they come, the first of
            which weighs most; nulls come first.
        memory: size of the memory, in whole blocks, at least one; 0: as `oversubscription` says.
        oversubscription: the blocks of the device that are used, not only prefetched, under any
            policy, divided by those that its memory holds.
        page: what is moved in at once; at most 64 in a block.
        block: what is evicted at once.

    Returns:
        A row for each step of a policy, with `by`, `policy` and `order`, in their order, and:
        `used_bytes` (the blocks of the device that are used), `memory_bytes`, `faults`,
        `fault_bytes`, `prefetch_bytes` (moved in from the host), `new_bytes` (pages that begin to
        exist), `evictions`, `bytes_out`, `wasted_bytes` (prefetched and evicted unused), and what
        would be with room for all: `fitting_faults` and `fitting_bytes` (moved in).

    Raises:
        ConfigError: `block` is not 1 to 64 pages, `memory` is negative, or `oversubscription` is
            not positive.

    YAML: `{use: managed_memory, from: uses, by: [trace, rank, pid, device], policy: policy, order: [ts, launch_id], memory: 40GB}`
    """
    require(uses, ["address", "bytes", "prefetch", "held", policy, *by, *order])
    if page <= 0 or block % page or block // page > _MOST_PAGES:
        raise ConfigError(
            "block", f"must be 1 to {_MOST_PAGES} times a page of {page} bytes, got {block}"
        )
    if memory < 0:
        raise ConfigError("memory", f"must be 0 or more bytes, got {memory}")
    if not oversubscription > 0:
        raise ConfigError("oversubscription", f"must be above 0, got {oversubscription}")
    counts = (pl.col("address") < _BEYOND) & pl.col("bytes").is_between(1, _LARGEST)
    known = uses if bool(mask(uses, counts).all()) else uses.filter(counts)
    keys, (steps,) = number_groups([*by, policy, *order], known)
    _, (devices,) = number_groups(by, known)
    walk = _walk(known, steps, devices, [*by, policy], page=page, block=block)
    held = memory // block if memory else np.ceil(walk.used / oversubscription).astype(np.int64)
    xp = array_namespace(steps)
    capacities = xp.maximum(xp.zeros_like(walk.used) + xp.asarray(held), 1)
    sums = _by_step(walk.uses, walk.steps, capacities[walk.devices], keys.height, page)
    of_step = xp.zeros(keys.height, dtype=xp.int64)
    of_step[steps] = devices
    sizes = {"used_bytes": walk.used[of_step] * block, "memory_bytes": capacities[of_step] * block}
    return frame(keys, xp.arange(keys.height), {**sizes, **sums})


class _Walk(NamedTuple):
    """The order in which blocks are used.

    Attributes:
        uses: of blocks, step by step, the prefetches of each first.
        steps: the step of each use.
        devices: the device of each group of uses.
        used: how many blocks of each device are used.
    """

    uses: Uses
    steps: Any
    devices: Any
    used: Any


def _walk(
    known: pl.DataFrame, steps: Any, devices: Any, group_by: list[str], *, page: int, block: int
) -> _Walk:
    _, (groups,) = number_groups(group_by, known)
    rows, blocks, pages = _pages(known, page, block)
    prefetches = mask(known, pl.col("prefetch"))
    used = _used_blocks(devices[rows], blocks, ~prefetches[rows])
    xp = array_namespace(steps)
    chosen = order_by(steps[rows], (~prefetches[rows]).astype(xp.int64), blocks)
    rows = rows[chosen]
    of_group = xp.zeros(int(groups.max()) + 1 if len(groups) else 0, dtype=xp.int64)
    of_group[groups] = devices
    uses = Uses(
        groups[rows],
        blocks[chosen],
        pages[chosen],
        prefetches[rows],
        mask(known, pl.col("held"))[rows],
    )
    return _Walk(uses, steps[rows], of_group, used)


def _pages(uses: pl.DataFrame, page: int, block: int) -> tuple[Any, Any, Any]:
    """Return for each block of each use the row of the use, the block, and the mask of its pages."""
    starts = unsigned(uses, "address")
    cut = cut_evenly(starts, starts + integers(uses, "bytes").astype(starts.dtype), block)
    blocks = cut.starts // block
    full, whole = starts.dtype.type(2**64 - 1), starts.dtype.type(_MOST_PAGES - 1)
    first, last = cut.starts % block // page, (cut.ends - 1) % block // page
    return cut.rows, blocks.astype(np.int64), (full >> (whole - last)) & (full << first)


def _used_blocks(devices: Any, blocks: Any, used: Any) -> Any:
    """Return how many blocks of each device are used."""
    xp = array_namespace(devices)
    count = int(devices.max()) + 1 if len(devices) else 0
    devices, blocks = devices[used], blocks[used]
    order = order_by(devices, blocks)
    new = changes(devices[order], blocks[order])
    return group_sums(devices[order], new.astype(xp.int64), count)


def _by_step(uses: Uses, steps: Any, capacities: Any, count: int, page: int) -> dict[str, Any]:
    """Follow the uses of each group, and sum up what each step causes, in bytes."""
    xp = array_namespace(steps)
    sums = {name: xp.zeros(count, dtype=xp.int64) for name in _SUMS}
    edges = [*xp.flatnonzero(changes(uses.groups)).tolist(), len(steps)]

    def follow(begin: int, end: int) -> None:
        own = Uses(*(values[begin:end] for values in uses))
        first, last = int(steps[begin]), int(steps[end - 1])
        found = _sums(move(own, capacities), own.prefetches, steps[begin:end] - first, page)
        for name, values in found.items():
            sums[name][first : last + 1] = values

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        # The arrays of a device belong to the thread that made them.
        each = pool.map if xp.__name__ == "numpy" else map
        for _ in each(follow, edges, edges[1:]):
            pass  # It raises here what a thread has raised.
    return sums


def _sums(moves: Moves, prefetches: Any, steps: Any, page: int) -> dict[str, Any]:
    """Sum over the uses of each step, from 0 on; pages become bytes."""
    xp = array_namespace(steps)
    count = int(steps[-1]) + 1

    def summed(amounts: Any, of: Any) -> Any:
        return group_sums(steps, xp.where(of, amounts, 0), count)

    used, anyhow = ~prefetches, xp.ones(len(steps), dtype=bool)
    return {
        "faults": summed(moves.absent, used),
        "fault_bytes": summed(moves.moved, used) * page,
        "prefetch_bytes": summed(moves.moved, prefetches) * page,
        "new_bytes": summed(moves.absent - moves.moved, anyhow) * page,
        "evictions": summed(moves.evictions, anyhow),
        "bytes_out": summed(moves.out, anyhow) * page,
        "wasted_bytes": summed(moves.wasted, anyhow) * page,
        "fitting_faults": summed(moves.first, used),
        "fitting_bytes": summed(moves.first_moved, anyhow) * page,
    }
