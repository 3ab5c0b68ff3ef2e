"""Packing the source files that frames name into a trace, where it was recorded.

The lines become rows of the table `source`, so that nobody who reads the trace opens a file that it
names. What a trace says is not trusted here either: only files of source code are packed, of
programs that ran on this machine or below folders that the user names.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import socket
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pyarrow as pa

from pasta.errors import TraceError
from pasta.trace import RANK_FOLDER, Trace
from pasta.trace_writer import PartWriter

SUFFIXES = frozenset(
    [
        ".py",
        ".pyx",
        ".pyi",
        ".c",
        ".cc",
        ".cpp",
        ".cxx",
        ".cu",
        ".cuh",
        ".h",
        ".hh",
        ".hpp",
        ".hxx",
        ".inl",
        ".inc",
        ".ipp",
        ".rs",
        ".go",
        ".java",
        ".jl",
        ".f",
        ".f90",
        ".s",
        ".S",
    ]
)
"""Of files that hold source code."""

MOST_BYTES_OF_FILE = 1 << 20
MOST_BYTES = 1 << 24


@dataclass(frozen=True)
class Packed:
    """What came of packing.

    Attributes:
        files: files packed.
        lines: their lines.
        bytes: their sizes added up.
        left_out: why other files were not -> how many.
    """

    files: int
    lines: int
    bytes: int
    left_out: dict[str, int]


class _LeftOutError(Exception):
    """A file is not packed; with the reason."""


def pack_sources(
    trace: Trace,
    *,
    below: Sequence[Path] = (),
    most_bytes_of_file: int = MOST_BYTES_OF_FILE,
    most_bytes: int = MOST_BYTES,
) -> Packed:
    """Add the table `source` to a trace: the files that its frames name, those of most stacks first.

    Args:
        trace: a finished trace.
        below: take only files in these folders; without, the trace must be of this machine.
        most_bytes_of_file: larger files are left out.
        most_bytes: of all files.

    Raises:
        TraceError: the trace has no frames, has sources already, or was recorded on another machine
            and `below` is empty.
    """
    if trace.has("source"):
        raise TraceError(f"{trace.path}: has its sources already; nothing was packed")
    if not below:
        _check_recorded_here(trace)
    folders = [folder.resolve() for folder in below]
    begun = _beginning(trace)
    left_out: Counter[str] = Counter()
    files = lines = held = 0
    for rank, named in _named_files(trace).group_by("rank", maintain_order=True):
        folder = trace.path / RANK_FOLDER.format(rank[0]) if trace.ranks else trace.path
        part = PartWriter(folder)
        for pid, file in named.select("pid", "file").iter_rows():
            try:
                content = _content(file, folders, min(most_bytes_of_file, most_bytes - held), begun)
                rows = _lines(content)
            except _LeftOutError as reason:
                left_out[str(reason)] += 1
                continue
            part.append("source", _table(rank[0], pid, file, rows, content))
            files, lines, held = files + 1, lines + len(rows), held + len(content)
        part.finish()
    return Packed(files, lines, held, dict(left_out))


def _check_recorded_here(trace: Trace) -> None:
    hosts = (
        trace.scan("process").select("host").unique().collect() if trace.has("process") else None
    )
    known = set() if hosts is None else set(hosts["host"]) - {None, ""}
    if known != {socket.gethostname()}:
        where = ", ".join(sorted(known)) or "an unknown machine"
        raise TraceError(
            f"{trace.path}: recorded on {where}; pack its sources there, or name folders whose files"
            " may be packed here: --below DIR"
        )


def _named_files(trace: Trace) -> pl.DataFrame:
    """Return the files that frames name, each where it is named first, those of most stacks first."""
    return (
        trace.scan("frame")
        .filter(pl.col("file") != "", pl.col("line") > 0)
        .group_by("file")
        .agg(pl.col("rank", "pid").sort_by("rank", "pid").first(), pl.len().alias("stacks"))
        .sort("stacks", "file", descending=[True, False])
        .collect()
    )


def _beginning(trace: Trace) -> float:
    """Return when the recording began, in seconds since the epoch; infinity: unknown."""
    try:
        return datetime.datetime.fromisoformat(trace.info["created"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return float("inf")


def _content(file: str, folders: Sequence[Path], most: int, begun: float) -> bytes:
    """Return a file's bytes.

    Raises:
        _LeftOutError: it is not to be packed.
    """
    path = Path(file)
    if not path.is_absolute():
        raise _LeftOutError("not named by an absolute path")
    if path.suffix not in SUFFIXES:
        raise _LeftOutError("no file of source code by its name")
    try:
        path = path.resolve(strict=True)
        state = path.stat()
    except (OSError, RuntimeError):
        raise _LeftOutError("not there") from None
    if path.suffix not in SUFFIXES or not path.is_file():
        raise _LeftOutError("no file of source code by its name")
    if folders and not any(path.is_relative_to(folder) for folder in folders):
        raise _LeftOutError("outside of the folders named")
    if state.st_mtime > begun + 1:
        raise _LeftOutError("changed since the recording began, so that lines may differ")
    if state.st_size > most:
        raise _LeftOutError("larger than what may be packed")
    try:
        with path.open("rb") as opened:
            content = opened.read(most + 1)
    except OSError:
        raise _LeftOutError("not readable") from None
    if len(content) > most:
        raise _LeftOutError("larger than what may be packed")
    return content


def _lines(content: bytes) -> list[str]:
    """Return the lines as compilers and interpreters count them (a form feed ends none), tabs as spaces."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _LeftOutError("no text in UTF-8") from None
    return [line.removesuffix("\n").expandtabs() for line in io.StringIO(text, newline=None)]


def _table(rank: object, pid: int, file: str, lines: Sequence[str], content: bytes) -> pa.Table:
    count = len(lines)
    return pa.table(
        {
            "rank": pa.array([rank] * count, pa.int32()),
            "pid": pa.array([pid] * count, pa.int64()),
            "file": [file] * count,
            "line": pa.array(range(1, count + 1), pa.int32()),
            "text": pa.array(lines, pa.string()),
            "sha256": [hashlib.sha256(content).hexdigest()] * count,
        }
    )
