"""Working sets by three ways, to the end without a GPU: the recordings are made up, the analyses run."""

from __future__ import annotations

import polars as pl
import pytest

from benchmarks import three_analyses
from pasta.testing import write_trace

BASE = 0x7F0000000000
KERNELS = [{"launch_id": 1, "correlation": 1, "device": 0, "ts": 100, "dur": 10, "name": "k"}]
MEMORY = [
    {"device": 0, "ts": 1, "event": "allocate", "space": "device", "address": BASE, "bytes": 4096, "object_id": 1}
]  # fmt: skip
ACCESSES = [
    {"device": 0, "launch_id": 1, "request": 0, "lane": lane, "op": 0, "space": 0, "address": BASE + 512 * lane, "bytes": 4}
    for lane in range(3)
]  # fmt: skip
TOUCHES = [
    {"device": 0, "launch_id": 1, "span_id": 0, "space": space, "object_id": number, "granularity": 512, "unique_bytes": 3 * 512, "unique_read": 3 * 512}
    for space, number in (("global", 0), ("device", 1))
]  # fmt: skip


@pytest.fixture
def recorded(monkeypatch):
    def run(_model, collector, folder):
        rows = {
            three_analyses.TOUCH: {"touch": TOUCHES},
            three_analyses.ACCESS: {"access": ACCESSES},
        }
        if collector:
            write_trace(folder, kernel=KERNELS, memory=MEMORY, **rows[collector])
        return {None: 2.0, three_analyses.TOUCH: 3.0}.get(collector, 50.0)

    monkeypatch.setattr(three_analyses, "run", run)


def row(models):
    return dict(zip(three_analyses.COLUMNS, three_analyses.compared(models, 2), strict=True))


@pytest.mark.usefixtures("recorded")
def test_an_analysis_that_fails_leaves_its_column_empty(monkeypatch, capfd):
    monkeypatch.setattr(three_analyses, "ENGINES", ("cpu", "no_engine"))
    found = row("bert:1")
    assert (found["bare ms"], found["bare spread"]) == ("2.00", "1.00-1.00")
    assert (found["touch"], found["access"], found["accesses"]) == ("1.50x", "25.0x", "3")
    assert float(found["touch: analysis s"]) > 0
    assert float(found["from accesses, cpu s"]) > 0
    assert found["from accesses, gpu s"] == ""
    assert found["largest working set"] == "1536"
    assert found["equal"].startswith("no: ")
    assert "touch_from_access on no_engine: failed" in capfd.readouterr().err


@pytest.mark.usefixtures("recorded")
def test_working_sets_are_compared(monkeypatch):
    def analysed(_tool, _trace, _engine, out):
        out.mkdir()
        columns = ("pc", "space", "unique_bytes")
        rows = pl.DataFrame([{column: row.get(column) for column in columns} for row in TOUCHES])
        rows.write_parquet(out / "touch.parquet")
        return 1.5

    monkeypatch.setattr(three_analyses, "analysed", analysed)
    found = row("bert:1")
    assert (found["from accesses, gpu s"], found["equal"]) == ("1.5", "yes")
    monkeypatch.setitem(TOUCHES[0], "unique_bytes", 512)
    assert row("bert:1")["largest working set"] == "512"
