"""Collapsed stacks: a recording of py-spy by this project, and lines by hand."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pasta.collect.importers.collapsed import Collapsed
from pasta.collect.sources import Source
from pasta.errors import InputError
from tests.collect.importers.import_help import imported_content

RECORDED = Path(__file__).parent / "recorded" / "py_spy.collapsed"


@pytest.fixture
def imported(tmp_path):
    def run(text, *, strict=False):
        return imported_content(text, tmp_path, strict=strict)

    return run


def stacks(trace):
    """Function names of each sample's stack, with its weight."""
    frames = trace.scan("frame").sort("depth").group_by("pid", "stack_id")
    named = frames.agg(pl.col("function"))
    rows = trace.scan("sample").join(named, on=["pid", "stack_id"], how="left").collect()
    return sorted((row["function"] or [], row["weight"]) for row in rows.iter_rows(named=True))


def test_stacks_and_counts(imported):
    report, trace = imported("a;b;operator new(unsigned long) 12\na;b 1\r\na;c d;e 2.5\n")
    assert report.format == "collapsed stacks"
    assert stacks(trace) == [
        (["a", "b"], 1.0),
        (["a", "b", "operator new(unsigned long)"], 12.0),
        (["a", "c d", "e"], 2.5),
    ]
    assert trace.scan("sample").select("ts", "dur", "kind").unique().collect().rows() == [
        (None, None, "samples")
    ]
    assert (report.losses, report.first_ts) == ([], None)


def test_outermost_frames_tell_process_and_thread(imported):
    _, trace = imported(
        'process 7:"python x.py";thread (0x10): Main;f (x.py:3) 4\n'
        "thread (0008): Other;g (<frozen importlib._bootstrap>:9) 1\n"
        "my prog-5/6;h 2\n"
    )
    assert trace.scan("sample").select("pid", "tid").collect().rows() == [(7, 16), (0, 8), (5, 6)]
    threads = trace.scan("thread").select("pid", "tid", "name").sort("pid").collect().rows()
    assert threads == [(0, 8, "Other"), (5, 6, "my prog"), (7, 16, "Main")]
    processes = trace.scan("process").select("pid", "command").sort("pid").collect().rows()
    assert processes == [(0, None), (5, "my prog"), (7, "python x.py")]
    frames = trace.scan("frame").filter(language="python").sort("line")
    assert frames.select("function", "file", "line").collect().rows() == [
        ("f", "x.py", 3),
        ("g", "<frozen importlib._bootstrap>", 9),
    ]


def test_the_recording(imported):
    text = RECORDED.read_text()
    report, trace = imported(text)
    lines = [line.rpartition(" ") for line in text.splitlines()]
    expected = [
        ([f.partition(" (")[0] for f in stack.split(";") if f], float(n)) for stack, _, n in lines
    ]
    assert stacks(trace) == sorted(expected)
    assert report.losses == []


def test_damaged_lines_are_counted(imported):
    report, trace = imported("a;b 1\na;b\n\nc;d 2\nc 3\ne 4")
    assert stacks(trace) == [(["a", "b"], 1.0), (["c"], 3.0), (["c", "d"], 2.0), (["e"], 4.0)]
    assert [reason for _, reason, _, _ in report.losses] == [
        "last line without an end: its count may be cut short",
        "line that is no stack with a count: left out",
    ]
    with pytest.raises(InputError, match="no stack with a count"):
        imported("a;b 1\n" * 3 + "a;b\n", strict=True)


@pytest.mark.parametrize("head", [b"a 1\n", b"a;b\n", b'{"a;b": 1\n', b"", b"a;b 1\n\x00;c 2\n"])
def test_other_text_is_none(head):
    source = Source("x", head, iter(()), len(head), plain_size=len(head))
    assert not Collapsed().recognises(source)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_damage_escapes(imported, data):
    text = bytearray(RECORDED.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 40))] = data.draw(st.binary(max_size=12))
    try:
        imported(bytes(text))
    except InputError:
        return
