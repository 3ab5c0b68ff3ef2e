"""`touch_from_access` reduces accesses before it looks up objects: the rows must stay the same."""

from __future__ import annotations

import random

import polars as pl
import pytest

import pasta
from pasta.pipeline.stages.lifetimes import lifetimes
from pasta.pipeline.stages.touch_from_access import touch_from_access
from pasta.trace import empty_table
from tests.tools.memory_run import ACCESSES, TABLES

SPACES = [("device", 0x1000, 0x2A0, 1), ("pinned", 0x12A0, 0x333, 2), ("device", 0x2000, 4096, 3)]
TENSORS = [("tensor", 0x1040, 0x100, 1), ("tensor", 0x1140, 0x40, 2), ("tensor", 0x2200, 999, 3)]
MEMORY = [
    {"device": 0, "ts": ts, "event": "allocate", "space": space, "address": address, "bytes": size, "object_id": thing}
    for ts, (space, address, size, thing) in enumerate([*SPACES, *TENSORS])
]  # fmt: skip
KERNELS = [{"device": 0, "launch_id": launch, "ts": 100 * launch, "name": "k"} for launch in (1, 2)]


def accesses(count=3000):
    """Most lie in objects, some beside; a few are long."""
    choose = random.Random(5)
    return [
        {
            "device": 0,
            "launch_id": choose.choice([1, 2]),
            "request": number // 32,
            "lane": number % 32,
            "op": choose.choice([0, 0, 1, 2, 3]),
            "space": choose.choice([0, 0, 0, 1]),
            "address": choose.randrange(0xF00, 0x3100),
            "bytes": choose.choice([1, 4, 4, 16, 700]),
        }
        for number in range(count)
    ]


def computed(rows, granularity):
    """The rows of `touch`, computed from every access on its own."""
    tables = {"access": rows, "memory": MEMORY, "kernel": KERNELS}
    frames = {
        name: pl.DataFrame([{"rank": 0, "pid": 1, **row} for row in rows], empty_table(name).schema)
        for name, rows in tables.items()
    }
    lives = lifetimes(frames["memory"])
    return touch_from_access(frames["access"], lives, frames["kernel"], granularity=granularity, blocks=True).to_dicts()  # fmt: skip


def run(make_trace, rows, touch, **parameters):
    recorded = {"touch": touch} if touch else {}
    trace = make_trace(access=rows, memory=MEMORY, kernel=KERNELS, **recorded)
    return pasta.run("touch_from_access", trace=trace, **parameters)


@pytest.mark.parametrize("granularity", [32, 512, 4096])
def test_the_reduced_accesses_give_the_same_rows(make_trace, granularity):
    rows = accesses()
    expected = computed(rows, granularity)
    report = run(make_trace, rows, expected, granularity=granularity)
    assert report.facts == {
        "rows_compared": len(expected),
        "rows_equal": len(expected),
        "only_recorded": 0,
        "only_computed": 0,
    }
    assert report.findings[:2] == [
        "2 launches made 3,000 accesses that were recorded one by one",
        f"of {len(expected)} rows {len(expected)} are recorded as they are computed from the accesses",
    ]


def test_rows_that_differ_are_shown(make_trace):
    rows = accesses()
    touch = computed(rows, 512)
    wrong = next(row for row in touch if row["space"] == "tensor" and row["object_id"] == 2)
    wrong["reads"] += 3
    wrong["unique_bytes"] -= 1
    lost = next(row for row in touch if row["block"] is not None)
    report = run(make_trace, rows, [row for row in touch if row is not lost])
    assert report.facts["rows_equal"] == len(touch) - 2
    assert (report.facts["only_recorded"], report.facts["only_computed"]) == (0, 1)
    found = report.tables["differences"].to_dicts()
    assert [(row["object_id"], row["counts_differ"], row["unique_differ"]) for row in found[:1]] == [(2, 3, 1)]  # fmt: skip


def test_what_was_not_counted_is_not_compared(make_trace):
    """A level without blocks and without counts by object."""
    rows = accesses()
    objects = ("device", "pinned", "tensor")
    uncounted = dict.fromkeys(["reads", "writes", "atomics", "bytes_read", "bytes_written"])
    touch = [
        {**row, **(uncounted if row["space"] in objects else {})}
        for row in computed(rows, 512)
        if row["block"] is None
    ]
    facts = run(make_trace, rows, touch).facts
    assert (facts["rows_compared"], facts["rows_equal"]) == (len(touch), len(touch))


def test_unknown_memory_is_compared_by_its_accesses(make_trace):
    """The end of an object's last granule is nobody's: its bytes say nothing about accesses."""
    rest = {**TABLES["touch"][0], "space": "unknown", "reads": 0, "writes": 0, "unique_bytes": 24}
    trace = make_trace(**{**TABLES, "touch": [*TABLES["touch"], rest]}, access=ACCESSES)
    facts = pasta.run("touch_from_access", trace=trace).facts
    assert (facts["rows_compared"], facts["only_recorded"]) == (len(TABLES["touch"]), 0)


def test_without_recorded_rows_there_is_nothing_to_compare(make_trace, tmp_path):
    rows = accesses()
    report = run(make_trace, rows, [], out=tmp_path / "o")
    assert "nothing to compare with" in report.findings[1]
    written = pl.read_parquet(next((tmp_path / "o").rglob("touch*.parquet"))).drop("trace")
    assert written.rows() == pl.DataFrame(computed(rows, 512), written.schema).rows()


def test_a_run_that_was_counted_by_hand(make_trace):
    trace = make_trace(**TABLES, access=ACCESSES)
    facts = pasta.run("touch_from_access", trace=trace).facts
    assert facts["rows_compared"] == facts["rows_equal"] == len(TABLES["touch"])
