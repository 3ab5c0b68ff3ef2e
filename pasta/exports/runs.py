"""Rows of several tables in order of time, slice after slice, in bounded memory.

A file whose rows are in order of time is read as it is. Any other is cut into runs that are sorted and
written to a scratch folder. All runs are then read side by side, a batch of each at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import cast

import polars as pl
import pyarrow.parquet as pq

from pasta.trace import Trace, empty_table

RUN_ROWS = 1 << 18
HELD_ROWS = 1 << 18
_BATCH_ROWS_MIN, _BATCH_ROWS_MAX = 1 << 10, 1 << 16
_GROUP_ROWS = 1 << 15


class Run:
    """Rows in order of `ts`, of which as much is held as is needed next.

    Attributes:
        table: whose rows.
        finished: whether all that is left is held.

    Args:
        table: whose rows.
        files: that hold them, one after the other.
        columns: that are read; those that a file lacks are null.
    """

    def __init__(self, table: str, files: Sequence[Path], columns: Sequence[str]) -> None:
        self.table = table
        self.finished = False
        self._files = files
        self._columns = columns
        self._batches: Iterator[pl.DataFrame] = iter(())
        self._none = pl.DataFrame(schema=_schema(table, columns))
        self._held = self._following = self._none

    def begin(self, batch_rows: int) -> None:
        """Read the first rows."""
        self._batches = chain.from_iterable(
            batches(file, self.table, self._columns, batch_rows) for file in self._files
        )
        self.read()
        self.read()

    def read(self) -> None:
        """Hold one more batch, and know whether there is another after it."""
        self._held = pl.concat([self._held, self._following])
        found = next((batch for batch in self._batches if batch.height), None)
        self.finished = found is None
        self._following = self._none if found is None else found

    @property
    def last(self) -> int:
        """The time of the last row that is held."""
        return int(self._held["ts"][-1])

    def take(self, before: int | None) -> pl.DataFrame:
        """Return the rows that are held and begin `before` a time, or all, and hold them no more."""
        times = self._held["ts"]
        count = len(times) if before is None else int(times.search_sorted(before, side="left"))
        taken, self._held = self._held.head(count), self._held.slice(count)
        return taken


def slices(runs: Sequence[Run]) -> Iterator[dict[str, pl.DataFrame]]:
    """Give the rows of all runs by table, slice after slice of time, each sorted by `ts`.

    All rows of one time are in one slice; those of one table stay in the order of the runs.
    """
    rows = min(max(HELD_ROWS // max(len(runs), 1), _BATCH_ROWS_MIN), _BATCH_ROWS_MAX)
    for run in runs:
        run.begin(rows)
    unfinished = [run for run in runs if not run.finished]
    while unfinished:
        bound = min(run.last for run in unfinished)
        yield from _taken(runs, bound)
        for run in unfinished:
            if run.last == bound:
                run.read()
        unfinished = [run for run in unfinished if not run.finished]
    yield from _taken(runs, None)


def _taken(runs: Sequence[Run], before: int | None) -> Iterator[dict[str, pl.DataFrame]]:
    found: dict[str, list[pl.DataFrame]] = {}
    for run in runs:
        rows = run.take(before)
        if rows.height:
            found.setdefault(run.table, []).append(rows)
    if found:
        yield {table: _sorted(pieces) for table, pieces in found.items()}


def _sorted(pieces: list[pl.DataFrame]) -> pl.DataFrame:
    if len(pieces) == 1:
        return pieces[0]
    return pl.concat(pieces).sort("ts", maintain_order=True)


def runs_of(trace: Trace, table: str, columns: Sequence[str], scratch: Path) -> list[Run]:
    """Return the rows of a table as runs, together in the order of its files.

    Args:
        trace: the trace.
        table: name of the table, which has a column `ts`.
        columns: that are read, `ts` among them.
        scratch: a folder for sorted copies of what is in no order.
    """
    found: list[list[Path]] = []
    latest: int | None = None
    for file in trace.files(table):
        extent = _extent(file, table)
        if extent is None:
            found += [[run] for run in _sorted_runs(file, table, columns, scratch)]
        elif latest is not None and extent[0] >= latest:
            found[-1].append(file)
        else:
            found.append([file])
        latest = None if extent is None else extent[1]
    return [Run(table, files, columns) for files in found]


def batches(
    file: Path, table: str, columns: Sequence[str], rows: int = _BATCH_ROWS_MAX
) -> Iterator[pl.DataFrame]:
    """Read some columns of a file in batches of so many rows at most; no row without a time.

    Texts are categories, as which the file mostly holds them.
    """
    schema = _schema(table, columns)
    texts = [name for name, kind in schema.items() if kind == pl.Categorical]
    opened = pq.ParquetFile(file, read_dictionary=texts)
    kept = [name for name in columns if name in opened.schema_arrow.names]
    for batch in opened.iter_batches(rows, columns=kept):
        frame = cast(pl.DataFrame, pl.from_arrow(batch))
        absent = [pl.lit(None).alias(name) for name in columns if name not in kept]
        whole = frame.with_columns(absent).select(columns).cast(schema)
        times = whole["ts"]
        timeless = times.null_count() or (whole.height and times.min() < 0)  # type: ignore[operator]
        yield whole.filter(pl.col("ts") >= 0) if timeless else whole


def _schema(table: str, columns: Sequence[str]) -> pl.Schema:
    schema = empty_table(table).select(columns).schema
    return pl.Schema(
        {name: pl.Categorical() if kind == pl.String else kind for name, kind in schema.items()}
    )


def _extent(file: Path, table: str) -> tuple[int, int] | None:
    """Return the first and last time in a file; `None`: its rows are in no order of time."""
    first, last = 0, 0
    began = False
    for batch in batches(file, table, ["ts"]):
        times = batch["ts"]
        if not len(times):
            continue
        if not times.is_sorted() or (began and times[0] < last):
            return None
        first = first if began else int(times[0])
        began, last = True, int(times[-1])
    return first, last


def _sorted_runs(file: Path, table: str, columns: Sequence[str], scratch: Path) -> Iterator[Path]:
    for batch in batches(file, table, columns, RUN_ROWS):
        path = scratch / f"{len(list(scratch.iterdir())):06d}.parquet"
        ordered = batch.sort("ts", maintain_order=True)
        ordered.write_parquet(path, compression="lz4", row_group_size=_GROUP_ROWS)
        yield path
