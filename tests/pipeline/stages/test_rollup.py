"""The stage `rollup`."""

from __future__ import annotations

import polars as pl
import pytest

from pasta.errors import ConfigError
from pasta.pipeline.stages.rollup import rollup

SPANS = pl.DataFrame(
    [
        (3, 2, "mm", 10, 1.5),
        (1, 0, "step", 1, 0.0),
        (2, 1, "linear", 2, None),
        (4, 1, "linear", 4, 2.0),
        (5, 4, "mm", 20, 0.25),
        (6, 99, "step", 7, 8.0),
    ],
    schema={
        "span_id": pl.UInt64,
        "parent_id": pl.UInt64,
        "name": pl.String,
        "self_ns": pl.Int64,
        "flops": pl.Float64,
    },
    orient="row",
).with_columns(rank=pl.lit(0), pid=pl.lit(1))


def test_totals_and_paths():
    found = rollup(SPANS, values=["self_ns", "flops"])
    assert found.select("total_self_ns", "total_flops", "path", "path_id").rows() == [
        (10, 1.5, "step > linear > mm", 3),
        (37, 3.75, "step", 1),
        (12, 1.5, "step > linear", 2),
        (24, 2.25, "step > linear", 2),
        (20, 0.25, "step > linear > mm", 3),
        (7, 8.0, "step", 1),
    ]
    assert found.select(SPANS.columns).equals(SPANS)


def test_ids_count_within_a_process():
    both = pl.concat([SPANS, SPANS.with_columns(pid=pl.lit(2), self_ns=pl.lit(1, pl.Int64))])
    found = rollup(both, values=["self_ns"])["total_self_ns"].to_list()
    assert found == [10, 37, 12, 24, 20, 7, 1, 5, 2, 2, 1, 1]


def test_a_separator_inside_of_a_name_has_no_second_meaning():
    rows = SPANS.with_columns(name=pl.lit("f<a > b>")).head(1)
    assert rollup(rows, values=[])["path"].to_list() == ["f<a>b>"]


def test_other_columns_and_empty_input():
    rows = SPANS.rename({"span_id": "id", "parent_id": "up", "name": "label"})
    found = rollup(rows.clear(), values=["flops"], node="id", parent="up", name="label")
    assert list(found.schema.items())[-3:] == [
        ("total_flops", pl.Float64),
        ("path", pl.String),
        ("path_id", pl.UInt64),
    ]


def test_values_must_be_numbers():
    with pytest.raises(ConfigError, match="values: column 'name' is String; expected numbers"):
        rollup(SPANS, values=["name"])
    with pytest.raises(ConfigError, match="needs column 'parent_id'"):
        rollup(SPANS.drop("parent_id"), values=[])
