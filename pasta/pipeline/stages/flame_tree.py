"""Stage `flame_tree`: the tree of a flame graph."""

from __future__ import annotations

from typing import Any, Literal

import polars as pl

from pasta.errors import ConfigError
from pasta.pipeline.columns import check_keys, integers, number_groups, numbers, require
from pasta.pipeline.frames import from_arrays, gather, with_columns_of
from pasta.pipeline.kernels.flames import Stacks, flames
from pasta.pipeline.kernels.namespace import array_namespace
from pasta.pipeline.kernels.ordering import order_by
from pasta.pipeline.kernels.trees import subtree_sums, sums_at, tree
from pasta.pipeline.stage import stage

_NAME, _DEPTH = "name", "# depth"


@stage("flame_tree", order="own")
def flame_tree(
    rows: pl.DataFrame,
    frames: pl.DataFrame,
    *,
    on: list[str],
    values: list[str],
    depth: str = "depth",
    name: str = "symbol",
    order: Literal["merged", "time"] = "merged",
    time: list[str] = [],  # noqa: B006 (never mutated)
    missing: str = "(no stack)",
) -> pl.DataFrame:
    """Add up rows by the call stack that each has: a node for each frame below the frames around it.

    Names are never joined to texts, so that they may hold anything.

    Args:
        rows: what is added up, as samples.
        frames: the frames of the stacks.
        on: columns of integers or texts that name a row's stack in both inputs.
        values: columns of `rows` to add up; nulls count as 0.
        depth: column of `frames`: integers by which those of a stack are ordered, outermost first.
        name: column of `frames`: the name; null is empty.
        order: `merged` adds up equal stacks wherever they are; in `time` a frame is a new node unless the
            last node below its parent has its name, so that the tree reads from left to right.
        time: columns by which rows follow each other, for the order `time`.
        missing: name of the only node of rows whose stack has no frame.

    Returns:
        A row for each node: `node_id` (from 1 on), `parent_id` (0: a root), `depth` (0: a root), `name`; for each value
        its sum over the node and all below it and `own_<value>`, the sum over rows that end there; and `rows`,
        the number of rows of the node and all below it. Nodes are in order of `node_id`: parents first,
        siblings by name, or in `time` as they came.

    Raises:
        ConfigError: a column is absent or of another type; the order is `time` and `time` is empty.

    YAML: `nodes: {use: flame_tree, from: {rows: samples, frames: named}, on: [trace, rank, pid, stack_id], values: [weight]}`
    """
    if order == "time" and not time:
        raise ConfigError("time", "needs at least one column for the order 'time'")
    require(rows, [*on, *values, *time], "rows")
    require(frames, [*on, depth, name], "frames")
    check_keys(rows, time, "time")
    if order == "time":
        rows = rows.sort(time, maintain_order=True)
    named = frames.select(*on, pl.col(depth).alias(_DEPTH), pl.col(name).fill_null("").alias(_NAME))
    names, stacks, of_rows = _stacks(rows, named, on, missing)
    found = flames(stacks, of_rows, in_time=order == "time")
    nested, count, xp = tree(found.parents), len(found.parents), array_namespace(of_rows)
    columns: dict[str, Any] = {
        "node_id": xp.arange(1, count + 1, dtype=xp.uint64),
        "parent_id": (found.parents + 1).astype(xp.uint64),
        "depth": nested.depths.astype(xp.int32),
    }
    amounts = {value: numbers(rows, value) for value in values}
    own = {value: sums_at(found.of_rows, given, count) for value, given in amounts.items()}
    columns |= {value: subtree_sums(nested, given) for value, given in own.items()}
    columns |= {f"own_{value}": given for value, given in own.items()}
    columns["rows"] = subtree_sums(nested, sums_at(found.of_rows, xp.ones_like(of_rows), count))
    nodes = with_columns_of(from_arrays(columns, like=rows), gather(names, found.labels))
    return nodes.select("node_id", "parent_id", "depth", _NAME, *list(columns)[3:])


def _stacks(
    rows: pl.DataFrame, frames: pl.DataFrame, on: list[str], missing: str
) -> tuple[pl.DataFrame, Stacks, Any]:
    """Return the names of frames, the stacks of numbers of names, and the stack of each row."""
    keys, (of_rows, of_frames) = number_groups(on, rows, frames)
    lacking = from_arrays({_NAME: pl.Series([missing])}, like=rows)
    names, (labels, label) = number_groups([_NAME], frames.select(_NAME), lacking)
    xp = array_namespace(of_rows)
    framed = xp.zeros(keys.height, dtype=bool)
    framed[of_frames] = True
    bare = xp.flatnonzero(~framed)
    owners = xp.concatenate([of_frames, bare])
    labels = xp.concatenate([labels, xp.zeros_like(bare) + label[0]])
    depths = xp.concatenate([integers(frames, _DEPTH), xp.zeros_like(bare)])
    order = order_by(owners, depths)
    first = xp.searchsorted(owners[order], xp.arange(keys.height + 1))
    return names, Stacks(first, labels[order]), of_rows
