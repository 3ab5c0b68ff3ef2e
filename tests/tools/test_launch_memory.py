"""`launch_memory` on three launches."""

from __future__ import annotations

import pasta
from tests.tools.memory_run import KERNELS, TABLES


def test_each_launch_has_its_counts(make_trace):
    report = pasta.run("launch_memory", trace=make_trace(**TABLES))
    rows = report.tables["most"].sort("launch_id")
    columns = ["name", "operator", "accesses", "bytes", "unique_bytes", "shared_accesses", "shared_bytes", "local_bytes"]  # fmt: skip
    assert rows.select(columns).rows() == [
        ("copy", "aten::copy_", 256, 1_024, 1_024, 0, 0, 0),
        ("sum", None, 110, 960, 1_536, 61, 244, 48),
        ("copy", "aten::copy_", 256, 1_024, 1_024, 0, 0, 0),
    ]
    assert report.findings == [
        "3 launches make 622 accesses of global memory, 61 of shared and 12 of local memory"
    ]


def test_rates_need_a_time(make_trace):
    kernels = [{**row, "dur": 512} if row["launch_id"] == 1 else row for row in KERNELS]
    rows = pasta.run("launch_memory", trace=make_trace(**{**TABLES, "kernel": kernels})).tables["most"]  # fmt: skip
    assert rows.sort("launch_id")["bytes_per_second"].to_list() == [2e9, None, None]


def test_without_counts(make_trace):
    touch = [row for row in TABLES["touch"] if row["space"] == "tensor"]
    report = pasta.run("launch_memory", trace=make_trace(**{**TABLES, "touch": touch}))
    assert report.findings == ["no launch of this trace has counts of its memory accesses"]
