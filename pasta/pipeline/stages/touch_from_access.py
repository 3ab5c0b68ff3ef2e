"""Stage `touch_from_access`: what launches did to memory objects, from their raw accesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.arguments import Bytes
from pasta.pipeline.columns import integers, number_groups, process_key, require, unsigned
from pasta.pipeline.frames import beside, gather, mask, stacked, with_arrays
from pasta.pipeline.kernels.location import locate
from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import distinct, order_by
from pasta.pipeline.kernels.ranges import cut_at, cut_evenly
from pasta.pipeline.stage import WITHIN_PROCESS, Within, stage
from pasta.pipeline.stages.locate import as_objects
from pasta.trace import empty_table

_SPACES = ["global", "shared", "local", "generic", "remote_shared", "texture"]
_READ, _WRITE, _ATOMIC = 0, 1, 2
_TIMES, _MOVED = pl.col("times"), pl.col("times") * pl.col("bytes").cast(pl.Int64)
_COUNTS = {
    "reads": _TIMES * (pl.col("op") == _READ),
    "writes": _TIMES * (pl.col("op") == _WRITE),
    "atomics": _TIMES * (pl.col("op") == _ATOMIC),
    "bytes_read": _MOVED * (pl.col("op") != _WRITE),
    "bytes_written": _MOVED * (pl.col("op") != _READ),
}
"""What accesses add up to: there are many of them, so that none carries its own."""

_ACCESSED = pl.sum_horizontal("reads", "writes", "atomics") > 0
_LENGTH = (pl.col("high") - pl.col("low")).cast(pl.Int64)


def _in_order(rows: pl.LazyFrame, **_arguments: Any) -> pl.LazyFrame:
    launch = process_key(rows, within=["device", "launch_id"])
    return rows.sort(*launch, "space", "object_id", "block", maintain_order=True)


@stage("touch_from_access", within=Within(WITHIN_PROCESS.keys, _in_order), order="own")
def touch_from_access(
    accesses: pl.DataFrame,
    lifetimes: pl.DataFrame,
    kernels: pl.DataFrame,
    *,
    granularity: Bytes = Bytes(512),  # noqa: B008 (a plain integer)
    blocks: bool = False,
    count: str | None = None,
) -> pl.DataFrame:
    """Compute the rows of the table `touch` from those of `access`.

    A granule is `granularity` bytes at a multiple of it. An access belongs, with its bytes, to the
    object that contains its first byte, and marks each granule that it reaches into for the
    object that contains the first byte which it accesses there. Unique bytes of an object are
    those of its bytes that lie in granules marked for it; those of a launch are whole granules.
    Atomics read and write; prefetches do not count. An object is alive at a launch as in `locate`.

    Args:
        accesses: rows of the table `access`.
        lifetimes: objects, as `lifetimes` makes them.
        kernels: the launches, with `launch_id` and `ts`; of one that is absent no object is known.
        granularity: unit in which unique bytes are counted.
        blocks: whether to add a row for each granule of an allocation in which accesses begin;
            `block` is its number less that of the granule in which the allocation begins.
        count: column that says how many equal accesses a row stands for; default one.

    Returns:
        Rows as in the table `touch`, in order of launch, space, object and block. For each launch:
        its totals by space (`global`, `shared`, ...); what it did to each allocation and to each
        tensor; `tensor` object 0, touched in allocations but in no tensor, where the process has
        tensors; and `unknown`, which are global accesses outside of every allocation.

    Raises:
        ConfigError: `granularity` is below 1 byte.

    YAML: `touched: {use: touch_from_access, from: [accesses, lives, kernels], granularity: 4KiB}`
    """
    if granularity <= 0:
        raise ConfigError("granularity", f"must be 1 byte or more, got {granularity}")
    process = process_key(accesses, lifetimes, kernels)
    launches, counted, pieces = _cut(accesses, kernels, process, count, granularity)
    memory = _Memory(launches, process, granularity, _layers(lifetimes))
    owners = {layer: memory.owners(pieces, layer) for layer in memory.layers}
    pieces = with_arrays(pieces, **owners)
    found = [
        _totals(counted, pieces, granularity),
        *(_of_objects(memory, pieces, layer) for layer in memory.layers),
        _outside_tensors(memory, pieces),
        _unknown(pieces),
        *([_of_blocks(memory, pieces)] if blocks else []),
    ]
    return _as_touch(launches, found, granularity)


@dataclass(frozen=True)
class _Memory:
    """The launches, and the objects that may be alive at them.

    Attributes:
        launches: a row for each, with its process and `ts`.
        process: columns that name a process.
        size: bytes of a granule.
        layers: the objects of each layer, in which none that are alive at once overlap.
    """

    launches: pl.DataFrame
    process: list[str]
    size: int
    layers: dict[str, pl.DataFrame]

    def owners(self, pieces: pl.DataFrame, layer: str) -> Any:
        """Return for each piece the row of the object it begins in, -1 where none is known."""
        _, (asking, holding) = number_groups(self.process, self.launches, self.layers[layer])
        launched = integers(pieces, "launch")
        times, began = (
            integers(self.launches, "ts"),
            mask(self.launches, pl.col("ts").is_not_null()),
        )
        objects = as_objects(self.layers[layer], holding)
        found = locate(objects, asking[launched], unsigned(pieces, "low"), times[launched])
        return np.where(began[launched], found, -1)

    def clipped(self, marks: pl.DataFrame, layer: str) -> pl.DataFrame:
        """Add from where (`low`) to where (`high`) each mark's granule lies in its object."""
        objects = self.layers[layer].select("address", "end_address")
        extents = gather(objects, integers(marks, layer))
        low, high = pl.col("granule") * self.size, (pl.col("granule") + 1) * self.size
        return beside(marks, extents).with_columns(
            low=pl.max_horizontal(low, "address"), high=pl.min_horizontal(high, "end_address")
        )

    def named(self, rows: pl.DataFrame, layer: str) -> pl.DataFrame:
        """Replace the number of an object by its space and id."""
        objects = self.layers[layer].select("space", "object_id")
        return beside(rows, gather(objects, integers(rows, layer))).drop(layer)


