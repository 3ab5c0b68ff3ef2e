"""A timed scan gives the rows that an ordinary one gives, and logs when it read them."""

from __future__ import annotations

from types import SimpleNamespace

import polars as pl
import pytest

distributed = pytest.importorskip("distributed")

ROWS = pl.LazyFrame({"a": [3, 1, 2], "b": ["x", "y", "x"]})


def test_a_timed_scan_gives_the_rows_and_logs_each_reading(monkeypatch):
    from pasta.pipeline.engines.timings import timed_reading

    logged = []
    worker = SimpleNamespace(
        scheduler_delay=0.0, address="w", log_event=lambda topic, span: logged.append((topic, span))
    )
    monkeypatch.setattr(distributed, "get_worker", lambda: worker)
    rows = timed_reading(ROWS, "reads")
    assert not logged
    assert rows.filter(pl.col("b") == "x").select("a").collect()["a"].to_list() == [3, 2]
    assert rows.head(2).collect().height == 2
    assert rows.select(rows=pl.len().cast(pl.Int64)).collect().item() == 3
    assert [topic for topic, _ in logged] == ["reads"] * 3
    assert all(span.begin <= span.end for _, span in logged)
