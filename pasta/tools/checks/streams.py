"""Kernels that overlap on one stream, and those that last past the end of the ones after them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from pasta.tools.checks.words import named, of, share, time
from pasta.trace import Trace
from pasta.trace_join.reading import batches

STREAM = ["rank", "pid", "device", "context", "stream"]

_COLUMNS = [*STREAM, "ts", "dur"]


def stream_warnings(trace: Trace) -> list[str]:
    """Say how many kernels overlap on their stream, and which one outlasts its successors."""
    if not trace.has("kernel"):
        return []
    found = _Streams()
    for files in _files_by_folder(trace):
        if not found.read(files):
            return [
                (
                    f"{files[0].parent} is not in order of time, as in a trace that is not finished:"
                    " kernels that overlap were not looked for"
                )
            ]
    return [*_overlap(trace, found), *_outlasting(trace, found)]


def _overlap(trace: Trace, found: _Streams) -> Iterator[str]:
    if found.overlapping:
        first, most = (named(trace, "kernel", _is(one)) for one in (found.first, found.most))
        also_first = "" if first == most else f" (first: {first})"
        yield (
            f"{of(found.overlapping, found.kernels, 'kernels')} begin before the one before them on"
            f" their stream has ended, by up to {time(found.most['overlap'])} ({most}), so that"
            f" durations add up to more than busy time{also_first}"
        )


def _outlasting(trace: Trace, found: _Streams) -> Iterator[str]:
    if found.outlasting:
        worst = found.longest
        yield (
            f"{of(found.outlasting, found.kernels, 'kernels')} last past the end of kernels that"
            f" follow on their stream, which a stream does not allow; the longest takes"
            f" {time(worst['dur'])}, {share(worst['dur'], found.duration)} of all kernel time, and covers"
            f" {worst['covered']:,} others ({named(trace, 'kernel', _is(worst))}): doubt its end"
        )


def _is(one: dict[str, int]) -> pl.Expr:
    return pl.all_horizontal(pl.col(c).eq_missing(one[c]) for c in _COLUMNS)


def _files_by_folder(trace: Trace) -> Iterator[list[Path]]:
    """Yield the files of kernels of each folder; those of one are in order of time."""
    files = trace.files("kernel")
    for folder in dict.fromkeys(file.parent for file in files):
        yield [file for file in files if file.parent == folder]


@dataclass
class _Streams:
    """What is found about the kernels of all streams.

    Attributes:
        kernels: how many there are.
        duration: their durations, summed.
        overlapping: those that begin before an earlier one of their stream has ended.
        first: the first of these.
        most: the one of these with the longest overlap.
        outlasting: those at whose end a later one of their stream has ended already.
        longest: the one of these with the longest duration.
    """

    kernels: int = 0
    duration: int = 0
    overlapping: int = 0
    first: dict[str, int] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    outlasting: int = 0
    longest: dict[str, int] = field(default_factory=dict)

    def read(self, files: list[Path]) -> bool:
        """Add the kernels of files that follow one another; false where they are not in order."""
        open_ = _NO_ROWS
        latest = None
        for batch in _batches(files):
            if not batch["ts"].is_sorted() or (latest is not None and batch["ts"][0] < latest):
                return False
            latest = batch["ts"][-1]
            self.kernels += batch.height
            self.duration += int(batch["dur"].sum())
            open_ = self._add(open_, batch)
        self._close(open_)
        return True

    def _add(self, before: pl.DataFrame, batch: pl.DataFrame) -> pl.DataFrame:
        """Add kernels, given the one of each stream that ends last so far; return these anew."""
        new = batch.filter(pl.col("dur") > 0).with_columns(
            _END.alias("end"), covered=pl.lit(0, pl.Int64), new=True
        )
        rows = pl.concat([before, new.select(before.columns)]).with_row_index("row")
        rows = _numbered_by_stream(rows)
        ended = pl.col("end").cum_max().shift(1).over("of_stream")
        rows = rows.with_columns(ended=ended)
        overlaps = rows.filter("new", pl.col("ended") > pl.col("ts"))
        if overlaps.height:
            self._add_overlaps(overlaps)
            rows = _with_covered(rows)
        rows = rows.with_columns(new=False)
        last = rows.select(pl.col("row").last().over("of_stream") == pl.col("row")).to_series()
        self._close(rows.filter(~last))
        return rows.filter(last).select(before.columns)

    def _add_overlaps(self, rows: pl.DataFrame) -> None:
        rows = rows.with_columns(overlap=pl.min_horizontal("ended", "end") - pl.col("ts"))
        self.overlapping += rows.height
        first = rows.row(0, named=True)
        if not self.first or first["ts"] < self.first["ts"]:
            self.first = first
        most = rows.row(int(rows["overlap"].arg_max() or 0), named=True)
        if not self.most or most["overlap"] > self.most["overlap"]:
            self.most = most

    def _close(self, held: pl.DataFrame) -> None:
        """Count those of kernels, no longer the last to end on their stream, that covered others."""
        rows = held.filter(pl.col("covered") > 0)
        if not rows.height:
            return
        self.outlasting += rows.height
        longest = rows.row(int(rows["dur"].arg_max() or 0), named=True)
        if not self.longest or longest["dur"] > self.longest["dur"]:
            self.longest = longest


def _numbered_by_stream(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with a number of their stream, which is faster to group by than its columns."""
    known = rows.select(STREAM).unique().with_row_index("of_stream")
    return rows.join(known, on=STREAM, how="left", nulls_equal=True, maintain_order="left")


def _with_covered(rows: pl.DataFrame) -> pl.DataFrame:
    """Return those that end later than all before them, with how many others do not until the next."""
    holds = pl.col("ended").is_null() | (pl.col("end") > pl.col("ended"))
    holder = pl.when(holds).then("row").forward_fill().over("of_stream")
    totals = rows.group_by(holder.alias("row")).agg((pl.len() - 1).cast(pl.Int64).alias("more"))
    held = rows.filter(holds).join(totals, on="row", how="left", maintain_order="left")
    return held.with_columns(pl.col("covered") + pl.col("more")).drop("more")


_END = pl.col("ts") + pl.col("dur")
_NO_ROWS = pl.DataFrame(
    schema={
        "rank": pl.Int32,
        "pid": pl.Int64,
        "device": pl.Int32,
        "context": pl.Int64,
        "stream": pl.Int64,
        "ts": pl.Int64,
        "dur": pl.Int64,
        "end": pl.Int64,
        "covered": pl.Int64,
        "new": pl.Boolean,
    }
)


def _batches(files: list[Path]) -> Iterator[pl.DataFrame]:
    for batch in batches(files, "kernel", _COLUMNS):
        known = batch.drop_nulls(["ts", "dur"])
        if known.height:
            yield known
