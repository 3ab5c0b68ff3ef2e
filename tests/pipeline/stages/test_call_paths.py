"""The stage `call_paths`."""

from __future__ import annotations

import polars as pl
from polars.testing import assert_frame_equal

from pasta.pipeline.stages.call_paths import call_paths
from pasta.pipeline.stages.rollup import rollup
from tests.pipeline.stages.test_rollup import SPANS


def test_one_row_for_each_path():
    found = call_paths(SPANS, values=["self_ns"])
    expected = pl.DataFrame(
        [
            ("step", 1, 0, "step", 0, 2, 8, 44),
            ("step > linear", 2, 1, "linear", 1, 2, 6, 36),
            ("step > linear > mm", 3, 2, "mm", 2, 2, 30, 30),
        ],
        schema={
            "path": pl.String,
            "path_id": pl.UInt64,
            "parent_path_id": pl.UInt64,
            "name": pl.String,
            "depth": pl.Int32,
            "calls": pl.Int64,
            "self_ns": pl.Int64,
            "total_self_ns": pl.Int64,
        },
        orient="row",
    )
    assert_frame_equal(found, expected)


def test_by_keeps_paths_apart():
    both = pl.concat([SPANS, SPANS.head(2).with_columns(rank=pl.lit(1))])
    found = call_paths(both, values=["self_ns"], by=["rank"])
    assert found.select("rank", "path", "calls", "total_self_ns").sort("rank", "path").rows() == [
        (0, "step", 2, 44),
        (0, "step > linear", 2, 36),
        (0, "step > linear > mm", 2, 30),
        (1, "mm", 1, 10),
        (1, "step", 1, 1),
    ]
    assert found["path_id"].is_unique().all()


def test_agrees_with_rollup():
    rows = rollup(SPANS, values=["self_ns", "flops"])
    found = call_paths(SPANS, values=["self_ns", "flops"])
    summed = rows.group_by("path_id").agg(pl.col("total_self_ns", "total_flops").sum())
    assert_frame_equal(summed.sort("path_id"), found.select(summed.columns))


def test_empty_input():
    found = call_paths(SPANS.clear(), values=["flops"], by=["rank"])
    assert found.is_empty()
    assert found.schema == call_paths(SPANS, values=["flops"], by=["rank"]).schema
