"""Stage `locate`: the memory object that an address lay in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import integers, number_groups, process_key, require, unsigned
from pasta.pipeline.frames import mask, on_host, with_arrays
from pasta.pipeline.kernels.location import Objects
from pasta.pipeline.kernels.location import locate as search
from pasta.pipeline.stage import PROCESS, Within, stage

_TIMES = np.iinfo(np.int64)


def _keys(given: Mapping[str, Any]) -> Sequence[str]:
    """Return the columns that separate; without `space` a check looks at all lifetimes."""
    by = PROCESS if given["by"] is None else given["by"]
    return by if given["by"] is None or "space" in by else ()


@stage("locate", within=Within(_keys), looks_up=True)
def locate(
    accesses: pl.DataFrame,
    lifetimes: pl.DataFrame,
    *,
    by: list[str] | None = None,
    address: str = "address",
    time: str | None = "ts",
) -> pl.DataFrame:
    """Find the memory object that each address lay in at its time.

    An object holds its addresses from `ts` until `end`; one that began before the trace from the
    start, one that nothing ended until the end, and each no longer than until the next allocation
    of any of its addresses. An address outside of every live object is never given to a neighbour.

    Args:
        accesses: rows with an address.
        lifetimes: objects, as `lifetimes` makes them.
        by: columns that must be equal; default `rank`, `pid`, `device`, `space` (and `trace`
            where both inputs have it).
        address: the column of addresses in `accesses`.
        time: the column of times in `accesses`, ns; null: whenever, and of several objects at an
            address the one that began last counts.

    Returns:
        The rows of `accesses` in their order, with `object_id` (0: no known object), `offset`
        (bytes from the object's start; null: no known object) and `known`. A row whose address
        or time is null has no known object.

    Raises:
        ConfigError: `by` lacks `space` while `lifetimes` holds several, which lie in each other.

    YAML: `held: {use: locate, from: {accesses: accesses, lifetimes: lives}}`
    """
    by = process_key(accesses, lifetimes, within=["device", "space"]) if by is None else by
    found = locate_rows(accesses, lifetimes, by=by, address=address, time=time)
    known = found >= 0
    offset = unsigned(accesses, address) - _at(unsigned(lifetimes, "address"), found)
    ids = np.where(known, _at(unsigned(lifetimes, "object_id"), found), np.uint64(0))
    rows = with_arrays(accesses, object_id=ids, offset=offset.astype(np.int64), known=known)
    return rows.with_columns(offset=pl.when("known").then("offset"))


def locate_rows(
    accesses: pl.DataFrame,
    lifetimes: pl.DataFrame,
    *,
    by: list[str],
    address: str,
    time: str | None,
) -> Any:
    """Return for each access the row of the object it lay in, -1 where none is known.

    Raises:
        ConfigError: a column is absent or of the wrong type, or `by` lacks the space and there are
            several.
    """
    asked = [address] if time is None else [address, time]
    require(accesses, [*by, *asked], "accesses")
    require(lifetimes, [*by, "space", "address", "bytes", "object_id", "ts", "end"], "lifetimes")
    if "space" not in by:
        _check_one_space(lifetimes)
    _, (asking, holding) = number_groups(by, accesses, lifetimes)
    times = None if time is None else integers(accesses, time)
    found = search(as_objects(lifetimes, holding), asking, unsigned(accesses, address), times)
    unknown = mask(accesses, pl.any_horizontal(pl.col(asked).is_null()))
    return np.where(unknown, -1, found)


def _check_one_space(lifetimes: pl.DataFrame) -> None:
    spaces = on_host(lifetimes.select(pl.col("space").unique().sort()))["space"]
    if len(spaces) > 1:
        found = ", ".join(map(str, spaces))
        raise ConfigError(
            "by", f"the lifetimes are of several spaces ({found}): add space, or filter them"
        )


def as_objects(lifetimes: pl.DataFrame, groups: Any) -> Objects:
    """Return the objects of each group of `lifetimes` as arrays."""
    addresses = unsigned(lifetimes, "address")
    sizes = np.minimum(integers(lifetimes, "bytes").astype(np.uint64), ~addresses)
    births = integers(lifetimes, "ts", _TIMES.min)
    return Objects(
        groups, addresses, addresses + sizes, births, integers(lifetimes, "end", _TIMES.max)
    )


def _at(values: Any, rows: Any) -> Any:
    """Return the values of `rows`; what stands for row -1 does not matter."""
    return values[rows] if len(values) else np.zeros_like(values, shape=len(rows))