def _layers(lifetimes: pl.DataFrame) -> dict[str, pl.DataFrame]:
    address = pl.col("address").cast(pl.UInt64)
    ended = lifetimes.with_columns(address, end_address=address + pl.col("bytes").cast(pl.UInt64))
    return {
        "allocation": ended.filter(pl.col("space") != "tensor"),
        "tensor": ended.filter(pl.col("space") == "tensor"),
    }


def _by_launch(
    accesses: pl.DataFrame, kernels: pl.DataFrame, process: list[str], count: str | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the launches with the times at which they began, and their accesses, counted."""
    key = [*process, "launch_id"]
    require(accesses, [*key, "device", "space", "address", "bytes", "op"], "accesses")
    require(kernels, [*key, "ts"], "kernels")
    launches, (numbers,) = number_groups([*process, "device", "launch_id"], accesses)
    began = kernels.group_by(key).agg(pl.col("ts").min())
    launches = launches.join(began, on=key, how="left", maintain_order="left")
    times = pl.lit(1, pl.Int64) if count is None else pl.col(count).cast(pl.Int64)
    rows = with_arrays(accesses, launch=numbers).filter(pl.col("op") <= _ATOMIC)
    return launches, rows.select(
        "launch",
        "space",
        "op",
        "bytes",
        low=pl.col("address"),
        times=times,
    )


def _cut(
    accesses: pl.DataFrame, kernels: pl.DataFrame, process: list[str], count: str | None, size: int
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return the launches, the counts of each by space, and its global accesses cut at granules."""
    launches, rows = _by_launch(accesses, kernels, process, count)
    counted = _counted(rows, ["launch", "space"])
    placed = rows.filter((pl.col("space") == 0) & pl.col("low").is_not_null()).drop("space")
    return launches, counted, _pieces(placed, size)


def _pieces(rows: pl.DataFrame, size: int) -> pl.DataFrame:
    """Cut accesses at granules; an access is counted in its first piece only."""
    low = unsigned(rows, "low")
    cut = cut_evenly(low, low + unsigned(rows, "bytes"), size)
    pieces = with_arrays(gather(rows, cut.rows), start=cut.starts, granule=cut.starts // size)
    times = pl.when(pl.col("start") == pl.col("low")).then("times").otherwise(0)
    return pieces.select("launch", "op", "bytes", "granule", times=times, low="start")


def _totals(counted: pl.DataFrame, pieces: pl.DataFrame, size: int) -> pl.DataFrame:
    marks = _marks(pieces, ["launch", "granule"]).with_columns(bytes=pl.lit(size, pl.Int64))
    unique = _unique(marks, ["launch"]).with_columns(space=pl.lit(0, counted.schema["space"]))
    names = pl.col("space").replace_strict(
        dict(enumerate(_SPACES)), default=None, return_dtype=pl.String
    )
    found = counted.join(unique, on=["launch", "space"], how="left")
    return found.with_columns(names, object_id=pl.lit(0, pl.UInt64))


def _of_objects(memory: _Memory, pieces: pl.DataFrame, layer: str) -> pl.DataFrame:
    held = pieces.filter(pl.col(layer) >= 0)
    marks = memory.clipped(_marks(held, ["launch", layer, "granule"]), layer)
    unique = _unique(marks.with_columns(bytes=_LENGTH), ["launch", layer])
    return memory.named(unique.join(_counted(held, ["launch", layer]), on=["launch", layer]), layer)


def _outside_tensors(memory: _Memory, pieces: pl.DataFrame) -> pl.DataFrame:
    """Return what was touched in allocations but in no tensor, where tensors are known at all."""
    tensors = memory.layers["tensor"]
    first = integers(memory.launches, "launch_id")
    places = array_namespace(first).arange(len(first))
    numbered = with_arrays(memory.launches.select(memory.process), launch=places)
    knowing = numbered.join(tensors, on=memory.process, how="semi").select("launch")
    loose = pieces.filter(pl.col("allocation") >= 0, pl.col("tensor") < 0)
    held = loose.join(knowing, on="launch", how="semi")
    marks = memory.clipped(_marks(held, ["launch", "allocation", "granule"]), "allocation")
    edges = [unsigned(tensors, column) for column in ("address", "end_address")]
    cut = cut_at(unsigned(marks, "low"), unsigned(marks, "high"), distinct(np.concatenate(edges)))
    parts = with_arrays(gather(marks, cut.rows), low=cut.starts, high=cut.ends)
    owned = with_arrays(parts, tensor=memory.owners(parts, "tensor"))
    free = owned.with_columns(bytes=_LENGTH).filter(pl.col("tensor") < 0)
    rows = _unique(free, ["launch"]).join(_counted(held, ["launch"]), on="launch")
    return rows.with_columns(space=pl.lit("tensor"), object_id=pl.lit(0, pl.UInt64))


def _unknown(pieces: pl.DataFrame) -> pl.DataFrame:
    rows = _counted(pieces.filter(pl.col("allocation") < 0), ["launch"]).filter(_ACCESSED)
    return rows.with_columns(space=pl.lit("unknown"), object_id=pl.lit(0, pl.UInt64))


def _of_blocks(memory: _Memory, pieces: pl.DataFrame) -> pl.DataFrame:
    held = pieces.filter(pl.col("allocation") >= 0)
    rows = _counted(held, ["launch", "allocation", "granule"]).filter(_ACCESSED)
    starts = unsigned(memory.layers["allocation"], "address") // memory.size
    first = starts[integers(rows, "allocation")]
    blocks = (unsigned(rows, "granule") - first).astype(np.int64)
    return memory.named(with_arrays(rows.drop("granule"), block=blocks), "allocation")


def _marks(pieces: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    read, written = pl.col("op") != _WRITE, pl.col("op") != _READ
    return pieces.group_by(by).agg(read=read.max(), written=written.max())


def _counted(pieces: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    return pieces.group_by(by).agg(**{name: each.sum() for name, each in _COUNTS.items()})


def _unique(marks: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Sum the `bytes` of the marks of reads, of writes, and of all."""
    return marks.group_by(by).agg(
        unique_read=(pl.col("bytes") * pl.col("read")).sum(),
        unique_written=(pl.col("bytes") * pl.col("written")).sum(),
        unique_bytes=pl.col("bytes").sum(),
    )


def _as_touch(launches: pl.DataFrame, found: list[pl.DataFrame], size: int) -> pl.DataFrame:
    """Return rows with all columns of `touch`, after the trace where the input has it."""
    rows = stacked(found, how="diagonal")
    constants = {"span_id": 0, "block": None, "pc": None}
    missing = [pl.lit(v, pl.Int64).alias(k) for k, v in constants.items() if k not in rows.columns]
    near = pl.col("space").is_in(_SPACES[1:])
    rows = rows.with_columns(*missing, granularity=pl.when(near).then(0).otherwise(size))
    ordered = gather(rows, _order(rows))
    launched = gather(launches.drop("ts"), integers(ordered, "launch"))
    rows = beside(launched, ordered.drop("launch"))
    schema = empty_table("touch").schema
    traces = [name for name in ("trace",) if name in rows.columns]
    return rows.select(*traces, *(pl.col(name).cast(kind) for name, kind in schema.items()))


def _order(rows: pl.DataFrame) -> Any:
    """Return the order of launch, space, object and block, whole objects first."""
    _, (spaces,) = number_groups(["space"], rows)
    objects, blocks = unsigned(rows, "object_id"), integers(rows, "block", -1)
    return order_by(integers(rows, "launch"), spaces, objects, blocks)
