"""Which files of a trace an input has to read, where filters say which ranks and times matter.

The folders of other ranks are not opened. What filters say of time, Polars compares with the statistics
of each row group in the files that are left; who cuts them into shards does so before.
"""

from __future__ import annotations

import polars as pl

from pasta.pipeline.expression_tree import comparison, conjuncts
from pasta.pipeline.expressions import is_row_wise
from pasta.pipeline.graph import Graph
from pasta.trace import Trace

RANK = "rank"
TIME = "ts"

Bounds = tuple[float, float]
"""First and last moment, both of them in it."""


def rank_conditions(graph: Graph) -> dict[str, pl.Expr]:
    """Return what rows of an input must fulfil to matter, in terms of their rank alone.

    Inputs of which all rows may matter are left out: those that anything but a filter reads.
    """
    found: dict[str, pl.Expr] = {}
    for name in graph.inputs:
        conditions = [_of_rank(where) for where in _filters(graph, name)]
        known = [condition for condition in conditions if condition is not None]
        if known and len(known) == len(conditions):
            found[name] = pl.any_horizontal(known)
    return found


def time_bounds(graph: Graph) -> dict[str, Bounds]:
    """Return for each input the times between which rows of it matter; all, where nothing says."""
    found = {}
    for name in graph.inputs:
        bounds = [_of_time(where) for where in _filters(graph, name)] or [_of_time(pl.lit(True))]  # noqa: FBT003
        found[name] = (min(low for low, _ in bounds), max(high for _, high in bounds))
    return found


def chosen_ranks(trace: Trace, condition: pl.Expr | None) -> list[int] | None:
    """Return which of the ranks of a trace fulfil a condition; `None`: there is none."""
    if condition is None:
        return None
    ranks = pl.DataFrame({RANK: trace.ranks}, schema={RANK: pl.Int32})
    return ranks.filter(condition)[RANK].to_list()


def _filters(graph: Graph, name: str) -> list[pl.Expr]:
    """Return the condition of each node that reads an input: true where that is no filter."""
    return [
        node.arguments["where"] if node.stage.name == "filter" else pl.lit(True)  # noqa: FBT003
        for node in graph.nodes.values()
        if name in node.sources
    ]


def _of_time(where: pl.Expr) -> Bounds:
    """Return between which times a condition holds at most."""
    low, high = float("-inf"), float("inf")
    for part in conjuncts(where) if is_row_wise(where) else ():
        operation, moment = comparison(part, TIME) or ("", 0)
        if operation in ("Gt", "GtEq", "Eq"):
            low = max(low, moment + (operation == "Gt"))
        if operation in ("Lt", "LtEq", "Eq"):
            high = min(high, moment - (operation == "Lt"))
    return low, high


def _of_rank(where: pl.Expr) -> pl.Expr | None:
    """Return the part of a condition that is about the rank alone."""
    if not is_row_wise(where):
        return None
    parts = [part for part in conjuncts(where) if set(part.meta.root_names()) == {RANK}]
    return pl.all_horizontal(parts) if parts else None
