"""`reuse` on programs whose distances are known, and against a walk with a stack."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given

import pasta
from tests.conftest import write_trace
from tests.tools.warps import BASE, FEW, KERNELS, NAMES, PROGRAMS, granules, request, row_of


def run(rows, **parameters):
    with tempfile.TemporaryDirectory() as folder:
        trace = write_trace(Path(folder) / "t", access=rows, kernel=KERNELS)
        return pasta.run("reuse", trace=trace, **parameters)


def curve(report):
    """The rows of the chart of misses, by size of the cache."""
    rows = next(part.rows for part in report.parts if "cache_bytes" in part.rows.columns)
    return {row["cache_bytes"]: row for row in rows.to_dicts()}


def test_a_stream_never_comes_back():
    """4 KiB read once, side by side: each sector is used by one request only."""
    report = run([row for at in range(32) for row in request(at, row_of(BASE + 128 * at))])
    assert report.facts["uses"] == 128
    assert report.facts["reused_share"] == 0
    assert report.facts["unique_bytes"] == 4096
    assert report.findings[0] == "no granule is used twice: 128 uses of 4.00 KiB, which no cache can keep"  # fmt: skip
    assert curve(report)[32]["miss_share"] == 1


def test_lanes_of_one_request_use_a_sector_once_or_each():
    rows = request(0, row_of(BASE))
    assert run(rows).facts["uses"] == 4
    report = run(rows, lanes=True)
    assert (report.facts["uses"], report.facts["reused_share"]) == (32, 28 / 32)
    sources = {row["after"]: row["uses"] for row in report.tables["sources"].to_dicts()}
    assert sources == {"nobody": 4, "the same request": 28}


def test_a_loop_over_a_working_set_needs_all_of_it():
    """64 sectors, three times over: a cache of 64 misses the first round only, of 63 everything."""
    rows = [row for at in range(48) for row in request(at, row_of(BASE + 128 * (at % 16)))]
    report = run(rows, cache=2048)
    assert report.facts["median_distance_bytes"] == 63 * 32
    assert {size: row["misses"] for size, row in curve(report).items()} == {
        **{32 << k: 192 for k in range(6)},
        2048: 64,
    }
    assert report.findings[1].startswith(
        "a cache of 2.00 KiB misses 33.3 % of the uses by first, 2.00 KiB; 33.3 % are"
    )


def test_a_strided_column_uses_a_sector_for_each_lane():
    """Columns of a matrix of 32 rows of 128 bytes: a sector is shared by 8 columns that follow."""
    rows = [row for c in range(32) for row in request(c, row_of(BASE + 4 * c, stride=128))]
    report = run(rows)
    assert report.facts["uses"] == 32 * 32
    assert report.facts["reused_share"] == 7 / 8
    assert report.facts["median_distance_bytes"] == 31 * 32


def test_who_used_it_before():
    same = [BASE]
    rows = [
        *request(0, same),
        *request(1, same),
        *request(2, same, warp=1),
        *request(3, same, warp=1, block=1),
        *request(0, same, launch=2),
    ]
    sources = run(rows).tables["sources"]
    assert dict(sources.select("after", "uses").rows()) == dict.fromkeys(
        ["nobody", "the same warp", "another warp", "another block", "another launch"], 1
    )


def walk(rows, size):
    """Each use with its distance and the one before: lanes of a request use a granule once."""
    uses = {}
    for row in rows:
        if row["space"] == 0 and row["op"] != 3:
            for granule in granules(row, size):
                uses.setdefault((row["launch_id"], row["request"], granule), row)
    order = sorted(uses, key=lambda use: (*use[:2], uses[use]["lane"], use[2]))
    stack = []
    for use in order:
        found = next((at for at, other in enumerate(stack) if other[2] == use[2]), None)
        yield use, found, None if found is None else uses[stack.pop(found)], uses[use]
        stack.insert(0, use)


def source(last, row):
    if last is None:
        return "nobody"
    for key, name in (("launch_id", "launch"), ("block", "block"), ("warp", "warp")):
        if last[key] != row[key]:
            return f"another {name}"
    return "the same warp"


@FEW
@given(PROGRAMS)
def test_equals_a_walk_through_the_accesses(rows):
    report = run(rows, granularity=16)
    walked = list(walk(rows, 16))
    distances = [found for _, found, _, _ in walked if found is not None]
    assert report.facts["uses"] == len(walked)
    assert report.facts["reused_share"] == pytest.approx(len(distances) / max(len(walked), 1))
    for size, row in curve(report).items():
        assert row["misses"] == len(walked) - sum(16 * (found + 1) <= size for found in distances)
    expected = Counter(source(last, row) for _, _, last, row in walked)
    assert dict(report.tables["sources"].select("after", "uses").rows()) == expected
    by_name = Counter(NAMES[row["launch_id"]] for _, _, _, row in walked)
    assert dict(report.tables["worst"].select("name", "uses").rows()) == by_name


def test_samples_are_of_whole_granules():
    """About a fifth of 4,000 sectors, used twice each, the others scaled in."""
    rows = [row for at in range(2000) for row in request(at, row_of(BASE + 128 * (at % 1000)))]
    report = run(rows, sample=0.2)
    assert report.facts["reused_share"] == 0.5
    assert report.facts["unique_bytes"] == pytest.approx(4000 * 32, rel=0.1)
    assert report.facts["median_distance_bytes"] == pytest.approx(3999 * 32, rel=0.1)
    assert curve(report)[32]["error"] == 0


def test_nothing_in_global_memory():
    report = run(request(0, [BASE], space=1))
    assert report.findings == []
    assert (report.facts["uses"], report.facts["reused_share"]) == (0, 0)
