"""Which files of a trace an input has to read, where filters say which ranks matter.

The folders of other ranks are not opened. What filters say of time, Polars compares with the statistics
of each row group in the files that are left.
"""

from __future__ import annotations

import polars as pl

from pasta.pipeline.expression_tree import conjuncts
from pasta.pipeline.expressions import is_row_wise
from pasta.pipeline.graph import Graph
from pasta.trace import Trace

RANK = "rank"


def rank_conditions(graph: Graph) -> dict[str, pl.Expr]:
    """Return what rows of an input must fulfil to matter, in terms of their rank alone.

    Inputs of which all rows may matter are left out: those that anything but a filter reads.
    """
    found: dict[str, pl.Expr] = {}
    for name in graph.inputs:
        readers = [node for node in graph.nodes.values() if name in node.sources]
        conditions = [
            _of_rank(node.arguments["where"]) if node.stage.name == "filter" else None
            for node in readers
        ]
        known = [condition for condition in conditions if condition is not None]
        if known and len(known) == len(readers):
            found[name] = pl.any_horizontal(known)
    return found


def chosen_ranks(trace: Trace, condition: pl.Expr | None) -> list[int] | None:
    """Return which of the ranks of a trace fulfil a condition; `None`: there is none."""
    if condition is None:
        return None
    ranks = pl.DataFrame({RANK: trace.ranks}, schema={RANK: pl.Int32})
    return ranks.filter(condition)[RANK].to_list()


def _of_rank(where: pl.Expr) -> pl.Expr | None:
    """Return the part of a condition that is about the rank alone."""
    if not is_row_wise(where):
        return None
    parts = [part for part in conjuncts(where) if set(part.meta.root_names()) == {RANK}]
    return pl.all_horizontal(parts) if parts else None
