"""Importing the files that a vendor's tool left of a run into the trace of that run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import polars as pl
import pyarrow.parquet as pq

from pasta.collect.counters import Focus
from pasta.collect.importing import import_part
from pasta.collect.losses import Losses
from pasta.collect.receive import Receiver
from pasta.collect.wrappers import Wrapper
from pasta.errors import InputError
from pasta.trace_writer import PartWriter

_IDS = ("span_id", "parent_id", "external_id", "stack_id", "object_id")
_FIRST_ID = 1 << 48
"""Added to ids of a file, and again for the next, beyond those that other collectors gave out."""
_NOTHING = "the tool left no file to import"
_UNKNOWN = "files that this version of pasta has no importer for: kept"
_FAILED = "files that could not be imported: kept"


class WrappedFiles:
    """The files of one tool, as rows of a trace that is being recorded.

    Rows of a process that other collectors know are of its rank, all others of the launcher's.

    Args:
        wrapper: the tool.
        focus: what it is to look at.
        folder: where it writes, inside the trace; made here.
        receiver: what takes the rows.
        rank: rank of the launcher.
        pid: the launcher, on which losses are booked.
    """

    def __init__(
        self,
        wrapper: Wrapper,
        focus: Focus,
        folder: Path,
        receiver: Receiver,
        *,
        rank: int,
        pid: int,
    ) -> None:
        folder.mkdir(parents=True)
        self._wrapper = wrapper
        self._focus = focus
        self._folder = folder
        self._receiver = receiver
        self._rank, self._pid = rank, pid

    def around(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs `command` under the tool."""
        return self._wrapper.around(command, self._folder, self._focus)

    def add(self) -> list[str]:
        """Import what can be imported; return a line for each thing that cannot.

        A file is imported wholly or not at all, and stays where it is.
        """
        losses = Losses(self._wrapper.name)
        lines = self._wrapper.export(self._folder, self._focus, losses)
        files = sorted(self._folder.rglob(self._wrapper.files))
        for number, file in enumerate(files, 1):
            try:
                known = self._add(file, number * _FIRST_ID)
            except Exception as error:  # noqa: BLE001 - whatever it is, the trace must not be lost
                losses.fault(_FAILED)
                lines.append(f"{file}: kept, not imported: {_why(error, file)}")
                continue
            if not known:
                losses.skip(_UNKNOWN)
                lines.append(f"{file}: kept; this version of pasta has no importer for it")
        if not files and not lines:
            losses.fault(_NOTHING)
            lines.append(f"{self._wrapper.name}: left no {self._wrapper.files} in {self._folder}")
        self._receiver.append(self._rank, "loss", losses.rows(self._rank, self._pid))
        return lines

    def _add(self, file: Path, first_id: int) -> bool:
        """Import one file; tell whether there is an importer for it."""
        with tempfile.TemporaryDirectory(prefix=".importing-", dir=self._folder) as scratch:
            part = import_part(file, Path(scratch) / "part", self._rank)
            if part is None:
                return False
            ranks = {pid: rank for rank, pid in self._receiver.processes}
            rank = pl.col("pid").replace_strict(ranks, default=self._rank, return_dtype=pl.Int32)
            for table, rows in _batches(part):
                ids = pl.col([name for name in _IDS if name in rows.columns])
                unique = pl.when(ids > 0).then(ids + first_id).otherwise(ids)
                self._append(table, rows.with_columns(unique, rank=rank))
        return True

    def _append(self, table: str, rows: pl.DataFrame) -> None:
        for (rank,), group in rows.group_by("rank", maintain_order=True):
            arrow = group.to_arrow(compat_level=pl.CompatLevel.oldest())
            self._receiver.append(cast("int", rank), table, arrow)


def _batches(part: PartWriter) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the rows of an imported part by table, in pieces that fit into memory."""
    for table in part.rows:
        for file in sorted((part.folder / table).glob("*.parquet")):
            with pq.ParquetFile(file) as parquet:
                for batch in parquet.iter_batches():
                    rows = pl.from_arrow(batch)
                    assert isinstance(rows, pl.DataFrame)  # noqa: S101
                    yield table, rows


def _why(error: Exception, file: Path) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, InputError):
        return text.removeprefix(f"{file}: ")
    return f"{type(error).__name__}: {text}"
