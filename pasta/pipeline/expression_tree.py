"""What a parsed expression is made of, checked against what is allowed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import polars as pl

from pasta.pipeline.sql_functions import (
    AGGREGATE_NODES,
    CASTS,
    CUMULATIVE_NODES,
    FAMILIES,
    FUNCTION_NODES,
)

_OPERANDS = {
    "BinaryExpr": ("left", "right"),
    "Ternary": ("predicate", "truthy", "falsy"),
    "Cast": ("expr",),
    "Over": ("function", "partition_by", "order_by"),
}
_COMBINED: dict[str, Literal["sum", "min", "max"]] = {
    "Sum": "sum",
    "Count": "sum",
    "Len": "sum",
    "Min": "min",
    "Max": "max",
}
_SCALARS = {"String", "Boolean", "Null", "UInt32"}


class Node(NamedTuple):
    """A column, literal, operator or function in an expression.

    Attributes:
        name: what Polars calls it.
        value: the name of a column, the content of a literal, the target of a cast.
        aggregated: whether an aggregate lies around it.
        operands: what it works on, in Polars' own form.
    """

    name: str
    value: Any
    aggregated: bool
    operands: list[Any]


def nodes(expression: pl.Expr) -> Iterator[Node]:
    """Yield the nodes of `expression`, each after those around it.

    Raises:
        RecursionError: it is nested too deeply.
    """
    left: list[tuple[Any, bool]] = [(json.loads(expression.meta.serialize(format="json")), False)]
    while left:
        found = _node(*left.pop())
        yield found
        inside = found.aggregated or found.name in AGGREGATE_NODES
        left += [(operand, inside) for operand in reversed(found.operands)]


def refusal(node: Node) -> str | None:
    """Return what of `node` expressions do not allow, or `None`."""
    if node.name == "Literal":
        kind, inner = next(iter(node.value.items()))
        if kind == "Scalar":
            kind = next(iter(inner))
        return None if kind in _SCALARS | {"Dyn", "Series"} else f"a {kind} literal"
    if node.name == "Cast":
        target = node.value.get("Literal") if isinstance(node.value, dict) else None
        if not isinstance(target, str) or target not in CASTS.values():
            return f"a cast to {json.dumps(target)}; cast to one of {', '.join(CASTS)}"
        return None
    if node.name in {"Column", *_OPERANDS, *AGGREGATE_NODES, *FUNCTION_NODES}:
        return _growth(node)
    return node.name


def _growth(node: Node) -> str | None:
    """Refuse a replacement that is longer than what it replaces: nested, it fills the memory."""
    if node.name != "Replace":
        return None
    texts = [_text(operand) for operand in node.operands[1:]]
    if None in texts or len(texts[1] or "") > len(texts[0] or ""):
        return "replace with a text that is longer, or no literal"
    return None


def _text(operand: Any) -> str | None:
    found = operand.get("Literal", {}).get("Scalar", {}).get("String")
    return found if isinstance(found, str) else None


def is_cumulative(node: Node) -> bool:
    """Tell whether the node's value in a row depends on other rows."""
    return node.name in AGGREGATE_NODES or node.name in CUMULATIVE_NODES or node.name == "Over"


def of_constants(node: Node) -> bool:
    """Tell whether the node is an aggregate that reads no column: engines differ in its value."""
    if node.name not in AGGREGATE_NODES or node.name == "Len":
        return False
    return not any(_expression(operand).meta.root_names() for operand in node.operands)


def partitions(expression: pl.Expr) -> set[str]:
    """Return the columns by which every window partitions that an aggregate of it lies in."""
    found: list[set[str]] = []
    left: list[tuple[Any, set[str]]] = [
        (json.loads(expression.meta.serialize(format="json")), set())
    ]
    while left:
        tree, within = left.pop()
        node = _node(tree, aggregated=False)
        operands = node.operands
        if node.name == "Over":
            by = [part.get("Column") for part in _listed(tree["Over"]["partition_by"])]
            within = {name for name in by if isinstance(name, str)}
        if is_cumulative(node):
            found.append(within)
        left += [(operand, within) for operand in operands]
    return set.intersection(*found) if found else set()


