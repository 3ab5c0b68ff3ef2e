"""Stage `lifetimes`: allocations from birth to death."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from pasta.pipeline.columns import integers, names, number_groups, process_key, require, unsigned
from pasta.pipeline.frames import gather, mask, with_arrays
from pasta.pipeline.kernels.lifetimes import match, unused_ids
from pasta.pipeline.stage import WITHIN_PROCESS, Within, stage

_NEEDED = ["rank", "pid", "device", "ts", "event", "space", "address", "bytes", "object_id"]
_DETAILS = ["tid", "stream", "stack_id"]
_PLACELESS = "_placeless_object"


def _in_order(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Restore the order of times and places; rows of one place are in order already."""
    order = ["ts", "end", *process_key(rows, within=["device", "space"]), "address", "bytes"]
    return rows.sort(order, maintain_order=True, nulls_last=[name == "end" for name in order])


@stage("lifetimes", within=Within(WITHIN_PROCESS.keys, _in_order), order="own")
def lifetimes(memory: pl.DataFrame) -> pl.DataFrame:
    """Turn allocations and releases into one row for each allocation, from birth to death.

    An allocation lives until its address is released in the same process, device and space; where
    no addresses are recorded, until its object is.

    Args:
        memory: rows of the table `memory`; those without a time, or without both an address and an
            object, do not count.

    Returns:
        `trace` (where the input has it), `rank`, `pid`, `device`, `space`, `address`, `bytes`,
        `object_id`, `ts` (the allocation), `end` (the release), `dur`, three flags, and of `tid`,
        `stream` and `stack_id` those that the input has, as the allocation recorded them.
        Rows are in order of `ts`, unknown first, then `end` and the columns before it.

        - `began_before`: the allocation is not in the trace; `ts` and `dur` are null, and the
          rest is what the release recorded.
        - `open`: nothing ended it; `end` and `dur` are null.
        - `replaced`: what ended it is another allocation at its address, its release is lost.
        - `object_id` is the recorded one; where that is 0, the first ids from 1 on that are free
          in the process and space are given, in the order of rows.

    YAML: `lives: {use: lifetimes, from: memory}`
    """
    require(memory, _NEEDED)
    place = process_key(memory, within=["device", "space"])
    details = [name for name in _DETAILS if name in names(memory)]
    kinds = pl.col("event").is_in(["allocate", "release"])
    placed = pl.col("address").is_not_null()
    events = memory.filter(kinds, placed | (pl.col("object_id") > 0)).drop_nulls(["ts"])
    events = events.with_columns(pl.when(~placed).then("object_id").alias(_PLACELESS))
    allocates = mask(events, pl.col("event") == "allocate")
    _, (places,) = number_groups([*place, "address", _PLACELESS], events)
    events = events.select([*place, "address", "bytes", "object_id", "ts", *details])
    rows = _lives(events, match(places, integers(events, "ts"), allocates), allocates)
    columns = [*place, "address", "bytes", "object_id", "ts", "end", "dur"]
    rows = rows.select([*columns, "began_before", "open", "replaced", *details])
    order = ["ts", "end", *place, "address", "bytes", "object_id"]
    return _number(rows.sort(order, maintain_order=True, nulls_last=[n == "end" for n in order]))


def _lives(events: pl.DataFrame, found: Any, allocates: Any) -> pl.DataFrame:
    """Return a row for each match, from its allocation where there is one, else its release."""
    began, ended = found.allocation >= 0, found.ending >= 0
    by_release = ended & ~allocates[found.ending]
    rows: pl.DataFrame = gather(events, np.where(began, found.allocation, found.ending))
    own, released = unsigned(rows, "object_id"), unsigned(events, "object_id")[found.ending]
    rows = with_arrays(
        rows,
        object_id=np.where(by_release & (own == 0), released, own),
        end=integers(events, "ts")[found.ending],
        began_before=~began,
        open=~ended,
        replaced=ended & ~by_release,
    )
    return rows.with_columns(
        ts=pl.when(~pl.col("began_before")).then("ts"), end=pl.when(~pl.col("open")).then("end")
    ).with_columns(dur=pl.col("end") - pl.col("ts"))


def _number(rows: pl.DataFrame) -> pl.DataFrame:
    """Give an id to each object that has none."""
    keys, (spaces,) = number_groups(process_key(rows, within=["space"]), rows)
    ids = unsigned(rows, "object_id").copy()
    for space in range(keys.height):
        nameless = np.flatnonzero((spaces == space) & (ids == 0))
        ids[nameless] = unused_ids(ids[spaces == space], len(nameless))
    return with_arrays(rows, object_id=ids)
