"""Writing the joined trace: all of the timeline run, and the memory run's tables renamed."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa

from pasta.schema import TABLES
from pasta.trace import RANK_FOLDER, Trace, empty_table
from pasta.trace_join.matching import PROCESS, Process
from pasta.trace_join.naming import Names
from pasta.trace_join.reading import batches, by_folder, by_process, folders_of_ranks, whole
from pasta.trace_join.renaming import Renaming
from pasta.trace_writer import PartWriter

COLLECTOR = "join"

_OF_LAUNCHES = ("touch", "access", "event", "metric")
_IN_SPACES = ("memory", "touch")
_HOST = ("span", "call")
_IDENTITY = {"process": [], "thread": ["tid"], "device": ["device"]}
_MOMENTS = ("started", "ended", "first_ts")
_SPACE = {"rank": pl.Int32, "pid": pl.Int64, "space": pl.String}
_ZERO = pl.lit(0, pl.UInt64)

_BY_OPERATORS = (
    "touches by operators of the memory run: left out, since the spans are the timeline run's"
)
_NO_LAUNCH = "rows of {} of the memory run without a known launch: left out"
_REPLACED = (
    "rows of {} of the timeline run in memory spaces that the memory run has too: left out, so that"
    " touches and objects agree"
)


class JoinedTables:
    """The tables of a joined trace, in folders as the timeline run has them.

    Args:
        timeline: the timeline run.
        memory: the memory run.
        names: the memory run's processes in the timeline run's terms.
        out: the joined trace's folder.

    Attributes:
        losses: what was left out or not trusted, by process in the timeline run's terms and reason.
        takes_host: whether calls and spans are the memory run's, as the timeline run has neither.
    """

    def __init__(self, timeline: Trace, memory: Trace, names: Names, out: Path) -> None:
        self.losses: Counter[tuple[Process, str]] = Counter()
        self.takes_host = not any(timeline.files(table) for table in _HOST)
        self._timeline = timeline
        self._memory = memory
        self._names = names
        self._out = out
        self._folders = folders_of_ranks(timeline)
        self._parts: dict[Path, PartWriter] = {}
        self._spaces: set[tuple[int, int, str]] = set()

    def write(self) -> None:
        """Write every table but `loss`."""
        for table in ("kernel", "memory", *_OF_LAUNCHES, "frame"):
            self._take(table)
        if self.takes_host:
            for table in _HOST:
                self._take(table)
        for table in _IDENTITY:
            self._complete(table)
        for table in TABLES:
            if table != "loss":
                self._keep(table)

    def finish(self) -> None:
        """Write the losses of both runs and of the join, and sort all that was written."""
        self._keep("loss")
        for rows in batches(self._memory.files("loss"), "loss"):
            for process, lost in by_process(rows):
                self._append(process[0], "loss", self._lost(process, lost))
        for ((rank, pid), reason), count in sorted(self.losses.items()):
            loss = {"rank": rank, "pid": pid, "collector": COLLECTOR, "reason": reason}
            rows = pl.DataFrame([{**loss, "count": count}], schema=empty_table("loss").schema)
            self._append(rank, "loss", rows)
        for part in self._parts.values():
            part.finish()

    def _take(self, table: str) -> None:
        """Append the memory run's rows of a table, renamed."""
        for rows in batches(self._memory.files(table), table):
            for process, own in by_process(rows):
                renaming = self._names.of(process)
                self._append(process[0], table, self._renamed(table, own, renaming))

    def _renamed(self, table: str, rows: pl.DataFrame, renaming: Renaming) -> pl.DataFrame:
        if table in _OF_LAUNCHES:
            rows = self._of_launches(table, rows, renaming)
        elif table == "memory":
            rows = renaming.allocating(rows)
        elif table == "call":
            rows = renaming.caused(rows)
        elif table == "kernel":
            rows = renaming.unmatched(rows)
            if not self.takes_host:
                rows = rows.with_columns(correlation=_ZERO, external_id=_ZERO)
        if table in _IN_SPACES:
            spaces = rows.filter(pl.col("object_id") > 0)["space"].drop_nulls().unique()
            self._spaces.update((renaming.rank, renaming.pid, space) for space in spaces)
        return renaming.common(rows)

    def _of_launches(self, table: str, rows: pl.DataFrame, renaming: Renaming) -> pl.DataFrame:
        """Return the rows of known launches, and of operators where spans are the memory run's."""
        operators = rows.clear()
        if table == "touch":
            by_operator = (pl.col("launch_id") == 0) & (pl.col("span_id") > 0)
            operators, rows = rows.filter(by_operator), rows.filter(~by_operator)
            if not self.takes_host:
                self._lose(renaming, _BY_OPERATORS, operators.height)
                operators = operators.clear()
                rows = rows.with_columns(span_id=_ZERO)
        known = renaming.launched(rows)
        self._lose(renaming, _NO_LAUNCH.format(table), rows.height - known.height)
        return pl.concat([known, operators])

    def _complete(self, table: str) -> None:
        """Append the memory run's processes, threads and devices that the timeline run lacks."""
        identity = [*PROCESS, *_IDENTITY[table]]
        known = whole(self._timeline, table).select(identity)
        for process, rows in by_process(whole(self._memory, table)):
            renaming = self._names.of(process)
            changed = [renaming.moved(rows[name]) for name in _MOMENTS if name in rows.columns]
            if table == "process":
                changed.append(self._parents(process[0], rows["parent_pid"]))
            met = not renaming.known or pl.col("tid").is_in(list(renaming.threads))
            own = rows.with_columns(changed).filter(met if table == "thread" else True)
            lacking = renaming.common(own).join(
                known, on=identity, how="anti", maintain_order="left"
            )
            self._append(process[0], table, lacking)

    def _parents(self, rank: int, pids: pl.Series) -> pl.Series:
        """Return pids as they are in the timeline run; null where it is not known."""
        found = self._names.found
        there = [found[rank, pid].pid if (rank, pid) in found else None for pid in pids.to_list()]
        return pl.Series("parent_pid", there, dtype=pl.Int64)

    def _keep(self, table: str) -> None:
        """Put the timeline run's rows beside the memory run's, or its files where those have none."""
        replaced = pl.DataFrame(sorted(self._spaces), schema=_SPACE, orient="row")
        for folder, files in by_folder(self._timeline, table).items():
            replaces = table in _IN_SPACES and replaced.height > 0
            if not replaces and table != "loss" and table not in self._part(folder).rows:
                _link(files, self._out / folder / table)
                continue
            for rows in batches(files, table):
                kept = rows
                if replaces:
                    kept = rows.join(replaced, on=list(_SPACE), how="anti", maintain_order="left")
                    self._count_replaced(table, rows.join(replaced, on=list(_SPACE), how="semi"))
                self._part(folder).append(table, _arrow(kept))

    def _count_replaced(self, table: str, rows: pl.DataFrame) -> None:
        for rank, pid, count in rows.group_by(PROCESS).len().rows():
            self.losses[(rank, pid), _REPLACED.format(table)] += count

    def _lost(self, process: Process, rows: pl.DataFrame) -> pl.DataFrame:
        """Return losses of a process as they are told there; pasta's own process stays."""
        if process in self._names.found:
            renaming = self._names.found[process]
            return renaming.common(rows.with_columns(renaming.moved(rows["first_ts"])))
        return rows.with_columns(pl.col("first_ts") + self._names.shift)

    def _lose(self, renaming: Renaming, reason: str, count: int) -> None:
        if count:
            self.losses[(renaming.rank, renaming.pid), reason] += count

    def _append(self, rank: int, table: str, rows: pl.DataFrame) -> None:
        folder = self._folders.setdefault(rank, Path(RANK_FOLDER.format(rank)))
        self._part(folder).append(table, _arrow(rows))

    def _part(self, folder: Path) -> PartWriter:
        if folder not in self._parts:
            self._parts[folder] = PartWriter(self._out / folder)
        return self._parts[folder]


def _link(files: Sequence[Path], folder: Path) -> None:
    """Give finished files, which nobody changes any more, a second name; or copy them."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        try:
            os.link(file, folder / file.name)
        except OSError:
            shutil.copyfile(file, folder / file.name)


def _arrow(rows: pl.DataFrame) -> pa.Table:
    return rows.to_arrow(compat_level=pl.CompatLevel.oldest())