def without_partition(expression: pl.Expr, column: str) -> pl.Expr:
    """Return `expression` with windows that do not partition by a column, unless by no other."""
    return _expression(_unpartitioned(json.loads(expression.meta.serialize(format="json")), column))


def _unpartitioned(tree: Any, column: str) -> Any:
    if isinstance(tree, list):
        return [_unpartitioned(part, column) for part in tree]
    if not isinstance(tree, dict):
        return tree
    found = {key: _unpartitioned(part, column) for key, part in tree.items()}
    if "Over" in found:
        by = found["Over"]["partition_by"]
        rest = [part for part in by if part != {"Column": column}]
        found["Over"] |= {"partition_by": rest or by}
    return found


def conjuncts(expression: pl.Expr) -> list[pl.Expr]:
    """Return the conditions that all have to hold for `expression` to hold."""
    found: list[pl.Expr] = []
    left: list[Any] = [json.loads(expression.meta.serialize(format="json"))]
    while left:
        tree = left.pop()
        binary = tree.get("BinaryExpr") if isinstance(tree, dict) else None
        if binary is not None and binary["op"] in ("And", "LogicalAnd"):
            left += [binary["right"], binary["left"]]
        else:
            found.append(_expression(tree))
    return found


_MIRRORED = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq", "Eq": "Eq"}


def comparison(expression: pl.Expr, column: str) -> tuple[str, int] | None:
    """Return how `expression` compares a column with an integer, or `None` where it does not.

    Returns:
        `Lt`, `LtEq`, `Gt`, `GtEq` or `Eq` as of the column, and the integer.
    """
    tree = json.loads(expression.meta.serialize(format="json"))
    binary = tree.get("BinaryExpr", {}) if isinstance(tree, dict) else {}
    operation, sides = binary.get("op"), [binary.get("left"), binary.get("right")]
    if operation not in _MIRRORED or {"Column": column} not in sides:
        return None
    swapped = sides[1] == {"Column": column}
    value = _expression(sides[0 if swapped else 1])
    if value.meta.root_names() or any(node.name != "Literal" for node in nodes(value)):
        return None
    found = pl.select(value).item()
    whole = isinstance(found, int) and not isinstance(found, bool)
    return (_MIRRORED[operation] if swapped else operation, found) if whole else None


class Aggregate(NamedTuple):
    """An aggregate in an expression.

    Attributes:
        expression: computes it.
        combine: the function that makes one value of those of several parts.
    """

    expression: pl.Expr
    combine: Literal["sum", "min", "max"]


def aggregates(expression: pl.Expr) -> list[Aggregate]:
    """Return the distinct aggregates whose values over parts determine that of `expression`.

    Empty where one of them does not combine, or something else depends on several rows.
    """
    found: list[Any] = []
    tree = json.loads(expression.meta.serialize(format="json"))
    rest = _expression(
        _replaced(tree, lambda part: {"Column": str(_place(found, part))}, _COMBINED)
    )
    if any(is_cumulative(node) for node in nodes(rest)):
        return []
    parts = [_aggregate(part) for part in found]
    within = [sum(map(is_cumulative, nodes(part.expression))) for part in parts]
    return parts if all(count == 1 for count in within) else []


def with_values(expression: pl.Expr, columns: Sequence[str]) -> pl.Expr:
    """Return `expression` with a column in place of each of its aggregates, as `aggregates` lists them."""
    found: list[Any] = []
    tree = json.loads(expression.meta.serialize(format="json"))
    return _expression(
        _replaced(tree, lambda part: {"Column": columns[_place(found, part)]}, _COMBINED)
    )


