"""A file for each table of a trace, in a folder: CSV and Arrow."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from pasta.errors import InputError
from pasta.exports.exporter import Exported, exporter
from pasta.trace import Trace


@exporter("csv")
def export_csv(trace: Trace, out: str) -> Exported:
    """Write `TABLE.csv` for each table; the items of a list are joined by `;`.

    Raises:
        InputError: `out` is there already and is no empty folder.
    """
    exported, folder = Exported(), _folder(out)
    for table in trace.tables():
        rows = trace.scan(table)
        lists = [name for name, kind in rows.collect_schema().items() if kind == pl.List]
        texts = [pl.col(name).cast(pl.List(pl.String)).list.join(";") for name in lists]
        rows.with_columns(texts).sink_csv(folder / f"{table}.csv")
        exported.rows[table] = trace.rows(table)
    return exported


@exporter("arrow")
def export_arrow(trace: Trace, out: str) -> Exported:
    """Write `TABLE.arrow`, Arrow's IPC format, for each table.

    Raises:
        InputError: `out` is there already and is no empty folder.
    """
    exported, folder = Exported(), _folder(out)
    for table in trace.tables():
        trace.scan(table).sink_ipc(folder / f"{table}.arrow")
        exported.rows[table] = trace.rows(table)
    return exported


def _folder(out: str) -> Path:
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is there already; name a new folder for a file of each table")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
