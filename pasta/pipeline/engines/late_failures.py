"""What cudf-polars 26.10 takes when it translates a plan, and fails on only when it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl


def late_failures(translated: Any) -> list[str]:
    """Return a line for each expression in a plan, as cudf-polars translated it, that would fail.

    Those are a `case` with branches of different types, as Polars casts columns to a common type, but leaves
    numbers as they were written (1 is Int32, 1000000000000 is Int64); and a null that is a list, which becomes
    a column of another type.
    """
    from cudf_polars.dsl.expr import LiteralColumn, Ternary
    from cudf_polars.dsl.traversal import traversal

    found = []
    for expression in _expressions(traversal([translated])):
        kind = expression.dtype.polars_type
        if isinstance(expression, Ternary):
            one, other = (branch.dtype.polars_type for branch in expression.children[1:])
            if one != other:
                found.append(f"a case with branches of types {one} and {other}; cast one")
        if isinstance(expression, LiteralColumn) and expression.value.dtype == pl.Null:
            found.append(f"a column of nulls of type {kind}; leave it out")
    return found


def _expressions(nodes: Iterator[Any]) -> Iterator[Any]:
    """Yield the expressions of nodes of a plan, and those within them."""
    from cudf_polars.dsl.expr import Expr, NamedExpr

    waiting = [getattr(node, name) for node in nodes for name in node._non_child]  # noqa: SLF001
    while waiting:
        value = waiting.pop()
        if isinstance(value, NamedExpr):
            waiting.append(value.value)
        elif isinstance(value, Expr):
            yield value
            waiting += value.children
        elif isinstance(value, (list, tuple)):
            waiting += value
