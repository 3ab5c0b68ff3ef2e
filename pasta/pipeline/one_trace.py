"""A graph of one trace without the column that tells traces apart.

With one trace that column holds one text in all rows. A GPU sorts, groups and joins by texts in slower ways
than by numbers: the column is left out, and added to the rows that are asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from pasta.pipeline.expression_tree import without_partition
from pasta.pipeline.expressions import Measure
from pasta.pipeline.graph import TRACE_COLUMN, Graph, Node

_COLUMN_LISTS = frozenset({"by", "on", "order", "clock", "of", "time", "columns"})
"""Arguments of stages that list columns; other lists hold values."""


class _NeededError(Exception):
    """An argument works with the column."""


@dataclass(frozen=True)
class WithoutTrace:
    """A graph for inputs without the column.

    Attributes:
        graph: its rows are those of the whole graph but for the column.
        needing: nodes whose sources are to have the column where they had it.
    """

    graph: Graph
    needing: frozenset[str]


def without_trace(graph: Graph, names: Iterable[str]) -> WithoutTrace | None:
    """Return the nodes `names` of a graph for inputs without the column.

    `None`: some may have rows with another value or none in it.
    """
    nodes, needing = {name: graph.nodes[name] for name in names}, set()
    for name, node in nodes.items():
        if not _holds_one(graph, node):
            return None
        try:
            given = {key: _without(key, value) for key, value in node.arguments.items()}
            nodes[name] = dataclasses.replace(node, arguments=given)
        except _NeededError:
            needing.add(name)
    return WithoutTrace(dataclasses.replace(graph, nodes=nodes), frozenset(needing))


def with_trace(rows: pl.DataFrame, schema: pl.Schema, trace: str) -> pl.DataFrame:
    """Return rows with the column where `schema`, that of the rows with it, has it."""
    if TRACE_COLUMN not in schema:
        return rows
    return rows.with_columns(pl.lit(trace).alias(TRACE_COLUMN)).select(schema.names())


def _holds_one(graph: Graph, node: Node) -> bool:
    """Tell whether a node's rows have the column from all that they are of and others beside it, or not at all."""
    schema = graph.schemas[node.name]
    if TRACE_COLUMN not in schema:
        return True
    if len(schema) == 1:  # Without it nothing would tell how many rows there are.
        return False
    made = any(_may_make(node, name, value) for name, value in node.arguments.items())
    return not made and all(TRACE_COLUMN in graph.schemas[name] for name in node.followed)


def _may_make(node: Node, name: str, value: Any) -> bool:
    """Tell whether an argument may give rows a column of this name that is another, or of another row."""
    if _is_the_column(value):
        return True
    if name == "columns" and node.kind != "row-wise" and isinstance(value, list | Mapping):
        return TRACE_COLUMN in value
    made = isinstance(value, Mapping) and TRACE_COLUMN in value
    return made and not _is_the_column(value[TRACE_COLUMN])


def _is_the_column(value: Any) -> bool:
    return isinstance(value, str) and value == TRACE_COLUMN


def _without(name: str, value: Any) -> Any:
    """Return the value of an argument without the column.

    Raises:
        _NeededError: it makes no sense then.
    """
    if isinstance(value, pl.Expr):
        return _expression_without(value)
    if isinstance(value, Measure):
        _expression_without(value.expression)
        return value
    if isinstance(value, Mapping):
        return _mapping_without(name, value)
    if _is_the_column(value):
        raise _NeededError
    if not isinstance(value, list) or TRACE_COLUMN not in value:
        return value
    rest = [column for column in value if column != TRACE_COLUMN]
    if name not in _COLUMN_LISTS or not rest:
        raise _NeededError
    return rest


def _mapping_without(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    rest = dict(value)
    if _is_the_column(rest.get(TRACE_COLUMN)):
        del rest[TRACE_COLUMN]
    if TRACE_COLUMN in rest or (value and not rest):
        raise _NeededError
    return {key: _without(name, each) for key, each in rest.items()}


def _expression_without(expression: pl.Expr) -> pl.Expr:
    if TRACE_COLUMN not in expression.meta.root_names():
        return expression
    found = without_partition(expression, TRACE_COLUMN)
    if TRACE_COLUMN in found.meta.root_names():
        raise _NeededError
    return found
