"""The stage `nest`."""

from __future__ import annotations

import polars as pl
import pytest

from pasta.errors import ConfigError
from pasta.pipeline.stages.nest import nest

IDS = {"span_id": pl.UInt64, "parent_id": pl.UInt64}


def spans(*rows, **more):
    """Spans from (id, tid, ts, dur)."""
    table = pl.DataFrame(rows, schema=["span_id", "tid", "ts", "dur"], orient="row")
    table = table.with_columns(rank=pl.lit(0), pid=pl.lit(1), **more)
    return table.cast({name: kind for name, kind in IDS.items() if name in table.columns})


TRAIN = spans(
    (5, 1, 2_000, 3_000),
    (4, 1, 0, 10_000),
    (6, 1, 6_000, 2_000),
    (7, 1, 6_500, 1_000),
    (8, 2, 2_500, 100),
    (9, 1, 20_000, None),
    (10, 1, 25_000, 10),
)


def columns(found):
    return found.select("span_id", "parent_id", "depth", "self_ns").sort("span_id").rows()


def test_parents_depth_and_self_time_of_each_thread():
    assert columns(nest(TRAIN)) == [
        (4, 0, 0, 5_000),
        (5, 4, 1, 3_000),
        (6, 4, 1, 1_000),
        (7, 6, 2, 1_000),
        (8, 0, 0, 100),
        (9, 0, 0, None),
        (10, 0, 0, 10),
    ]
    assert nest(TRAIN).select(TRAIN.columns).equals(TRAIN)


def test_recorded_parents_are_trusted_unless_told_otherwise():
    recorded = spans((1, 1, 0, 100), (2, 1, 10, 20), (3, 2, 15, 30), parent_id=pl.Series([0, 1, 1]))
    assert columns(nest(recorded)) == [(1, 0, 0, 65), (2, 1, 1, 20), (3, 1, 1, 30)]
    assert columns(nest(recorded, infer=True)) == [(1, 0, 0, 80), (2, 1, 1, 20), (3, 0, 0, 30)]


def test_parents_are_inferred_once_some_are_filtered_out():
    recorded = spans((1, 1, 0, 90), (2, 1, 0, 80), (3, 1, 5, 7), parent_id=pl.Series([0, 1, 2]))
    found = nest(recorded.filter(pl.col("span_id") != 2))
    assert columns(found) == [(1, 0, 0, 83), (3, 1, 1, 7)]


def test_the_first_of_a_circle_is_a_root():
    recorded = spans((2, 1, 0, 10), (3, 1, 0, 10), parent_id=pl.Series([3, 2]))
    assert columns(nest(recorded)) == [(2, 0, 0, 0), (3, 2, 1, 10)]


def test_ids_count_within_a_process():
    rows = spans((1, 1, 0, 100), (2, 1, 10, 20), parent_id=pl.Series([0, 1]))
    both = pl.concat([rows, rows.with_columns(rank=pl.lit(1), dur=pl.col("dur") + 5)])
    assert nest(both)["self_ns"].to_list() == [80, 20, 80, 25]


def test_children_that_overlap_count_once():
    recorded = spans((1, 1, 0, 10), (2, 2, 2, 6), (3, 3, 4, 90), parent_id=pl.Series([0, 1, 1]))
    assert nest(recorded)["self_ns"].to_list() == [2, 6, 90]


def test_empty_input_and_missing_columns():
    assert nest(TRAIN.clear()).schema == nest(TRAIN).schema
    assert nest(TRAIN).schema["depth"] == pl.Int32
    with pytest.raises(ConfigError, match="needs column 'tid'"):
        nest(TRAIN.drop("tid"))


def test_an_unfinished_span_encloses_only_what_is_recorded_in_it():
    rows = spans((1, 1, 0, None), (2, 1, 10, 20), (3, 1, 40, 5))
    assert columns(nest(rows)) == [(1, 0, 0, None), (2, 0, 0, 20), (3, 0, 0, 5)]
    recorded = rows.with_columns(parent_id=pl.Series([0, 1, 0], dtype=pl.UInt64))
    assert columns(nest(recorded)) == [(1, 0, 0, None), (2, 1, 1, 20), (3, 0, 0, 5)]
