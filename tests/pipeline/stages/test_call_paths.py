"""The stage `call_paths`."""

from __future__ import annotations

import polars as pl
from polars.testing import assert_frame_equal

from pasta.pipeline.stages.call_paths import call_paths
from pasta.pipeline.stages.nest import nest
from pasta.pipeline.stages.rollup import rollup
from tests.pipeline.stages.test_nest import TRAIN
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


def test_what_nodes_caused_counts_on_their_paths():
    kernels = pl.DataFrame(
        {"span_id": [3, 5, 5, 2, 0, 77, None], "dur": [1, 10, 100, 1000, 5, 5, 5]},
        schema={"span_id": pl.UInt64, "dur": pl.Int64},
    ).with_columns(rank=pl.lit(0), pid=pl.lit(1))
    found = call_paths(SPANS, kernels, caused_values={"device_ns": "dur"})
    columns = ["path", "caused", "device_ns", "total_caused", "total_device_ns"]
    assert found.select(columns).rows() == [
        ("step", 0, 0, 4, 1111),
        ("step > linear", 1, 1000, 4, 1111),
        ("step > linear > mm", 3, 111, 3, 111),
    ]
    elsewhere = kernels.with_columns(pid=pl.lit(2))
    assert call_paths(SPANS, elsewhere)["caused"].to_list() == [0, 0, 0]


def test_self_time_is_that_of_nest():
    spans = pl.concat([TRAIN, TRAIN.with_columns(pid=pl.lit(2), ts=pl.col("ts") * 2)])
    spans = spans.with_columns(name=pl.format("s{}", pl.col("span_id") % 3))
    nested = nest(spans.drop_nulls("dur"))
    found = call_paths(nested, self_time=True, values=["dur"])
    assert found["self_ns"].sum() == nested["self_ns"].sum()
    by_path = rollup(nested, values=[]).group_by("path").agg(pl.col("self_ns").sum())
    assert found.select("path", "self_ns").equals(by_path.sort("path"))


def test_parents_are_inferred_once_some_are_filtered_out():
    spans = nest(TRAIN).with_columns(name=pl.format("s{}", "span_id"))
    found = call_paths(spans.filter(pl.col("span_id") != 6))
    assert found["path"].to_list() == ["s10", "s4", "s4 > s5", "s4 > s7", "s8", "s9"]


def test_an_unfinished_span_has_no_time_and_encloses_nothing():
    """One that nobody saw end took 2.5 million hours and all later spans of its thread."""
    spans = pl.DataFrame(
        [(1, "a", 0, 50), (2, "lost", 10, None), (3, "b", 20, 5), (4, "c", 100, 7)],
        schema={"span_id": pl.UInt64, "name": pl.String, "ts": pl.Int64, "dur": pl.Int64},
        orient="row",
    ).with_columns(rank=0, pid=1, tid=1, parent_id=pl.lit(0, pl.UInt64))
    found = call_paths(spans, values=["dur"], self_time=True)
    assert found.select("path", "dur", "self_ns", "total_self_ns").rows() == [
        ("a", 50, 45, 50),
        ("a > b", 5, 5, 5),
        ("a > lost", 0, 0, 0),
        ("c", 7, 7, 7),
    ]


def test_inside_tells_what_lies_at_or_below():
    found = call_paths(SPANS, inside={"in_linear": pl.col("name") == "linear"})
    assert found.select("path", "in_linear").rows() == [
        ("step", False),
        ("step > linear", True),
        ("step > linear > mm", True),
    ]
