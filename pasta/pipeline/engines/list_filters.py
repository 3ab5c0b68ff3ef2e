"""Conditions such as `x in (1, 2)` on a Parquet scan, which cudf-polars 26.10 fails on.

Polars gives the values as a column of one list. Where cudf-polars translates the condition for its
Parquet reader, it takes each row of that column for a value, and ends with a TypeError.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import polars as pl


@cache
def mend() -> None:
    """Let cudf-polars, in this process, take the values out of the list first."""
    from cudf_polars.dsl import to_ast
    from cudf_polars.dsl.expressions.boolean import BooleanFunction

    translate = to_ast._to_ast.dispatch(BooleanFunction)  # noqa: SLF001 (it has no other place)
    to_ast._to_ast.register(  # noqa: SLF001
        BooleanFunction, lambda node, transformer: translate(with_values(node), transformer)
    )


def with_values(node: Any) -> Any:
    """Return a node of cudf-polars that asks for the values themselves, if it asks for their list.

    Raises:
        NotImplementedError: there are no values, for which cudf-polars has no translation; it then
            applies the condition after reading.
    """
    from cudf_polars.containers import DataType
    from cudf_polars.dsl.expressions.boolean import BooleanFunction
    from cudf_polars.dsl.expressions.literal import LiteralColumn

    if node.name is not BooleanFunction.Name.IsIn:
        return node
    asked, held = node.children
    if not isinstance(held, LiteralColumn) or not isinstance(held.value.dtype, pl.List):
        return node
    if len(held.value) != 1:  # a list for each row
        return node
    values = held.value.item()
    if not len(values):
        raise NotImplementedError("a condition on no values")
    found = LiteralColumn(DataType(values.dtype), values)
    return BooleanFunction(node.dtype, node.name, node.options, asked, found)
