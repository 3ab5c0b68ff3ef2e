"""`operator_flops` against loops that count each multiplication and addition."""

from __future__ import annotations

import itertools
import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.pipeline.stages.operator_flops import operator_flops


def rows(*operators, **more):
    return pl.LazyFrame(
        {
            "name": [name for name, _, _ in operators],
            "input_shapes": [shapes for _, shapes, _ in operators],
            "input_types": [types for _, _, types in operators],
            **more,
        },
        schema_overrides={
            "name": pl.String,
            "input_shapes": pl.List(pl.String),
            "input_types": pl.List(pl.String),
        },
    )


def found(name, *shapes, kind="float32", **more):
    table = operator_flops(rows((name, list(shapes), [kind] * len(shapes)), **more)).collect()
    return table.select("flops", "precision", "shape_bytes", "counts").row(0)


SMALL = st.integers(1, 4)


@given(SMALL, SMALL, SMALL, SMALL)
def test_products_of_matrices_by_counting(batch, m, k, n):
    each = sum(2 for _ in itertools.product(range(m), range(k), range(n)))
    elements = m * k + k * n + m * n
    assert found("aten::mm", f"{m}x{k}", f"{k}x{n}") == (each, "fp32", 4 * elements, True)
    assert found("aten::addmm", f"{n}", f"{m}x{k}", f"{k}x{n}", "", "")[0] == each
    assert found("aten::bmm", f"{batch}x{m}x{k}", f"{batch}x{k}x{n}")[0] == batch * each
    assert found("aten::mv", f"{m}x{k}", f"{k}")[0] == 2 * m * k


@given(SMALL, SMALL, SMALL, SMALL)
def test_convolutions_by_counting(channels, filters, width, outputs):
    """Each of `outputs` results takes a product with a filter of `channels` x `width`."""
    expected = sum(2 for _ in itertools.product(range(outputs * filters), range(channels), range(width)))  # fmt: skip
    shapes = (f"1x{channels}x9", f"{filters}x{channels}x{width}", "")
    written = {"written_bytes": [4 * outputs * filters]}
    assert found("aten::convolution", *shapes, **written)[0] == expected
    gradient = (f"1x{filters}x{outputs}", *shapes)
    assert found("aten::convolution_backward", *gradient)[0] == 2 * expected
    assert found("aten::convolution", *shapes)[0] is None


def test_attention():
    """Two heads, 3 queries of 4, 5 keys, values of 6: 2 x 3 x 5 x (4 + 6) operations each."""
    shapes = ("1x2x3x4", "1x2x5x4", "1x2x5x6", "", "")
    for name in ("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu"):
        assert found(f"aten::{name}", *shapes, kind="bfloat16")[:2] == (600, "bf16")
    backward = found("aten::_scaled_dot_product_efficient_attention_backward", "1x2x3x6", *shapes)
    assert backward[0] == 1500


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("aten::add", ["2x2", "2x2"]),
        ("aten::mm_out_of", ["2x2", "2x2"]),
        ("x aten::mm", ["2x2", "2x2"]),
        (None, ["2x2", "2x2"]),
    ],
)
def test_other_operators_do_not_count(name, shapes):
    table = operator_flops(rows((name, shapes, ["float32"] * 2))).collect()
    assert table.select("flops", "counts").row(0) == (None, False)


@pytest.mark.parametrize(
    ("shapes", "types"),
    [
        (None, None),
        ([], []),
        (["", ""], ["", ""]),
        (["2x2"], ["float32"]),
        (["2xa", "2x2"], ["float32"] * 2),
        (["0x0", "0x5"], ["float32"] * 2),
    ],
)
def test_what_shapes_do_not_tell_is_null_and_never_nan(shapes, types):
    table = operator_flops(rows(("aten::mm", shapes, types))).collect()
    flops, size = table.select("flops", "shape_bytes").row(0)
    assert flops is None or flops == 0
    assert size is None or math.isfinite(size)
    assert table["counts"].item()


def test_shapes_are_cut_of_operators_that_count_alone():
    plan = operator_flops(rows(("aten::relu", ["2x3"], ["float"]))).explain()
    cuts = [line for line in plan.splitlines() if ".str.split(" in line]
    assert cuts
    assert all('when(col("counts"))' in line for line in cuts)


def test_rows_keep_their_order():
    operators = [("aten::mm", ["1x2", "2x3"], ["half"] * 2), ("aten::add", [], []), ("aten::bmm", ["1x1x1", "1x1x1"], ["double"] * 2)]  # fmt: skip
    table = operator_flops(rows(*operators)).collect()
    assert table["flops"].to_list() == [12, None, 2]
    assert table["precision"].to_list() == ["fp16", None, "fp64"]
