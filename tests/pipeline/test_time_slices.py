"""Stages of intervals give, on slices of time, what they give on all rows."""

from __future__ import annotations

import itertools
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from pasta.pipeline.graph import Node
from pasta.pipeline.stage import STAGES
from pasta.pipeline.time_slices import SLICE, TimeSlice, equal_slices, marked, rejoined

ROW = st.fixed_dictionaries(
    {
        "rank": st.none() | st.integers(0, 1),
        "ts": st.none() | st.integers(0, 20),
        "dur": st.none() | st.just(0) | st.integers(0, 9),
        "what": st.none() | st.sampled_from("xyz"),
    }
)
TYPES = {"rank": pl.Int32, "ts": pl.Int64, "dur": pl.Int64, "what": pl.String}
TABLE = st.lists(ROW, max_size=12).map(lambda rows: pl.DataFrame(rows, schema=TYPES))
CUTS = st.lists(st.integers(1, 29), max_size=6, unique=True).map(sorted)
TIMES = {"start": "ts", "duration": "dur"}
CASES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "busy": ("busy", 1, {"by": ["rank"], "gaps": False, **TIMES}),
    "busy of all": ("busy", 1, {"by": [], "gaps": False, **TIMES}),
    "coverage": ("coverage", 1, {"by": ["rank"], "kind": "what", "kinds": ["x", "y"], **TIMES}),
    "coverage of all": ("coverage", 1, {"by": [], "kind": "what", "kinds": ["x", "y"], **TIMES}),
    "shared": ("overlap", 2, {"by": ["rank"], "keep": "shared", **TIMES}),
    "left only": ("overlap", 2, {"by": ["rank"], "keep": "left_only", **TIMES}),
}


def test_every_stage_that_works_on_slices_is_tried():
    declared = {name for name in STAGES if STAGES.get(name).sliced is not None}
    assert declared == {stage for stage, _, _ in CASES.values()}


def test_gaps_lie_between_slices_too_so_they_are_not_cut():
    sliced = STAGES.get("busy").sliced
    assert sliced is not None
    assert not sliced.applies({"gaps": True})
    assert sliced.applies({"gaps": False})


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=40, deadline=None)
@given(tables=st.tuples(TABLE, TABLE), cuts=CUTS)
def test_any_slices_give_what_all_rows_give(case, tables, cuts):
    name, inputs, arguments = CASES[case]
    stage = STAGES.get(name)
    node = Node(name, stage, (), arguments, name)
    given_rows = tables[:inputs]
    longest = max((table["dur"].max() or 0 for table in given_rows), default=0)
    parts = []
    for number, (begin, end) in enumerate(itertools.pairwise([0, *cuts, 30])):
        times = TimeSlice(begin, end, longest)
        clipped = [times.clipped(table.lazy(), "ts", "dur").collect() for table in given_rows]
        assert all((rows["ts"] >= begin).all() for rows in clipped)
        assert all((rows["ts"] + rows["dur"] <= end).all() for rows in clipped)
        parts.append(marked(stage.function(*clipped, **arguments), node, number))
    pieces = pl.concat(parts)
    final, edges = pieces.filter(pl.col(SLICE).is_null()), pieces.drop_nulls(SLICE)
    assert edges.height <= 2 * 3 * len(parts)
    found = pl.concat([final.drop(SLICE), rejoined(edges, node)]).sort(*arguments["by"], "ts")
    assert_frame_equal(found, stage.function(*given_rows, **arguments))


def test_final_rows_are_those_between_the_first_and_the_last_of_a_group():
    busy = STAGES.get("busy")
    node = Node("b", busy, (), {"by": ["rank"], **TIMES}, "b")
    pieces = pl.DataFrame({"rank": [None, 0, 0, 0, 1, 1], "ts": [1, 1, 5, 9, 2, 6], "dur": [1] * 6})
    assert marked(pieces, node, 7)[SLICE].to_list() == [7, 7, None, 7, 7, 7]


def test_slices_hold_equal_numbers_of_rows_and_all_time():
    groups = [(10 * n, 10 * n + 9, 100) for n in reversed(range(8))]
    assert equal_slices(groups, 5, 300) == [
        TimeSlice(0, 30, 5),
        TimeSlice(30, 60, 5),
        TimeSlice(60, 79 + 5 + 1, 5),
    ]


def test_rows_that_begin_at_once_are_not_cut():
    assert equal_slices([(4, 8, 100), (4, 9, 100), (4, 7, 100)], 0, 50) == [TimeSlice(4, 10, 0)]


@pytest.mark.parametrize(
    ("group", "longest"),
    [
        ((float("-inf"), float("inf"), 9), 3),
        ((0, 5, 9), float("inf")),
        ((0, 2**63 - 5, 9), 7),
        ((-(2**62), 2**62, 9), 7),
    ],
)
def test_unknown_times_and_times_beyond_64_bits_are_not_cut(group, longest):
    assert equal_slices([group, (3, 4, 9)], longest, 5) == []


def test_there_are_no_slices_of_nothing():
    assert equal_slices([], 0, 5) == []
