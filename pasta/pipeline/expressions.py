"""Expressions in YAML: a subset of SQL's, turned into Polars expressions.

The subset is what `sql_functions` lists. `sql_text` checks the text, `pl.sql_expr` parses it, and
`expression_tree` checks what it returned, so that a tool from an untrusted source can neither read
files, nor run a query, nor fill the memory with one expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import polars as pl

from pasta.errors import ConfigError, shown
from pasta.pipeline.expression_tree import (
    Aggregate,
    Node,
    aggregates,
    counting_rows,
    is_cumulative,
    nodes,
    of_constants,
    partitions,
    refusal,
    with_values,
)
from pasta.pipeline.sql_functions import AGGREGATE_NODES
from pasta.pipeline.sql_text import check_text, operands_of, substitute, unusable

_REMEMBERED = 8192
"""Texts of which it is remembered what they say: more than all shipped tools have."""

_DISTINCT = re.compile(r"\s*distinct\b", re.IGNORECASE)


@dataclass(frozen=True)
class Measure:
    """An aggregate of a group, and how aggregates of its parts combine.

    Attributes:
        expression: computes it from the rows of a group.
        parts: the aggregates that it is made of, each a column of the state; empty where the
            measure needs all rows at once.
        mean: whether the result is the first part by the second.
        sums: text -> what it adds up, to be checked against the range of integers.
    """

    expression: pl.Expr
    parts: Sequence[Aggregate] = ()
    mean: bool = False
    sums: Mapping[str, pl.Expr] = field(default_factory=dict)

    @property
    def mergeable(self) -> bool:
        """Whether the measure can be computed part by part."""
        return bool(self.parts)

    def partial(self, name: str) -> dict[str, pl.Expr]:
        """Return the state columns of this measure, called `name`, over a part of the rows."""
        parts = zip(self.columns(name), self.parts, strict=True)
        return {column: part.expression for column, part in parts}

    def combined(self, name: str) -> dict[str, pl.Expr]:
        """Return the aggregates that merge the state columns of `name` over parts."""
        parts = zip(self.columns(name), self.parts, strict=True)
        return {column: getattr(pl.col(column), part.combine)() for column, part in parts}

    def columns(self, name: str) -> list[str]:
        """Return the names of the state columns of this measure, called `name`."""
        return [f"{name}, part {number}" for number in range(len(self.parts))]

    def final(self, name: str, columns: Sequence[str] = ()) -> pl.Expr:
        """Return the measure, called `name`, from its merged state columns, or from others of their values."""
        columns = columns or self.columns(name)
        if not self.mean:
            return with_values(self.expression, columns).alias(name)
        total, count = map(pl.col, columns)
        return pl.when(count > 0).then(total / count).otherwise(None).alias(name)


def parse(value: Any, path: str, parameters: Mapping[str, Any]) -> pl.Expr:
    """Turn the YAML scalar `value` into a Polars expression.

    Args:
        value: SQL text, or a number or a truth value.
        path: where it stands in the YAML, for messages.
        parameters: values for `$name`, inserted as escaped literals.

    Raises:
        ConfigError: it is no expression, or uses what expressions do not allow.
    """
    if isinstance(value, bool | int | float):
        if (problem := unusable(value)) is not None:
            raise ConfigError(path, problem)
        return pl.lit(value)
    if not isinstance(value, str):
        raise ConfigError(path, f"expected an expression, got {shown(value)}")
    text = substitute(value, path, parameters)
    try:
        return _read(text)[0]
    except ConfigError as error:
        raise error.within(path) from error


def parse_measure(value: Any, path: str, parameters: Mapping[str, Any]) -> Measure:
    """Turn a measure into its expression and, where it has one, its merge.

    Args:
        value: SQL text in which every column is inside an aggregate, as `sum(dur)`, or a named
            measure that SQL cannot say in a form the GPU takes: `{n_unique: column}`,
            `{quantile: [column, 0.9]}`.
        path: where it stands in the YAML, for messages.
        parameters: values for `$name`.

    Raises:
        ConfigError: it is no measure.
    """
    if isinstance(value, dict):
        return Measure(_named_measure(value, path, parameters))
    parse(value, path, parameters)
    text = substitute(str(value), path, parameters)
    found = _read(text)[1]
    if not any(node.name in AGGREGATE_NODES for node in found):
        raise ConfigError(path, f"'{value}' is no aggregate; write for example sum({value})")
    for node in found:
        if node.name == "Over":
            raise ConfigError(path, f"'{value}' has a window (over); use it in a stage derive")
        if of_constants(node):
            raise ConfigError(path, f"'{value}' has an aggregate of a constant; for rows, count(*)")
        if node.name == "Column" and not node.aggregated:
            name = node.value
            raise ConfigError(
                path, f"column '{name}' of '{value}' is in no aggregate; write min({name}) or group"
            )
    return _mergeable(text)


def is_row_wise(expression: pl.Expr) -> bool:
    """Whether the value in a row depends on that row alone."""
    return not any(is_cumulative(node) for node in nodes(expression))


def window_keys(expressions: Iterable[pl.Expr]) -> set[str]:
    """Return the columns within which rows affect each other's values: all windows partition by them.

    Empty where some value depends on rows of no partition. Of expressions that are row-wise,
    nothing can be said.
    """
    found = [partitions(expression) for expression in expressions if not is_row_wise(expression)]
    return set.intersection(*found) if found else set()


def _named_measure(value: dict[str, Any], path: str, parameters: Mapping[str, Any]) -> pl.Expr:
    if len(value) != 1:
        raise ConfigError(path, f"expected one measure, got {shown(value)}")
    name, operand = next(iter(value.items()))
    if name == "n_unique":
        return parse(operand, f"{path}.n_unique", parameters).n_unique().cast(pl.Int64)
    if name == "quantile":
        if not (isinstance(operand, list) and len(operand) == 2):
            raise ConfigError(f"{path}.quantile", "expected [column, q] with q from 0 to 1")
        share = _share(operand[1], f"{path}.quantile", parameters)
        return parse(operand[0], path, parameters).quantile(share, "linear")
    raise ConfigError(path, f"no measure {shown(name)}. Known: n_unique, quantile.")


def _share(value: Any, path: str, parameters: Mapping[str, Any]) -> float:
    """Return the q of a quantile: a number, or `$name` of a parameter."""
    named = ""
    if isinstance(value, str) and value.startswith("$"):
        name = value[1:]
        if name not in parameters:
            known = ", ".join(sorted(parameters)) or "none"
            raise ConfigError(path, f"no parameter '{name}'; this tool has: {known}")
        value, named = parameters[name], f" (the value of parameter '{name}')"
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ConfigError(path, f"q must be from 0 to 1, got {shown(value)}{named}")
    return float(value)


@lru_cache(maxsize=_REMEMBERED)
def _mergeable(text: str) -> Measure:
    """Return a measure with the aggregates that it is made of, where their values combine."""
    expression = counting_rows(_read(text)[0])
    sums = {operand: _read(operand)[0] for operand in operands_of("sum", text)}
    match = re.fullmatch(r"\s*avg\s*\((.*)\)\s*", text, re.IGNORECASE | re.DOTALL)
    if match is None or list(operands_of("avg", text))[:1] != [match[1].strip()]:
        return Measure(expression, aggregates(expression), sums=sums)
    operand = match[1].strip()
    rows = _read(operand)[0]
    if _DISTINCT.match(match[1]) or not is_row_wise(rows):
        return Measure(expression, sums=sums)
    parts = aggregates(rows.cast(pl.Float64).sum() + rows.count())
    return Measure(expression, parts, mean=True)


@lru_cache(maxsize=_REMEMBERED)
def _read(text: str) -> tuple[pl.Expr, Sequence[Node]]:
    """Return the expression that a text says, and its nodes; tools say much alike, which is read once."""
    check_text(text, "")
    try:
        expression = pl.sql_expr(text)
    except Exception as error:
        raise ConfigError("", f"cannot read expression '{text}': {_one_line(error)}") from error
    try:
        found = tuple(nodes(expression))
    except RecursionError as error:
        raise ConfigError("", "nested too deeply; split it") from error
    refused = next((problem for node in found if (problem := refusal(node)) is not None), None)
    if refused is not None:
        raise ConfigError("", f"'{text}' uses {refused}, which expressions do not allow")
    return expression, found


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
