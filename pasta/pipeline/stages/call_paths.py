"""Stage `call_paths`: a tree of calls, one row for each distinct path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from pasta.pipeline.call_paths import NamedPaths, named_paths
from pasta.pipeline.columns import extents, number_groups, numbers, process_key, require, unsigned
from pasta.pipeline.frames import mask, with_arrays
from pasta.pipeline.kernels.enclosure import self_times
from pasta.pipeline.kernels.ordering import rows_with
from pasta.pipeline.kernels.trees import Tree, path_sums, subtree_sums, sums_at, tree
from pasta.pipeline.stage import Within, stage

_RANK = ["trace", "rank"]
_NUMBER, _ABOVE = "# number", "# above"


def _keys(given: Mapping[str, Any]) -> Sequence[str]:
    """Return the columns that keep paths apart, where paths of one text are in their order."""
    return given["by"] if given["by"][:2] == _RANK else ()


def _renumbered(paths: pl.LazyFrame, **_arguments: Any) -> pl.LazyFrame:
    """Number the paths of all ranks in order of their texts; each rank numbered its own."""
    ordered = paths.sort("path", *_RANK, maintain_order=True).with_row_index(_NUMBER, offset=1)
    numbers = ordered.select(
        *_RANK,
        pl.col(_NUMBER).cast(pl.UInt64).alias(_ABOVE),
        parent_path_id="path_id",
    )
    found = ordered.join(numbers, on=[*_RANK, "parent_path_id"], how="left", maintain_order="left")
    return found.with_columns(
        path_id=pl.col(_NUMBER).cast(pl.UInt64), parent_path_id=pl.col(_ABOVE).fill_null(0)
    ).drop(_NUMBER, _ABOVE)


@stage(
    "call_paths",
    within=Within(_keys, _renumbered, renumbers=True),
    order="own",
)
def call_paths(
    rows: pl.DataFrame,
    caused: pl.DataFrame | None = None,
    *,
    values: list[str] = [],  # noqa: B006 (never mutated)
    caused_values: dict[str, str] = {},  # noqa: B006 (never mutated)
    self_time: bool = False,
    by: list[str] = [],  # noqa: B006 (never mutated)
    inside: dict[str, pl.Expr] = {},  # noqa: B006 (never mutated)
    node: str = "span_id",
    parent: str = "parent_id",
    name: str = "name",
) -> pl.DataFrame:
    """Add up a tree of calls by path: one row for each sequence of names from a root.

    Ids count within a process (`rank`, `pid`, and `trace` where it is there); paths of all
    processes are added up, unless `by` keeps them apart. A row whose parent is 0 is a root; of
    rows that are each other's ancestors the first is. If some parents of a
    process are not among the rows, its parents are inferred from the times of spans; other such
    rows are roots.

    Args:
        rows: the nodes, as spans.
        caused: what nodes caused, as kernels, with the node's id; rows of unknown nodes do not
            count.
        values: columns of `rows` to add up; nulls count as 0.
        caused_values: a mapping `new: old` of columns of `caused` to add up.
        self_time: add up `self_ns`, what remains of `dur` without a node's children, too; 0 where
            `dur` is null.
        by: columns that keep paths apart, as `[rank]`.
        inside: a mapping `new: condition` on `by` and the name; the new column tells whether it
            holds for the path or for one above it.
        node: the column of ids.
        parent: the column of parents' ids.
        name: the column of names that make up the path.

    Returns:
        `by`, `path` (names joined as in `step > forward > linear`), `path_id` (from 1 on, in
        order of rows), `parent_path_id` (0: a root), the name, `depth` (0: a root), `calls` (rows
        of the path); for each value its sum over those rows and `total_<value>`, the sum over the
        path and all below it; likewise `self_ns`, and with `caused` the number of its rows,
        `caused`; and `inside`. Rows are in order of `path`, so that each comes before what it calls.

    YAML: `paths: {use: call_paths, from: {rows: spans, caused: kernels}, self_time: true, caused_values: {device_ns: dur}}`
    """
    found = named_paths(rows, node=node, parent=parent, name=name, by=by)
    above = found.paths.parents
    nested = tree(above)
    places, weights = found.paths.of_rows, {value: numbers(rows, value) for value in values}
    if self_time:
        require(rows, ["ts", "dur"], "rows")
        weights["self_ns"] = self_times(found.rows.parents, *extents(rows))
    sums = _sums(places, weights, len(above))
    calls = _count(places, len(above))
    if caused is not None:
        sums |= _caused_sums(found, rows, caused, node, caused_values)
    columns = {
        "parent_path_id": np.append(unsigned(found.labels, "path_id"), np.uint64(0))[above],
        "depth": nested.depths.astype(np.int32),
        "calls": calls,
        **sums,
        **{f"total_{value}": subtree_sums(nested, amounts) for value, amounts in sums.items()},
        **_inside(found.labels, nested, inside),
    }
    leading = [*by, "path", "path_id", "parent_path_id", name]
    rows = with_arrays(found.labels, **columns)
    return rows.select(*leading, *list(columns)[1:]).sort("path_id")


def _inside(labels: pl.DataFrame, nested: Tree, conditions: dict[str, pl.Expr]) -> dict[str, Any]:
    """Tell for each path whether a condition holds for it or for one above it."""
    return {
        new: path_sums(nested, mask(labels, condition).astype(np.int64)) > 0
        for new, condition in conditions.items()
    }


def _sums(places: Any, weights: dict[str, Any], count: int) -> dict[str, Any]:
    return {value: sums_at(places, amounts, count) for value, amounts in weights.items()}


def _count(places: Any, count: int) -> Any:
    return sums_at(places, np.ones_like(places), count)


def _caused_sums(
    found: NamedPaths, rows: pl.DataFrame, caused: pl.DataFrame, node: str, values: dict[str, str]
) -> dict[str, Any]:
    """Add up what the nodes of each path caused."""
    process = process_key(rows, caused)
    require(caused, [*process, node], "caused")
    _, (groups, asking) = number_groups(process, rows, caused)
    ids, wanted = (unsigned(table, node).view(np.int64) for table in (rows, caused))
    causes = rows_with(groups, ids, asking, wanted)
    known = (causes >= 0) & (wanted != 0)
    places, count = found.paths.of_rows[causes[known]], len(found.paths.parents)
    weights = {new: numbers(caused, old)[known] for new, old in values.items()}
    return {"caused": _count(places, count), **_sums(places, weights, count)}
