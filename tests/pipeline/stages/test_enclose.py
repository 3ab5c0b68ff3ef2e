"""The stage `enclose`."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pasta.errors import ConfigError
from pasta.pipeline.stages.enclose import enclose

THREAD = {"rank": pl.Int32, "pid": pl.Int64, "tid": pl.Int64}
SPANS = pl.DataFrame(
    [(0, 1, 1, 0, 100, 7), (0, 1, 1, 10, 20, 8), (0, 1, 1, 15, 5, 9), (0, 1, 2, 50, None, 10)],
    schema={**THREAD, "ts": pl.Int64, "dur": pl.Int64, "span_id": pl.UInt64},
    orient="row",
)


def points(*rows):
    return pl.DataFrame(
        [(0, 1, tid, ts) for tid, ts in rows], schema={**THREAD, "ts": pl.Int64}, orient="row"
    )


def test_the_innermost_span_on_the_same_thread():
    asked = points(
        (1, 16), (1, 10), (1, 20), (1, 30), (1, 100), (1, -1), (2, 49), (2, 10**15), (3, 5)
    )
    found = enclose(asked, SPANS)
    assert found["span_id"].to_list() == [9, 8, 8, 7, 0, 0, 0, 0, 0]
    assert found.select(asked.columns).equals(asked)


def test_another_time_column_and_unknown_times():
    asked = points((1, None), (1, 16)).rename({"ts": "call_ts"})
    assert enclose(asked, SPANS, time="call_ts")["span_id"].to_list() == [0, 9]


def test_processes_do_not_mix():
    asked = points((1, 16)).with_columns(pid=pl.lit(2, pl.Int64))
    assert enclose(asked, SPANS)["span_id"].to_list() == [0]


def test_empty_inputs():
    assert enclose(points((1, 16)), SPANS.clear())["span_id"].to_list() == [0]
    assert enclose(points(), SPANS).schema == {**points().schema, "span_id": pl.UInt64}


def test_missing_columns_name_the_input():
    with pytest.raises(ConfigError, match="spans: needs column 'dur'"):
        enclose(points(), SPANS.drop("dur"))


@given(
    st.lists(st.tuples(st.integers(1, 2), st.integers(0, 20), st.integers(0, 9)), max_size=40),
    st.integers(0, 30),
)
def test_one_point_among_many_spans_is_answered_as_are_many_points(raw, time):
    spans = pl.DataFrame(
        [(0, 1, *span, row + 1) for row, span in enumerate(raw)], schema=SPANS.schema, orient="row"
    )
    asked = points((1, time))
    among_many = pl.concat([asked, *[points((2, -1))] * 40])
    assert enclose(asked, spans)["span_id"][0] == enclose(among_many, spans)["span_id"][0]
