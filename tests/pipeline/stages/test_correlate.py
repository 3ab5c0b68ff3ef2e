"""The stage `correlate`."""

from __future__ import annotations

import polars as pl
import pytest

from pasta.errors import ConfigError
from pasta.pipeline.stages.correlate import correlate
from tests.pipeline.stages.test_locate import BEFORE, OBJECTS, accesses

THREAD = {"rank": pl.Int32, "pid": pl.Int64, "tid": pl.Int64}
PROCESS = {"rank": pl.Int32, "pid": pl.Int64}
SPANS = pl.DataFrame(
    [(0, 1, 1, 0, 100, 7), (0, 1, 1, 10, 20, 8), (0, 1, 1, 15, 5, 9), (0, 1, 2, 50, None, 10)],
    schema={**THREAD, "ts": pl.Int64, "dur": pl.Int64, "span_id": pl.UInt64},
    orient="row",
)
CALLS = pl.DataFrame(
    [
        (0, 1, 11, 100, "launch"),
        (0, 1, 12, 200, "graph"),
        (0, 2, 11, 300, "other"),
        (0, 1, 0, 400, "unknown"),
        (0, 1, 11, 500, "again"),
    ],
    schema={**PROCESS, "correlation": pl.UInt64, "ts": pl.Int64, "name": pl.String},
    orient="row",
)


def kernels(*correlations, pid=1):
    rows = [(0, pid, correlation) for correlation in correlations]
    return pl.DataFrame(rows, schema={**PROCESS, "correlation": pl.UInt64}, orient="row")


def points(*rows):
    return pl.DataFrame(
        [(0, 1, tid, ts) for tid, ts in rows], schema={**THREAD, "ts": pl.Int64}, orient="row"
    )


def test_kernels_belong_to_the_call_of_their_correlation():
    asked = kernels(12, 11, 12, 0, 99)
    found = correlate(asked, CALLS, by="correlation", columns={"call": "name", "call_ts": "ts"})
    assert found["call"].to_list() == ["graph", "launch", "graph", None, None]
    assert found["call_ts"].to_list() == [200, 100, 200, None, None]
    assert found.select(asked.columns).equals(asked)
    other = correlate(kernels(11, 12, pid=2), CALLS, by="correlation", columns=["name"])
    assert other["name"].to_list() == ["other", None]


def test_far_correlations_are_found_too():
    calls = CALLS.with_columns(correlation=pl.col("correlation") * 2**59)
    asked = kernels(12 * 2**59, 11 * 2**59, 5)
    found = correlate(asked, calls, by="correlation", columns=["name"])
    assert found["name"].to_list() == ["graph", "launch", None]


def test_points_belong_to_the_innermost_span_of_their_thread():
    asked = points((1, 16), (1, 10), (1, 20), (1, 30), (1, 100), (1, -1), (2, 49), (2, 10**15))
    found = correlate(asked, SPANS, by="containment", columns=["span_id"])
    assert found["span_id"].to_list() == [9, 8, 8, 7, None, None, None, None]
    assert found.select(asked.columns).equals(asked)


def test_another_time_column_and_unknown_times():
    asked = points((1, None), (1, 16), (3, 16)).rename({"ts": "call_ts"})
    found = correlate(asked, SPANS, by="containment", columns=["span_id"], time="call_ts")
    assert found["span_id"].to_list() == [None, 9, None]


def test_addresses_belong_to_the_live_object():
    asked = accesses((0x908, 3), (0x908, 7), (0x13F, None))
    found = correlate(
        asked, OBJECTS, by="address", columns={"object_id": "object_id", "end": "end"}
    )
    assert found["object_id"].to_list() == [BEFORE, None, None]
    assert found["end"].to_list() == [5, None, None]


@pytest.mark.parametrize(
    ("by", "left", "right", "column"),
    [
        ("correlation", kernels(11), CALLS, "name"),
        ("containment", points((1, 16)), SPANS, "span_id"),
        ("address", accesses((0x908, 3)), OBJECTS, "object_id"),
    ],
)
def test_empty_inputs(by, left, right, column):
    alone = correlate(left, right.clear(), by=by, columns={"found": column})
    assert alone["found"].to_list() == [None]
    assert correlate(left.clear(), right, by=by, columns={"found": column}).schema == alone.schema
    assert alone.schema["found"] == right.schema[column]


def test_missing_columns_name_the_input():
    with pytest.raises(ConfigError, match="right: needs column 'nam'"):
        correlate(kernels(), CALLS, by="correlation", columns=["nam"])
    with pytest.raises(ConfigError, match="spans: needs column 'dur'"):
        correlate(points(), SPANS.drop("dur"), by="containment", columns=["span_id"])