def counting_rows(expression: pl.Expr) -> pl.Expr:
    """Return `expression` with a count of rows in place of each count of a row's values that are never null.

    Only where the values are added up as well, as a sum that is null of nothing does: so all columns are still read.
    """
    tree = json.loads(expression.meta.serialize(format="json"))
    summed = [node.operands[0] for node in nodes(expression) if node.name == "Sum"]

    def counted(count: Any) -> Any:
        operand = _aggregated(count["Agg"]["Count"])
        if operand not in summed or any(map(is_cumulative, nodes(_expression(operand)))):
            return count
        return "Len" if _is_never_null(operand) else count

    return _expression(_replaced(tree, counted, {"Count"}))


def _is_never_null(tree: Any) -> bool:
    """Tell whether a value cannot be null, whatever the columns hold; of a column that is not known."""
    node = _node(tree, aggregated=False)
    if node.name == "Literal":
        return "Null" not in json.dumps(node.value)
    if node.name == "Ternary":
        return all(map(_is_never_null, node.operands[1:]))
    return node.name == "Coalesce" and any(map(_is_never_null, node.operands))


def _aggregate(tree: Any) -> Aggregate:
    """Return the aggregate at the root of a tree; counts may add up to more than 32 bits hold."""
    name, expression = _aggregate_name(tree), _expression(tree)
    counts = name in ("Len", "Count")
    return Aggregate(expression.cast(pl.Int64) if counts else expression, _COMBINED[name])


def _place(found: list[Any], aggregate: Any) -> int:
    """Return the place of an aggregate among those found so far, where it gets one."""
    if aggregate not in found:
        found.append(aggregate)
    return found.index(aggregate)


def _replaced(tree: Any, replacement: Callable[[Any], Any], names: Container[str]) -> Any:
    """Return a tree with the replacement of each outermost aggregate that has one of the names."""
    if _aggregate_name(tree) in names:
        return replacement(tree)
    if isinstance(tree, list):
        return [_replaced(part, replacement, names) for part in tree]
    if isinstance(tree, dict) and not tree.keys() & {"Column", "Literal"}:
        return {key: _replaced(part, replacement, names) for key, part in tree.items()}
    return tree


def _aggregate_name(tree: Any) -> str:
    if tree == "Len":
        return "Len"
    return next(iter(tree["Agg"])) if isinstance(tree, dict) and "Agg" in tree else ""


def _expression(tree: Any) -> pl.Expr:
    return pl.Expr.deserialize(io.StringIO(json.dumps(tree)), format="json")


def _node(tree: Any, aggregated: bool) -> Node:  # noqa: FBT001 (an item of the stack)
    if tree == "Len":
        return Node("Len", None, aggregated, [])
    if not isinstance(tree, dict) or len(tree) != 1:
        return Node("an unknown construct", None, aggregated, [])
    name, body = next(iter(tree.items()))
    if name in ("Column", "Literal"):
        return Node(name, body, aggregated, [])
    if name == "Agg":
        aggregate, operand = next(iter(body.items()))
        return Node(aggregate, None, aggregated, [_aggregated(operand)])
    if name == "Function":
        return Node(_function(body["function"]), None, aggregated, body["input"])
    if name not in _OPERANDS:
        return Node(name, None, aggregated, [])
    parts = [body[key] for key in _OPERANDS[name]]
    return Node(name, body.get("dtype"), aggregated, [x for part in parts for x in _listed(part)])


def _aggregated(operand: Any) -> Any:
    """Return what an aggregate works on, without its options."""
    if isinstance(operand, list):
        return operand[0]
    return operand.get("input", operand) if isinstance(operand, dict) else operand


def _listed(part: Any) -> list[Any]:
    """Return the expressions of one part of a node; those of an order come with options."""
    if part is None:
        return []
    if not isinstance(part, list):
        return [part]
    return [item for item in part if not (isinstance(item, dict) and "descending" in item)]


def _function(function: Any) -> str:
    """Return the name of a function, which may be wrapped in its family."""
    if isinstance(function, dict):
        name, inner = next(iter(function.items()))
        return _function(inner) if name in FAMILIES else str(name)
    return str(function)
