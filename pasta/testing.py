"""Small traces written by hand, for tests of tools, stages and importers."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from pasta.schema import arrow_schema
from pasta.trace import Trace
from pasta.trace_writer import TraceWriter


def write_trace(folder: Path, **tables: list[dict[str, object]]) -> Trace:
    """Write a trace from rows given as dicts: `write_trace(tmp_path / "t", kernel=[...])`.

    Args:
        folder: a folder that does not exist yet or is empty.
        tables: rows of each table; columns that a row leaves out are null, but `rank` is 0 and `pid` 1.
    """
    writer = TraceWriter(folder, {"command": "hand-written"})
    part = writer.part()
    for table, rows in tables.items():
        complete = [{"rank": 0, "pid": 1, **row} for row in rows]
        part.append(table, pa.Table.from_pylist(complete, schema=arrow_schema(table)))
    part.finish()
    writer.finish()
    return Trace.open(folder)
