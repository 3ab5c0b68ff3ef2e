"""Rows of several files, sorted or not, come in order of time, in bounded pieces."""

from __future__ import annotations

import json
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pasta.exports import runs
from pasta.exports.runs import runs_of, slices
from pasta.trace import Trace
from pasta.trace_merge import conform, parquet_writer

FILES = st.lists(
    st.tuples(st.lists(st.none() | st.integers(-1, 30), max_size=40), st.booleans()),
    min_size=1,
    max_size=4,
)


def trace_of(folder, files, table="span"):
    (folder / table).mkdir(parents=True)
    (folder / "trace.json").write_text(json.dumps({"schema_version": 1}))
    number = 0
    for place, (times, in_order) in enumerate(files):
        known = sorted(t for t in times if t is not None) if in_order else times
        ids = range(number, number + len(known))
        number += len(known)
        rows = pl.DataFrame({"ts": known, "span_id": ids}, {"ts": pl.Int64, "span_id": pl.UInt64})
        with parquet_writer(
            folder / table / f"{place:06d}.parquet", table, compression="lz4"
        ) as writer:
            writer.write_table(conform(table, rows.to_arrow()))
    return Trace.open(folder)


@pytest.fixture(autouse=True, scope="module")
def _tiny_batches():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "RUN_ROWS", 7)
        patch.setattr(runs, "_BATCH_ROWS_MIN", 1)
        patch.setattr(runs, "_BATCH_ROWS_MAX", 3)
        patch.setattr(runs, "HELD_ROWS", 6)
        yield


def read_slices(trace, scratch):
    scratch.mkdir()
    found = runs_of(trace, "span", ["ts", "span_id", "name"], scratch)
    return [piece["span"] for piece in slices(found)]


@given(files=FILES)
@settings(max_examples=40)
def test_slices_are_the_sorted_rows(tmp_path_factory, files):
    folder = tmp_path_factory.mktemp("t")
    trace = trace_of(folder / "t", files)
    pieces = read_slices(trace, folder / "scratch")
    every = trace.scan("span").select("ts", "span_id").filter(pl.col("ts") >= 0).collect()
    wanted = every.sort("ts", "span_id").rows()
    got = [row for piece in pieces for row in piece.select("ts", "span_id").rows()]
    assert got == wanted
    bounds = [(piece["ts"][0], piece["ts"][-1]) for piece in pieces]
    assert all(a[1] < b[0] for a, b in pairwise(bounds))


def test_what_is_sorted_is_not_copied_and_what_is_not_is_held_in_pieces(tmp_path):
    trace = trace_of(tmp_path / "a", [(list(range(50)), True), (list(range(50, 90)), True)])
    pieces = read_slices(trace, tmp_path / "s")
    assert not list((tmp_path / "s").iterdir())
    assert max(piece.height for piece in pieces) <= 9
    trace = trace_of(tmp_path / "b", [(list(range(50, 0, -1)), False)])
    assert sum(piece.height for piece in read_slices(trace, tmp_path / "s2")) == 50
    assert len(list((tmp_path / "s2").iterdir())) == 8
