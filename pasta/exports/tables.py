"""A file for each table of a trace, in a folder: CSV and Arrow."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from pasta.errors import InputError
from pasta.exports.exporter import Exported, exporter
from pasta.trace import Trace

_BETWEEN = ";"
_RUN_TOGETHER = "items of lists with `;` in them: written as several"


@exporter("csv")
def export_csv(trace: Trace, out: str) -> Exported:
    """Write `TABLE.csv` for each table; the items of a list are joined by `;`, unknown ones as empty texts.

    Raises:
        InputError: `out` is there already and is no empty folder.
    """
    exported, folder = Exported(), _folder(out)
    for table in trace.tables():
        rows = trace.scan(table)
        lists = [name for name, kind in rows.collect_schema().items() if kind == pl.List]
        items = [pl.col(name).cast(pl.List(pl.String)) for name in lists]
        texts = [each.list.eval(pl.element().fill_null("")).list.join(_BETWEEN) for each in items]
        rows.with_columns(texts).sink_csv(folder / f"{table}.csv")
        exported.rows[table] = trace.rows(table)
        exported.lose(_RUN_TOGETHER, sum(_with_separators(rows, name) for name in lists))
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


def _with_separators(rows: pl.LazyFrame, lists: str) -> int:
    """Return how many items of a column of lists hold what is put between items."""
    kind = rows.collect_schema()[lists]
    if kind != pl.List(pl.String):
        return 0
    items = rows.select(pl.col(lists).explode(empty_as_null=True))
    held = pl.col(lists).str.contains(_BETWEEN, literal=True).sum()
    return int(items.select(held).collect(engine="streaming").item())


def _folder(out: str) -> Path:
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is there already; name a new folder for a file of each table")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
