"""Rows gathered one by one, or given as columns, reach their table in order."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from pasta.collect.shaping import rows as rows_module
from pasta.collect.shaping.rows import Rows
from pasta.trace_writer import PartWriter


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_rows_and_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr(rows_module, "_BATCH_ROWS", batch)
    part = PartWriter(tmp_path / "part")
    rows = Rows(part, "metric", "pid", "name", "value")
    for number in range(3):
        rows.add(7, f"n{number}", number / 2)
    rows.add_columns(pa.array([8], pa.int64()), pa.array(["c"]), pa.array([None], pa.float64()))
    rows.add(9, "last", 1.0)
    rows.flush()
    rows.flush()
    part.finish()
    found = pl.read_parquet(tmp_path / "part" / "metric" / "*.parquet")
    assert found.select("pid", "name", "value", "ts").rows() == [
        (7, "n0", 0.0, None),
        (7, "n1", 0.5, None),
        (7, "n2", 1.0, None),
        (8, "c", None, None),
        (9, "last", 1.0, None),
    ]
