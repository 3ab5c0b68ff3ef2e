"""Stage `operator_flops`: what shapes tell of the work of an operator."""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from pasta.pipeline.columns import require
from pasta.pipeline.stage import stage

_PRECISIONS = {
    "fp64": (8, ("float64", "double")),
    "fp32": (4, ("float32", "float")),
    "fp16": (2, ("float16", "half", "c10::Half")),
    "bf16": (2, ("bfloat16", "c10::BFloat16")),
    "fp8": (1, ("float8_e4m3fn", "float8_e5m2", "c10::Float8_e4m3fn", "c10::Float8_e5m2")),
}
_SIZES = {name: size for size, names in _PRECISIONS.values() for name in names}
_NAMES = {name: precision for precision, (_, names) in _PRECISIONS.items() for name in names}
_BACKWARD_OF_ATTENTION = 2.5
"""Five products of matrices where forward has two, of which one is made anew (FlashAttention)."""


@dataclass(frozen=True)
class _Rule:
    """What operators of some names do.

    Attributes:
        names: regular expression that their whole names match.
        operand: the input whose type is that of the work.
        flops: from shapes; a multiplication and an addition are two.
        elements: elements of the operands and of the result.
    """

    names: str
    operand: int
    flops: pl.Expr
    elements: pl.Expr


_INPUTS, _AXES = range(4), (0, -1, -2)


def _count(place: int) -> pl.Expr:
    """Return the number of elements of an input."""
    return pl.col(f"# count {place}")


def _size(place: int, axis: int) -> pl.Expr:
    """Return the size of an input along an axis."""
    return pl.col(f"# size {place} {axis}")


def _with_sizes(operators: pl.LazyFrame) -> pl.LazyFrame:
    """Add counts and sizes of the first inputs of what `counts`, which few of all operators do.

    Null where there is no such input, NaN where it is no tensor.
    """
    shapes_told = pl.when("counts").then("input_shapes")
    sizes = pl.element().cast(pl.Float64, strict=False).fill_null(math.nan)
    shapes = {
        f"# shape {place}": shapes_told.list.get(place, null_on_oob=True)
        .str.split("x")
        .list.eval(sizes)
        for place in _INPUTS
    }
    counts = {
        f"# count {place}": pl.col(f"# shape {place}")
        .list.eval(pl.element().product())
        .list.first()
        for place in _INPUTS
    }
    along = {
        f"# size {place} {axis}": pl.col(f"# shape {place}").list.get(axis, null_on_oob=True)
        for place in _INPUTS
        for axis in _AXES
    }
    return operators.with_columns(**shapes).with_columns(**counts, **along)


def _product(names: str, left: int) -> _Rule:
    """Return the rule of a product of matrices, the inputs `left` and the one after it."""
    rows = _count(left) / _size(left, -1)
    columns = _size(left + 1, -1)
    flops = 2 * _count(left) * columns
    return _Rule(names, left, flops, _count(left) + _count(left + 1) + rows * columns)


def _vector_product(names: str, left: int) -> _Rule:
    flops = 2 * _count(left)
    return _Rule(names, left, flops, _count(left) + _count(left + 1))


def _attention(names: str, query: int, times: float) -> _Rule:
    """Return the rule of attention; masks do not make it less."""
    rows = _count(query) / _size(query, -1)
    keys, width = _size(query + 1, -2), _size(query, -1) + _size(query + 2, -1)
    flops = times * 2 * rows * keys * width
    elements = _count(query) + _count(query + 1) + _count(query + 2) + rows * _size(query + 2, -1)
    return _Rule(names, query, flops, times * elements)


def _convolution(names: str, outputs: pl.Expr, inputs: int, times: int) -> _Rule:
    """Return the rule of a convolution: each output is a product with one filter."""
    weight = inputs + 1
    flops = times * 2 * outputs * _count(weight) / _size(weight, 0)
    return _Rule(names, inputs, flops, times * (outputs + _count(inputs) + _count(weight)))


def _rules(written: pl.Expr) -> list[_Rule]:
    return [
        _product(r"aten::(mm|bmm|_scaled_mm)", 0),
        _product(r"aten::(addmm|baddbmm|addbmm)_?", 1),
        _vector_product(r"aten::(mv|dot|vdot)", 0),
        _vector_product(r"aten::addmv_?", 1),
        _attention(r"aten::_?scaled_dot_product_(\w+_)?attention(_for_cpu)?", 0, 1),
        _attention(
            r"aten::_scaled_dot_product_(\w+_)?attention(_for_cpu)?_backward",
            1,
            _BACKWARD_OF_ATTENTION,
        ),
        _convolution(r"aten::(cudnn_|mkldnn_|miopen_)?convolution(_overrideable)?", written, 0, 1),
        _convolution(r"aten::convolution_backward", _count(0), 1, 2),
    ]


@stage("operator_flops", row_wise=True)
def operator_flops(operators: pl.LazyFrame) -> pl.LazyFrame:
    """Add the floating-point operations of each operator whose inputs' shapes tell them.

    - Products of matrices (`mm`, `addmm`, `bmm`, `baddbmm`, ...): 2 m k n, without the addition of a bias.
    - Attention (`_scaled_dot_product_..._attention`): 2 l s (e + v) for each head, without masks and
      softmax; backward 2.5 times as many.
    - Convolution: 2 x outputs x elements of a filter; their number comes from `written_bytes`, as
      strides are not among the shapes; backward, for both gradients, twice as many. Transposed
      ones count like others.

    Args:
        operators: rows of `span`; with a column `written_bytes`, forward convolutions too.

    Returns:
        The rows with `flops` (a multiplication and an addition are two), `precision` (`fp32`, `bf16`, ...) of
        the operands, `shape_bytes`, that of operands and results once each, and `counts`: whether
        the operator is one of these. What the shapes do not tell is null.

    YAML: `counted: {use: operator_flops, from: operators}`
    """
    require(operators, ["name", "input_shapes", "input_types"], "operators")
    columns = operators.collect_schema().names()
    known = "written_bytes" in columns
    written = pl.col("written_bytes").cast(pl.Float64) if known else pl.lit(None, pl.Float64)
    flops, elements = pl.lit(None, pl.Float64), pl.lit(None, pl.Float64)
    kind, counts = pl.lit(None, pl.String), pl.lit(value=False)
    types = pl.col("input_types")
    size_of_input = types.list.get(0, null_on_oob=True).replace_strict(_SIZES, default=None)
    for rule in _rules(written / size_of_input):
        matches = pl.col("name").str.contains(f"^{rule.names}$").fill_null(value=False)
        flops = pl.when(matches).then(rule.flops).otherwise(flops)
        elements = pl.when(matches).then(rule.elements).otherwise(elements)
        kind = pl.when(matches).then(types.list.get(rule.operand, null_on_oob=True)).otherwise(kind)
        counts |= matches
    told = _with_sizes(operators.with_columns(counts=counts)).with_columns(
        flops=flops, shape_bytes=elements, precision=kind
    )
    size = pl.col("precision").replace_strict(_SIZES, default=None, return_dtype=pl.Float64)
    taken = pl.col("shape_bytes") * size
    return told.select(
        *columns,
        flops=pl.when(pl.col("flops").is_finite()).then("flops"),
        precision=pl.col("precision").replace_strict(_NAMES, default=None, return_dtype=pl.String),
        shape_bytes=pl.when(taken.is_finite()).then(taken),
        counts=pl.col("counts"),
    )
