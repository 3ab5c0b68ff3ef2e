"""Expressions in YAML: a documented subset of SQL's, turned into Polars expressions.

`pl.sql_expr` does the parsing. What it returns is checked against an allow-list of nodes and
functions, so that a tool from an untrusted source can neither read files, nor run a subquery, nor
blow up memory by padding strings. Window functions, integer division (`//`), `case`, `in`,
`between`, `is null`, `~` (regular expression), `starts_with`, `coalesce`, casts and the aggregates
of `AGGREGATES` are in the subset; `docs/reference/expressions.md` lists them all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

import polars as pl

from pasta.errors import ConfigError

MAXIMUM_LENGTH = 2000
"""Longer expressions crash the SQL parser."""

AGGREGATES = {
    "Sum", "Mean", "Min", "Max", "Median", "Count", "NUnique", "First", "Last", "Std", "Var",
    "Quantile", "Len",
}  # fmt: skip
FUNCTIONS = {
    "Abs", "Coalesce", "MaxHorizontal", "MinHorizontal", "Round", "Floor", "Ceil", "Exp", "Log",
    "Log1p", "Pow", "Sqrt", "Sign", "Quantile", "CumSum", "FillNullWithStrategy", "FillNull",
    "Range", "Rank", "Shift", "ShiftAndFill", "NullCount",
    "IsNull", "IsNotNull", "IsIn", "IsBetween", "Not", "IsNan", "IsFinite", "IsInfinite",
    "Any", "All", "AnyHorizontal", "AllHorizontal",
    "Contains", "StartsWith", "EndsWith", "Lowercase", "Uppercase", "LenChars", "LenBytes",
    "Slice", "Find", "Replace", "Concat", "ConcatHorizontal", "ConcatVertical",
    "StripChars", "StripCharsStart", "StripCharsEnd", "Extract",
}  # fmt: skip
_NODES = {
    "Column", "Literal", "BinaryExpr", "Ternary", "Agg", "Function", "Cast", "Alias", "Over",
    "Len", "Filter", "SortBy", "Sort",
}  # fmt: skip
_FAMILIES = {"StringExpr", "Boolean", "Pow", "RollingExpr", "ArrayExpr", "ListExpr"}
_CUMULATIVE = {"CumSum", "FillNullWithStrategy", "Rank", "Shift", "ShiftAndFill", "Range"}
_QUOTED = re.compile(r"('(?:[^']|'')*')")
_DISTINCT = re.compile(r"\s*distinct\b", re.IGNORECASE)
_PARAMETER = re.compile(r"\$([A-Za-z_]\w*)")


@dataclass(frozen=True)
class Measure:
    """An aggregate of a group, and how aggregates of its parts combine.

    Attributes:
        expression: computes it from the rows of a group.
        partials: name suffix -> the piece of state computed from a part of the rows; empty
            where the measure needs all rows at once.
        combine: the aggregate function that merges each piece over parts.
        mean: whether the result is `value / count` of the state.
    """

    expression: pl.Expr
    partials: Mapping[str, pl.Expr] = field(default_factory=dict)
    combine: Literal["sum", "min", "max"] = "sum"
    mean: bool = False

    @property
    def mergeable(self) -> bool:
        """Whether the measure can be computed part by part."""
        return bool(self.partials)

    def partial(self, name: str) -> list[pl.Expr]:
        """Return the state of this measure, called `name`, over a part of the rows."""
        return [piece.alias(f"{name}.{suffix}") for suffix, piece in self.partials.items()]

    def combined(self, name: str) -> list[pl.Expr]:
        """Return the aggregates that merge the state columns of `name` over parts."""
        columns = [pl.col(f"{name}.{suffix}") for suffix in self.partials]
        return [getattr(column, self.combine)() for column in columns]

    def final(self, name: str) -> pl.Expr:
        """Return the measure from its merged state columns."""
        value = pl.col(f"{name}.value")
        if "count" not in self.partials:
            return value.alias(name)
        count = pl.col(f"{name}.count")
        total = value / count if self.mean else value
        return pl.when(count > 0).then(total).otherwise(None).alias(name)


def parse(value: Any, path: str, parameters: Mapping[str, Any]) -> pl.Expr:
    """Turn the YAML scalar `value` into a Polars expression.

    Args:
        value: SQL text, or a number or a truth value.
        path: where it stands in the YAML, for messages.
        parameters: values for `$name`, inserted as escaped literals.
    """
    if isinstance(value, bool | int | float):
        return pl.lit(value)
    if not isinstance(value, str):
        raise ConfigError(path, f"expected an expression, got {value!r}")
    text = substitute(value, path, parameters)
    if len(text) > MAXIMUM_LENGTH:
        raise ConfigError(
            path, f"expression of {len(text)} characters; at most {MAXIMUM_LENGTH}, split it"
        )
    try:
        expression = pl.sql_expr(text)
    except Exception as error:
        raise ConfigError(path, f"cannot read expression '{text}': {error}") from error
    _check_nodes(expression, text, path)
    return expression


def parse_measure(value: Any, path: str, parameters: Mapping[str, Any]) -> Measure:
    """Turn a measure into its expression and, where it has one, its merge.

    Args:
        value: SQL text with an aggregate, as `sum(dur)`, or a named measure that SQL cannot say
            in a form the GPU takes: `{n_unique: column}`, `{quantile: [column, 0.9]}`.
        path: where it stands in the YAML, for messages.
        parameters: values for `$name`.
    """
    if isinstance(value, dict):
        return Measure(_named_measure(value, path, parameters))
    expression = parse(value, path, parameters)
    if not any(name in AGGREGATES for name in _names(expression)):
        raise ConfigError(path, f"'{value}' is no aggregate; write for example sum({value})")
    return _mergeable(expression, str(value), path, parameters)


def is_row_wise(expression: pl.Expr) -> bool:
    """Whether the value in a row depends on that row alone."""
    return not any(
        name in AGGREGATES or name in _CUMULATIVE or name in ("Agg", "Over")
        for name in _names(expression)
    )


def substitute(text: str, path: str, parameters: Mapping[str, Any]) -> str:
    """Replace each `$name` outside quotes by its value as an SQL literal."""

    def literal(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in parameters:
            known = ", ".join(sorted(parameters)) or "none"
            raise ConfigError(path, f"no parameter '{name}'; this tool has: {known}")
        return _literal(parameters[name])

    pieces = _QUOTED.split(text)
    return "".join(
        piece if piece.startswith("'") else _PARAMETER.sub(literal, piece) for piece in pieces
    )


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return format(Decimal(repr(value)), "f")  # the parser reads no exponents
    return "'" + str(value).replace("'", "''") + "'"


def _named_measure(value: dict[str, Any], path: str, parameters: Mapping[str, Any]) -> pl.Expr:
    if len(value) != 1:
        raise ConfigError(path, f"expected one measure, got {sorted(value)}")
    name, operand = next(iter(value.items()))
    if name == "n_unique":
        return parse(operand, f"{path}.n_unique", parameters).n_unique().cast(pl.Int64)
    if name == "quantile":
        if not (isinstance(operand, list) and len(operand) == 2):
            raise ConfigError(f"{path}.quantile", "expected [column, q] with q from 0 to 1")
        share = parameters.get(str(operand[1]).removeprefix("$"), operand[1])
        if not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ConfigError(f"{path}.quantile", f"q must be from 0 to 1, got {share!r}")
        return parse(operand[0], path, parameters).quantile(share, "linear")
    raise ConfigError(path, f"no measure '{name}'. Known: n_unique, quantile.")


def _mergeable(expression: pl.Expr, text: str, path: str, parameters: Mapping[str, Any]) -> Measure:
    """Return `function(operand)` with its merge, or without one where its parts do not combine."""
    match = re.fullmatch(r"\s*(count|sum|min|max|avg|mean)\s*\((.*)\)\s*", text, re.IGNORECASE)
    if match is None or not _is_one_call(match.group(2)) or _DISTINCT.match(match.group(2)):
        return Measure(expression)
    function, operand = match.group(1).lower(), match.group(2).strip()
    if function == "count":
        counted = pl.len() if operand == "*" else parse(operand, path, parameters).count()
        return Measure(expression, {"value": counted.cast(pl.Int64)})
    rows = parse(operand, path, parameters)
    if function == "min":
        return Measure(expression, {"value": rows.min()}, "min")
    if function == "max":
        return Measure(expression, {"value": rows.max()}, "max")
    state = {"value": rows.sum(), "count": rows.count()}
    return Measure(expression, state, mean=function in ("avg", "mean"))


def _is_one_call(operand: str) -> bool:
    """Whether the parentheses in `operand` balance, so that it is one argument list."""
    depth = 0
    for character in _QUOTED.sub("", operand):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0:
            return False
    return depth == 0


def _check_nodes(expression: pl.Expr, text: str, path: str) -> None:
    for name in _names(expression):
        if name not in _NODES | AGGREGATES | FUNCTIONS | _FAMILIES:
            raise ConfigError(path, f"'{text}' uses {name}, which expressions do not allow")


def _names(expression: pl.Expr) -> Iterator[str]:
    """Yield the name of every node and function in `expression`."""
    yield from _walk(json.loads(expression.meta.serialize(format="json")))


def _walk(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
        return
    if not isinstance(node, dict) or len(node) != 1:
        yield "an unknown construct"
        return
    name, body = next(iter(node.items()))
    yield name
    if name in ("Column", "Literal"):
        return
    if name == "Function":
        yield from _function_names(body["function"])
        for operand in body["input"]:
            yield from _walk(operand)
        return
    if name == "Agg":
        aggregate, operand = next(iter(body.items()))
        yield aggregate
        yield from _operands(operand)
        return
    yield from _operands(body)


def _function_names(function: Any) -> Iterator[str]:
    """Yield the name of a function, which may be wrapped in its family."""
    if isinstance(function, str):
        yield function
        return
    family, inner = next(iter(function.items()))
    yield family
    if family in _FAMILIES:
        yield inner if isinstance(inner, str) else next(iter(inner))


def _operands(body: Any) -> Iterator[str]:
    """Walk the expressions below a node, passing over its options."""
    if isinstance(body, list):
        for item in body:
            if isinstance(item, dict):
                yield from _operands_of(item)
        return
    if isinstance(body, dict):
        yield from _operands_of(body)
    elif body == "Len":
        yield "Len"


def _operands_of(body: dict[str, Any]) -> Iterator[str]:
    if len(body) == 1 and next(iter(body))[0].isupper():
        yield from _walk(body)
        return
    for key, value in body.items():
        if key in ("dtype", "options", "op", "include_nulls", "mapping", "interpol", "method"):
            continue
        if value == "Len":
            yield "Len"
        elif isinstance(value, dict | list):
            yield from _operands(value)
