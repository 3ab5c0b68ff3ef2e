"""A file for each table of a trace, in a folder: CSV and Arrow."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from pasta.errors import InputError
from pasta.exports.exporter import Exported, exporter
from pasta.trace import Trace

_BETWEEN = ";"
_RUN_TOGETHER = "items of lists with `;` in them: written as several"
_UNKNOWN = "unknown items of lists: written as empty texts"
_ALONE = "lists of one item, empty or unknown: written as lists of none"


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
        for name in lists:
            for reason, count in _not_told_apart(rows, name).items():
                exported.lose(reason, count)
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


def _not_told_apart(rows: pl.LazyFrame, column: str) -> dict[str, int]:
    """Return how often the texts of a column's lists hide something, by what."""
    lists = pl.col(column)
    items = lists.explode(empty_as_null=False, keep_nulls=False)
    only = lists.filter(lists.list.len() == 1).list.first().cast(pl.String)
    hidden = {_UNKNOWN: items.null_count(), _ALONE: (only.fill_null("") == "").sum()}
    if rows.collect_schema()[column] == pl.List(pl.String):
        hidden[_RUN_TOGETHER] = items.str.contains(_BETWEEN, literal=True).sum()
    counts = rows.select(count.cast(pl.Int64).alias(what) for what, count in hidden.items())
    return counts.collect(engine="streaming").row(0, named=True)


def _folder(out: str) -> Path:
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: is there already; name a new folder for a file of each table")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
