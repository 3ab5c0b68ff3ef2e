"""`mem_trace` writes what was recorded."""

from __future__ import annotations

import polars as pl
import pytest

import pasta
from pasta.tools.report import ChartPart
from tests.tools.warps import BASE, KERNELS, request, row_of

ROWS = [
    *request(0, row_of(BASE), size=8),
    *request(1, [BASE, None, BASE + 4], op=1),
    *request(0, [BASE], op=2, launch=2),
    *request(1, [64], op=3, launch=2, space=1),
]


@pytest.mark.parametrize(("launch", "chosen"), [(0, ROWS), (2, ROWS[-2:])])
def test_all_accesses_are_written(make_trace, tmp_path, launch, chosen):
    trace = make_trace(access=ROWS, kernel=KERNELS)
    report = pasta.run("mem_trace", trace=trace, launch=launch, out=tmp_path / "o")
    written = pl.read_parquet(tmp_path / "o" / "mem_trace.parquet")
    assert written.select(chosen[0].keys()).to_dicts() == chosen
    names = {1: "first", 2: "second"}
    assert written["kernel"].to_list() == [names[row["launch_id"]] for row in chosen]
    assert report.facts["accesses"] == len(chosen)


def test_launches_are_summed(make_trace):
    report = pasta.run("mem_trace", trace=make_trace(access=ROWS, kernel=KERNELS))
    columns = ("kernel", "accesses", "requests", "reads", "writes", "atomics", "prefetches", "bytes")  # fmt: skip
    assert report.tables["most"].select(columns).rows() == [
        ("first", 34, 2, 32, 2, 0, 0, 264),
        ("second", 2, 2, 0, 0, 1, 1, 8),
    ]
    assert report.findings == ["2 launches make 36 accesses of 272 B in 4 requests; --out writes them all"]  # fmt: skip


def test_a_bar_is_all_launches_of_a_kernel(make_trace):
    kernels = [{**row, "name": "one"} for row in KERNELS]
    report = pasta.run("mem_trace", trace=make_trace(access=ROWS, kernel=kernels))
    [bars] = [part for part in report.parts if isinstance(part, ChartPart)]
    assert bars.rows.select("kernel", "accesses").rows() == [("one", 36)]
