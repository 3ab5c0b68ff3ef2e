"""`hot_memory` on three launches whose accesses can be counted by hand."""

from __future__ import annotations

import pytest

import pasta
from tests.tools.memory_run import BASE, TABLES, touch

FAR = BASE + 0x40_0000


def run(make_trace, tables=TABLES, **parameters):
    return pasta.run("hot_memory", trace=make_trace(**tables), **parameters)


def test_blocks_by_window(make_trace):
    """Launches are windows; allocation 1 is touched in all, allocation 2 in the second only."""
    report = run(make_trace)
    chart = next(part for part in report.parts if getattr(part, "kind", "") == "heatmap")
    cells = chart.rows.sort("window", "address").select("window", "address", "reads", "writes", "atomics", "accesses")  # fmt: skip
    assert cells.rows() == [
        (0, BASE, 128, 128, 0, 256),
        (1, BASE, 95, 0, 0, 95),
        (1, FAR, 0, 0, 10, 10),
        (2, BASE, 128, 128, 0, 256),
    ]
    hottest = report.tables["hottest"].to_dicts()
    assert [(row["address"], row["kind"], row["accesses"]) for row in hottest] == [(BASE, "always hot", 607), (FAR, "recurring", 10)]  # fmt: skip
    assert [(row["object_id"], row["objects"], row["allocated_in"]) for row in hottest] == [(1, 1, "Setup"), (2, 1, "Setup")]  # fmt: skip
    assert hottest[1]["window_share"] == 1 / 3


def test_small_blocks_tell_the_halves_of_an_allocation_apart(make_trace):
    report = run(make_trace, block_bytes=512)
    rows = report.tables["hottest"].select("address", "reads", "writes", "atomics").rows()
    assert rows == [(BASE + 512, 95, 256, 0), (BASE, 256, 0, 0), (FAR, 0, 0, 10)]


def test_an_object_that_begins_within_a_block(make_trace):
    """Its first granule begins before it; block 1 lies in the next 512 bytes."""
    memory = [{**row, "address": row["address"] + 256} for row in TABLES["memory"]]
    rows = run(make_trace, {**TABLES, "memory": memory}, block_bytes=512).tables["hottest"]
    assert rows["address"].to_list() == [BASE + 512, BASE, FAR]


def test_every_access_is_in_the_map(make_trace):
    report = run(make_trace)
    assert report.facts["accesses"] == 622
    assert (report.facts["in_map"], report.facts["unknown"]) == (617, 5)
    assert (report.facts["covered_share"], report.facts["incomplete_launches"]) == (1, 0)
    assert "the map holds all accesses to known objects: 617, of 3 launches" in report.findings


def test_what_is_missing_is_said(make_trace):
    """Block 1 of the second launch was not counted: 95 of 617 accesses."""
    lost = touch(2, "device", 1, block=1)
    touches = [row for row in TABLES["touch"] if any(row.get(key) != value for key, value in lost.items())]  # fmt: skip
    report = run(make_trace, {**TABLES, "touch": touches})
    assert (report.facts["in_map"], report.facts["incomplete_launches"]) == (522, 1)
    assert "the map holds 522 accesses, 84.6 % of those to known objects: of 3 launches 1 was not counted by block in full" in report.findings  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "kinds"),
    [
        ({"bursty": 0.4}, ["always hot", "bursty"]),
        ({"always": 0.3}, ["always hot", "always hot"]),
        ({"launches": 3}, ["always hot", "always hot"]),
        ({"every": 10}, ["always hot", "recurring"]),
    ],
)
def test_kinds_follow_the_share_of_windows(make_trace, parameters, kinds):
    assert run(make_trace, **parameters).tables["hottest"]["kind"].to_list() == kinds


def test_tensors_of_the_hottest_blocks(make_trace):
    rows = run(make_trace, block_bytes=512).tables["hottest_tensors"]
    assert rows.select("block_address", "object_id", "accesses", "launches").rows() == [
        (BASE + 512, 2, 351, 3),
        (BASE, 1, 256, 2),
    ]


def test_without_blocks_a_finding_says_what_to_record(make_trace):
    touches = [row for row in TABLES["touch"] if "block" not in row]
    report = run(make_trace, {**TABLES, "touch": touches})
    assert any("record the program with cuda.memory:counts" in text for text in report.findings)
