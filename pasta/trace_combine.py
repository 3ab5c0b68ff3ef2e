"""Making one trace of several that were recorded apart, as of the ranks of one run.

Ranks are written one after the other. What only one trace has of a rank is taken file by file; rows that
have to be put together are streamed and sorted in bounded memory.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from pasta.errors import TraceError
from pasta.trace import RANK_FOLDER, Trace
from pasta.trace_join.reading import batches
from pasta.trace_writer import PartWriter, TraceWriter

PROCESS = ["rank", "pid"]
TIMES = ("ts", "started", "ended", "first_ts")
"""Every column, of whatever table, that holds a moment."""


@dataclass(frozen=True)
class Combined:
    """What came of combining traces.

    Attributes:
        path: the new trace.
        ranks: how many ranks it has.
        rows: rows by table.
        notes: what to know of it, one sentence each.
    """

    path: Path
    ranks: int
    rows: dict[str, int]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Origin:
    """One rank of a trace, the rank that it becomes, and the ns added to its times."""

    trace: Trace
    rank: int
    becomes: dict[int, int]
    shift: int = 0


def combine_traces(
    traces: Sequence[Trace],
    out: Path,
    *,
    renumber: bool = False,
    info: Mapping[str, Any] | None = None,
) -> Combined:
    """Make one trace of several.

    Args:
        traces: traces on one clock, whose processes differ in rank or pid.
        out: folder of the new trace; absent or empty.
        renumber: number the ranks anew, in the order of the traces, instead of keeping them.
        info: what `trace.json` says beside what it says of any such trace.

    Raises:
        TraceError: two traces have a process in common, or `out` holds something.
    """
    processes = [_processes(trace) for trace in traces]
    numbers = _numbered(processes) if renumber else [{rank: rank for rank in p} for p in processes]
    if not renumber:
        _check_apart(traces, processes)
    told = {**_info(traces, numbers), **(info or {})}
    writer = TraceWriter(out, told, beside=[trace.path for trace in traces])
    origins: dict[int, list[_Origin]] = {}
    for trace, becomes in zip(traces, numbers, strict=True):
        for rank, number in becomes.items():
            origins.setdefault(number, []).append(_Origin(trace, rank, becomes))
    with writer.removed_on_failure():
        for number in sorted(origins):
            _write_rank(origins[number], number, out / RANK_FOLDER.format(number))
        writer.finish()
    return _combined(out, len(origins))


def shift_ranks(
    trace: Trace, out: Path, shifts: Mapping[int, int], clock: Mapping[str, Any]
) -> Combined:
    """Write a trace in which the times of ranks are shifted.

    Args:
        trace: the trace.
        out: folder of the new trace; absent or empty.
        shifts: rank -> ns to add to all of its times; 0 for ranks that are not named.
        clock: what `trace.json` then says of the clock, beside what it says already.

    Raises:
        TraceError: `out` holds something.
    """
    ranks = _processes(trace)
    kept = {rank: rank for rank in ranks}
    known = trace.info.get("clock")
    before = known if isinstance(known, dict) else {"kind": known}
    writer = TraceWriter(out, trace.info | {"state": "recording"}, beside=[trace.path])
    with writer.removed_on_failure():
        for rank in ranks:
            origin = _Origin(trace, rank, kept, shifts.get(rank, 0))
            _write_rank([origin], rank, out / RANK_FOLDER.format(rank))
        writer.finish(clock={**before, **clock, **_recorded(Trace.open(out))})
    return _combined(out, len(ranks))


def _recorded(trace: Trace) -> dict[str, int | None]:
    """Return when the recording of a trace began and ended, as its processes tell."""
    if not trace.has("process"):
        return {}
    times = trace.scan("process").select(pl.col("started").min(), pl.col("ended").max())
    first, last = times.collect().row(0)
    return {"first_ts": first, "last_ts": last}


def _combined(out: Path, ranks: int) -> Combined:
    trace = Trace.open(out)
    return Combined(out, ranks, {table: trace.rows(table) for table in trace.tables()})


def _processes(trace: Trace) -> dict[int, set[int]]:
    """Return the pids of each rank; rows that name none are of process 0."""
    found: dict[int, set[int]] = {}
    for table in trace.tables():
        pairs = trace.scan(table).select(pl.col(PROCESS).fill_null(0)).unique()
        for rank, pid in pairs.collect(engine="streaming").rows():
            found.setdefault(rank, set()).add(pid)
    return dict(sorted(found.items()))


def _numbered(processes: Sequence[dict[int, set[int]]]) -> list[dict[int, int]]:
    """Return, for each trace, the new number of each of its ranks."""
    found: list[dict[int, int]] = []
    for ranks in processes:
        first = sum(map(len, found))
        found.append({rank: first + place for place, rank in enumerate(ranks)})
    return found


def _check_apart(traces: Sequence[Trace], processes: Sequence[dict[int, set[int]]]) -> None:
    owners: dict[tuple[int, int], Trace] = {}
    for trace, ranks in zip(traces, processes, strict=True):
        for process in ((rank, pid) for rank, pids in ranks.items() for pid in pids):
            other = owners.setdefault(process, trace)
            if other is not trace:
                raise TraceError(
                    f"{other.path} and {trace.path}: both have process {process[1]} of rank"
                    f" {process[0]}; if they are not the same run, number ranks anew: --renumber"
                )


def _info(traces: Sequence[Trace], numbers: Sequence[dict[int, int]]) -> dict[str, Any]:
    """Return what `trace.json` says: what all traces say alike, and each as it was."""
    first = traces[0].info
    alike = {
        name: value
        for name, value in first.items()
        if name in ("command", "clock") and all(t.info.get(name) == value for t in traces)
    }
    for trace in traces:
        if serialized := trace.info.get("serialized"):
            alike["serialized"] = serialized  # one such run is enough to make times of all doubtful
    collectors = [given for trace in traces for given in trace.info.get("collectors", [])]
    distinct = [given for place, given in enumerate(collectors) if given not in collectors[:place]]
    ranks = sorted({number for becomes in numbers for number in becomes.values()})
    merged = [{"path": str(trace.path), **trace.info} for trace in traces]
    return {**alike, "collectors": distinct, "ranks": ranks, "merged": merged}


def _write_rank(origins: Sequence[_Origin], number: int, folder: Path) -> None:
    """Write one rank of the new trace, into a folder that was none before."""
    if folder.exists():
        raise TraceError(f"{folder}: is there already; choose another -o")
    if len(origins) == 1 and origins[0].rank == number and not origins[0].shift:
        origin = origins[0]
        files = {table: origin.trace.files(table) for table in origin.trace.tables()}
        own = {
            table: [file for file in given if _holds(file, number, only=False)]
            for table, given in files.items()
        }
        whole = all(_holds(file, number, only=True) for given in own.values() for file in given)
        if whole and origin.trace.info.get("state") == "complete":
            _take_files(own, folder)
            return
    part = PartWriter(folder)
    for origin in origins:
        for table in origin.trace.tables():
            for rows in _rows(origin, table):
                part.append(table, rows.to_arrow(compat_level=pl.CompatLevel.oldest()))
    part.finish()


def _holds(file: Path, rank: int, *, only: bool) -> bool:
    """Tell whether a file may hold rows of a rank, or certainly `only` such, by its statistics."""
    footer = pq.read_metadata(file)
    names = [footer.schema.column(place).path for place in range(footer.num_columns)]
    for place in range(footer.num_row_groups):
        found = footer.row_group(place).column(names.index("rank")).statistics
        if found is None or not found.has_min_max or found.null_count != 0:
            return not only
        low, high = int(found.min), int(found.max)  # type: ignore[arg-type]
        if only and (low, high) != (rank, rank):
            return False
        if not only and low <= rank <= high:
            return True
    return only


def _take_files(files: dict[str, list[Path]], folder: Path) -> None:
    """Link or copy files of one rank, numbered anew."""
    for table, given in files.items():
        for number, file in enumerate(given):
            target = folder / table / f"{number:06d}.parquet"
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(file, target)
            except OSError:
                shutil.copyfile(file, target)


def _rows(origin: _Origin, table: str) -> Iterator[pl.DataFrame]:
    """Yield the rows of a rank, in terms of the new trace."""
    files = origin.trace.files(table)
    held = [file for file in files if _holds(file, origin.rank, only=False)]
    for rows in batches(held, table):
        own = rows.filter(pl.col("rank").fill_null(0) == origin.rank)
        yield _shifted(_renumbered(own, origin.becomes, origin.rank), origin.shift)


def _shifted(rows: pl.DataFrame, shift: int) -> pl.DataFrame:
    """Return rows with `shift` added to their times."""
    return rows.with_columns(pl.col(name) + shift for name in TIMES if name in rows.columns)


def _renumbered(rows: pl.DataFrame, becomes: dict[int, int], rank: int) -> pl.DataFrame:
    """Return rows of a rank with its new number; ranks that their trace lacks are unknown."""
    if becomes[rank] == rank and all(old == new for old, new in becomes.items()):
        return rows
    changed = [pl.lit(becomes[rank], pl.Int32).alias("rank")]
    old, new = list(becomes), list(becomes.values())
    if "peer" in rows.columns:
        changed.append(pl.col("peer").replace_strict(old, new, default=None, return_dtype=pl.Int32))
    if "members" in rows.columns:
        element = pl.element().replace_strict(old, new, default=None, return_dtype=pl.Int64)
        members = pl.col("members").list.eval(element)
        unknown = members.list.eval(pl.element().is_null()).list.any()
        changed.append(pl.when(~unknown).then(members).alias("members"))
    return rows.with_columns(changed)
