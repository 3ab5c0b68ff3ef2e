"""Kernels that overlap on one stream, or outlast those after them, against a brute-force oracle."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.tools.checks import streams
from pasta.tools.checks.streams import stream_warnings
from pasta.trace import Trace
from pasta.trace_join import reading
from tests.conftest import write_trace


def kernels(*intervals: tuple[int, int | None], stream: int = 7) -> list[dict]:
    return [
        {"ts": ts, "dur": dur, "stream": stream, "context": 1, "device": 0, "name": f"k{place}"}
        for place, (ts, dur) in enumerate(intervals)
    ]


def test_an_overlap_is_counted_with_the_first_and_the_largest(make_trace):
    given_ = kernels((0, 10), (8, 5), (20, 5), (21, 6), (40, 1))
    (said,) = stream_warnings(make_trace(kernel=given_))
    assert said.startswith("2 of 5 kernels (40.0 %) begin before the one before them")
    assert "by up to 4 ns (rank 0, 'k3' at ts 21)" in said
    assert said.endswith("(first: rank 0, 'k1' at ts 8)")


def test_one_overlap_is_named_once(make_trace):
    (said,) = stream_warnings(make_trace(kernel=kernels((0, 10), (8, 5))))
    assert said.count("'k1' at ts 8") == 1
    assert said.endswith("so that durations add up to more than busy time")


def test_a_kernel_that_outlasts_its_successors(make_trace):
    """One of 1.6 s takes 99 % of the time, and 30 others run inside it."""
    long = [(0, 1_600_000_000)]
    given_ = kernels(*long, *((1000 * place, 500) for place in range(1, 31)))
    overlap, outlasting = stream_warnings(make_trace(kernel=given_))
    assert overlap.startswith("30 of 31 kernels (96.8 %)")
    assert outlasting.startswith("1 of 31 kernels (3.2 %) last past the end of kernels that follow")
    assert (
        "the longest takes 1.60 s, over 99.9 % of all kernel time, and covers 30 others"
        in outlasting
    )
    assert "(rank 0, 'k0' at ts 0)" in outlasting


@pytest.mark.parametrize(
    "rows",
    [
        kernels((0, 10), (10, 10), (20, 0), (20, 5), (30, None), (31, 2)),
        kernels((0, 10)) + kernels((5, 10), stream=8),
        [{**row, "pid": place} for place, row in enumerate(kernels((0, 10), (5, 10)))],
    ],
    ids=["ties, nothing and unknown durations", "streams", "processes"],
)
def test_what_is_no_overlap(make_trace, rows):
    assert stream_warnings(make_trace(kernel=rows)) == []


def test_a_trace_that_is_not_in_order_is_said_not_to_be_examined(make_trace, monkeypatch):
    monkeypatch.setattr(
        reading, "conform", lambda _table, batch: batch.take([1, 0]).select(batch.schema.names)
    )
    monkeypatch.setattr(
        streams,
        "batches",
        lambda *_: iter([_backwards(make_trace(kernel=kernels((0, 1), (2, 1))))]),
    )
    (said,) = stream_warnings(Trace.open(_folder(make_trace)))
    assert "is not in order of time" in said


def _backwards(trace):
    return trace.scan("kernel").select(streams._COLUMNS).sort("ts", descending=True).collect()


def _folder(make_trace):
    return make_trace("other", kernel=kernels((0, 1))).path


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 25), st.integers(0, 2)),
        min_size=1,
        max_size=40,
    ),
    st.integers(1, 9),
)
def test_counts_are_those_of_brute_force(rows, batch_rows):
    rows = sorted(rows, key=lambda row: row[0])
    before = reading.BATCH_ROWS
    reading.BATCH_ROWS = batch_rows
    try:
        with tempfile.TemporaryDirectory() as folder:
            given_ = [
                {"ts": ts, "dur": dur, "stream": stream, "context": 0, "device": 0}
                for ts, dur, stream in rows
            ]
            trace = write_trace(Path(folder) / "t", kernel=given_)
            found = streams._Streams()
            assert found.read(trace.files("kernel"))
    finally:
        reading.BATCH_ROWS = before
    overlapping, outlasting = _brute_force(rows)
    assert (found.kernels, found.duration) == (len(rows), sum(row[1] for row in rows))
    assert (found.overlapping, found.outlasting) == (overlapping, outlasting)


def _brute_force(rows):
    overlapping, covering = 0, set()
    for place, (ts, dur, stream) in enumerate(rows):
        earlier = [
            (start + length, -other)
            for other, (start, length, on) in enumerate(rows[:place])
            if on == stream and length
        ]
        if not dur or not earlier:
            continue
        end, holder = max(earlier)
        overlapping += ts < end
        if ts + dur <= end:
            covering.add(holder)
    return overlapping, len(covering)
