"""Importing files of other tools: `import_trace` into a folder, `import_cached` into the cache."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

import polars as pl

from pasta.collect.column_map import read_column_map
from pasta.collect.completing import Part, part_of, rank_in_name
from pasta.collect.containers.arrow_files import is_arrow_or_parquet
from pasta.collect.containers.csv_rows import looks_like_csv
from pasta.collect.freed_memory import give_back
from pasta.collect.gathering import gathered_sources
from pasta.collect.importer import IMPORTERS, Completing, Imported, Importer, recognised
from pasta.collect.importers.mapped import Mapped
from pasta.collect.losses import Losses
from pasta.collect.sources import Progress, Source, files_of, open_sources
from pasta.errors import InputError, TraceError
from pasta.schema import SCHEMA_VERSION, TABLES
from pasta.trace import MANIFEST, RANK_FOLDER, Trace
from pasta.trace_align import Aligned, align_trace
from pasta.trace_merge import Transform
from pasta.trace_writer import PartWriter, TraceWriter

_PACKED = {
    b"\x1f\x8b": "gzip twice",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf": "7-Zip",
}
_DESCRIPTIVE = frozenset({"process", "thread", "device", "frame", "loss"})


@dataclass
class ImportReport:
    """What an import made.

    Attributes:
        path: the trace.
        format: the format of the files.
        ranks: the ranks, ascending.
        rows: rows by table, summed over ranks.
        losses: (collector, reason, count, first_ts), largest count first.
        first_ts: start of the recording in ns; `None` where nothing has a time.
        last_ts: its end.
        warnings: what the user should know, one sentence each.
        aligned: how clocks were brought together; `None` where nobody asked.
    """

    path: Path
    format: str
    ranks: list[int] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    losses: list[tuple[str, str, int, int | None]] = field(default_factory=list)
    first_ts: int | None = None
    last_ts: int | None = None
    warnings: list[str] = field(default_factory=list)
    aligned: Aligned | None = None


def import_trace(
    files: Sequence[Path],
    out: Path,
    *,
    strict: bool = False,
    column_map: Path | None = None,
    ranks: Sequence[int] = (),
    align: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Import `files` into a new trace at `out`; a failed import leaves nothing.

    Args:
        files: trace files, plain, gzip or in tar archives; one for each rank.
        out: folder of the trace, absent or empty.
        strict: stop at the first damage instead of counting it.
        column_map: YAML that says what the columns of the files are, whatever their format.
        ranks: of the files, in their order, whatever they say themselves; of an archive, of each of
            its members. By default the files tell.
        align: bring the clocks of ranks together.
        progress: called with the bytes read so far and the total.

    Raises:
        InputError: a file cannot be read, is of no known format, or two are of the same rank; there
            are more or fewer `ranks` than files.
        ConfigError: `column_map` is not YAML.
        TraceError: `out` is not empty, is no longer when all is read, or cannot be made; or with `align`
            the clock of a rank cannot be told.
    """
    if not files:
        raise InputError("no file to import; name at least one")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise TraceError(f"{out}: already exists and is not empty; choose another -o")
    mapped = None if column_map is None else Mapped(read_column_map(column_map))
    with _scratch_beside(out) as scratch:
        made = Path(scratch) / "trace"
        report = _Import(made, mapped, ranks, strict=strict).run(files, progress)
        if align:
            made = _align(report, out)
        _place(made, out)
    report.path = out
    return report


def _place(made: Path, out: Path) -> None:
    """Give a finished trace its name: that of an empty folder or of nothing, whoever else wants it."""
    try:
        made.rename(out)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            found = "something else was written there just now"
        else:
            found = f"cannot be made ({error.strerror})"
        raise TraceError(f"{out}: {found}; choose another -o") from error


def _scratch_beside(out: Path) -> tempfile.TemporaryDirectory[str]:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent)
    except OSError as error:
        raise TraceError(f"{out}: cannot be made ({error.strerror}); choose another -o") from error


def _align(report: ImportReport, out: Path) -> Path:
    """Bring the clocks of an imported trace together and return the new trace, which lies beside it."""
    aligned = report.path.with_name("aligned")
    try:
        report.aligned = align_trace(Trace.open(report.path), aligned)
    except TraceError as error:
        reason = str(error).replace(str(report.path), str(out))
        raise TraceError(f"{reason}; import without --align") from error
    clock = Trace.open(aligned).info["clock"]
    report.first_ts, report.last_ts = clock["first_ts"], clock["last_ts"]
    return aligned


def import_cached(files: Sequence[Path]) -> Path:
    """Import `files` into the cache, once for each content, and return the trace.

    The cache is `$PASTA_CACHE`, else `$XDG_CACHE_HOME/pasta`, else `~/.cache/pasta`.

    Raises:
        InputError: as of `import_trace`.
        TraceError: the cache cannot be written to.
    """
    folder = _cache() / f"import-{_content_key(files)}"
    if (folder / MANIFEST).is_file():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        importing = tempfile.TemporaryDirectory(prefix=".importing-", dir=folder.parent)
    except OSError as error:
        raise TraceError(
            f"{folder.parent}: imports cannot be kept here ({error.strerror}); name another folder"
            " by PASTA_CACHE, or pasta import FILE -o DIR"
        ) from error
    with importing as scratch:
        made = Path(scratch) / "trace"
        import_trace(files, made)
        try:
            made.rename(folder)
        except OSError:
            if not (folder / MANIFEST).is_file():
                raise
    return folder


def _cache() -> Path:
    if chosen := os.environ.get("PASTA_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pasta"


def _content_key(files: Sequence[Path]) -> str:
    """Return a digest of what decides an import: content, names and the versions of the code."""
    versions = sorted((name, IMPORTERS.get(name).version) for name in IMPORTERS)
    digest = hashlib.sha256(repr((SCHEMA_VERSION, versions)).encode())
    for source in files:
        for member in files_of(source) if source.is_dir() else [source]:
            digest.update(f"{member.relative_to(source.parent)}\0{_digest(member)}\0".encode())
    return digest.hexdigest()[:32]


def _digest(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError as error:
        raise InputError(f"{file}: no such file") from error
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from error


def import_part(file: Path, folder: Path, rank: int) -> PartWriter | None:
    """Import one file, which is no archive, as tables of `rank`; `None`: of no known format.

    Args:
        file: the file, plain or gzip.
        folder: where the tables go; absent.
        rank: the rank of all rows, whatever the file says.

    Raises:
        InputError: the file cannot be read.
    """
    sources = open_sources([file])  # holds the file open
    source = next(sources)
    known = recognised(source)
    if known is None:
        return None
    name, found = known
    losses = Losses(f"import {name}", source.name)
    writer = PartWriter(folder)
    imported = found.read(source, writer, losses)
    _finish(writer, imported, rank, losses)
    Part(source.name, name, rank, "", imported.pid, writer, [losses]).append_losses()
    return writer


class _Import:
    """One import into `folder`, of files with a map of their columns or of formats that are known."""

    def __init__(
        self, folder: Path, mapped: Mapped | None, ranks: Sequence[int], *, strict: bool
    ) -> None:
        self._folder = folder
        self._mapped = mapped
        self._ranks = ranks
        self._strict = strict
        self._parts: list[Part] = []
        self._told_later: list[tuple[list[str], Losses]] = []
        self._completing = 0
        self._format = ""
        self._collectors: list[dict[str, Any]] = []

    def run(self, files: Sequence[Path], progress: Progress | None) -> ImportReport:
        """Import all files, and finish the trace; `progress` is told how far the reading is."""
        trace = TraceWriter(
            self._folder, {"command": None, "sources": [str(file) for file in files]}
        )
        for source in self._sources(files, progress):
            self._add(source)
        if len(self._ranks) > len(self._parts):
            raise InputError(
                f"--rank: {len(self._ranks)} ranks are given for {len(self._parts)} files that hold"
                " one; give one for each file, in the same order"
            )
        if self._completing:
            for source in open_sources(files):
                self._complete(source)
        for damages, losses in self._told_later:
            for damage in damages:
                losses.fault(damage)
        for part in self._parts:
            part.append_losses()
        self._place_parts()
        report = self._report()
        trace.finish(
            collectors=self._collectors,
            format=report.format,
            ranks=report.ranks,
            clock={"kind": "source", "first_ts": report.first_ts, "last_ts": report.last_ts},
        )
        return report

    def _sources(self, files: Sequence[Path], progress: Progress | None) -> Iterator[Source]:
        """Yield what is to be imported; files of which a map tells the columns are each for themselves."""
        if self._mapped is not None:
            return open_sources(files, progress)
        return gathered_sources(files, self._folder.with_name("aside"), progress)

    def _add(self, source: Source) -> None:
        """Import one source into a folder of its own and sort it."""
        name, found = self._importer_of(source)
        if _completes(found):
            self._completing += 1
            return
        if self._format not in ("", found.format):
            raise InputError(
                f"{source.name}: is {found.format}, but the files before are {self._format};"
                " import them one by one"
            )
        self._format = found.format
        losses = self._losses_of(name, found, source)
        writer = PartWriter(self._folder / f".part-{len(self._parts)}")
        imported = found.read(source, writer, losses)
        rank, told_by = self._rank_of(source, imported)
        _finish(writer, imported, rank, losses)
        self._parts.append(Part(source.name, name, rank, told_by, imported.pid, writer, [losses]))

    def _complete(self, source: Source) -> None:
        """Add what a source tells to the part that it completes."""
        known = recognised(source)
        if known is None:
            return
        name, found = known
        if not _completes(found):
            return
        losses = self._losses_of(name, found, source)
        if not self._parts:
            found.read(source, PartWriter(self._folder / ".part-0"), losses)
        part = part_of(source, found, self._parts)
        give_back()
        transforms = found.complete(source, part.writer, losses)
        give_back()
        part.writer.finish(_with_rank(transforms, part.rank))
        part.losses.append(losses)
        part.complete = True

    def _losses_of(self, name: str, found: Importer, source: Source) -> Losses:
        collector = {"name": f"import {name}", "version": found.version}
        if collector not in self._collectors:
            self._collectors.append(collector)
        losses = Losses(f"import {name}", source.name, strict=self._strict)
        self._told_later.append((source.later, losses))
        return losses

    def _importer_of(self, source: Source) -> tuple[str, Importer]:
        if self._mapped is None:
            return _importer_of(source)
        if source.folder is not None or not self._mapped.recognises(source):
            raise InputError(
                f"{source.name}: is no CSV, Parquet or Arrow file, so a map of columns does not fit;"
                " leave out --map, or name such files"
            )
        return "mapped", self._mapped

    def _rank_of(self, source: Source, imported: Imported) -> tuple[int, str]:
        """Return the rank and what told it: the user, the file, its name or the order of files."""
        in_name = rank_in_name(source)
        if self._ranks:
            rank, told_by = self._given_rank(source), "--rank"
        elif imported.rank is not None:
            rank, told_by = imported.rank, "its content"
        elif in_name is not None:
            rank, told_by = in_name, "its name"
        else:
            rank, told_by = len(self._parts), "its place in the order of files"
        for other in self._parts:
            if other.rank == rank:
                raise InputError(
                    f"{source.name}: is of rank {rank} by {told_by}, and so is {other.name}"
                    f" by {other.told_by}; import one file for each rank"
                )
        return rank, told_by

    def _given_rank(self, source: Source) -> int:
        place = len(self._parts)
        if place >= len(self._ranks):
            raise InputError(
                f"{source.name}: is file {place + 1}, but --rank names {len(self._ranks)}; give one"
                " for each file, in the same order"
            )
        return self._ranks[place]

    def _place_parts(self) -> None:
        """Move the tables to the trace's root, or to a folder for each of several ranks."""
        for part in self._parts:
            if not part.writer.folder.exists():
                continue
            if len(self._parts) > 1:
                part.writer.folder.rename(self._folder / RANK_FOLDER.format(part.rank))
                continue
            for table in part.writer.folder.iterdir():
                table.rename(self._folder / table.name)
            part.writer.folder.rmdir()

    def _report(self) -> ImportReport:
        report = ImportReport(self._folder, self._format)
        report.ranks = sorted(part.rank for part in self._parts)
        for part in self._parts:
            for table, rows in part.writer.rows.items():
                report.rows[table] = report.rows.get(table, 0) + rows
        report.rows = {table: report.rows[table] for table in TABLES if report.rows.get(table)}
        trace = Trace.open(self._folder)
        report.losses = [
            (row["collector"], row["reason"], row["count"], row["first_ts"])
            for row in trace.losses().iter_rows(named=True)
        ]
        if trace.files("process"):
            times = trace.scan("process").select(pl.col("started").min(), pl.col("ended").max())
            report.first_ts, report.last_ts = times.collect().row(0)
        report.warnings = [
            f"{losses.source}: {loss.told}"
            for part in self._parts
            for losses in part.losses
            for loss in losses
            if loss.damage
        ]
        if not set(report.rows) - _DESCRIPTIVE:
            report.warnings.append("no event of any table was found; the trace is empty")
        return report


def _importer_of(source: Source) -> tuple[str, Importer]:
    """Return name and importer of the format that the source's first bytes tell."""
    found = recognised(source)
    if found is not None:
        return found
    if source.folder is not None:
        raise InputError(f"{source.name}: is a folder of no known format; name the files in it")
    start = source.head.lstrip()[:16].decode(errors="replace")
    raise InputError(
        f"{source.name}: unknown format (starts with {start!r}); {_what_to_do(source)};"
        f" the {len(list(IMPORTERS))} known formats: pasta import --formats"
    )


def _what_to_do(source: Source) -> str:
    """Return what may help with a file of no known format."""
    packed = next((kind for magic, kind in _PACKED.items() if source.head.startswith(magic)), None)
    if packed is not None:
        return f"it is packed with {packed}: unpack it"
    if source.file is None:
        return "unpack the archive and name the traces in it"
    if is_arrow_or_parquet(source.head) or looks_like_csv(source.head):
        return "of a table of rows say what its columns are: --map MAP.yaml"
    return "name a file that a profiler wrote"


def _finish(writer: PartWriter, imported: Imported, rank: int, losses: Losses) -> None:
    """Sort the tables of a part."""
    give_back()
    writer.finish(_with_rank(imported.transforms, rank))
    losses.shift(imported.shift_ns)


def _completes(found: Importer) -> TypeGuard[Completing]:
    return hasattr(found, "completes")


def _with_rank(transforms: Mapping[str, Transform], rank: int) -> dict[str, Transform]:
    """Return the transforms of all tables, each followed by one that sets the rank."""

    def set_rank(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(pl.lit(rank, dtype=pl.Int32).alias("rank"))

    def followed(first: Transform) -> Transform:
        return lambda frame: set_rank(first(frame))

    return {
        table: followed(transforms[table]) if table in transforms else set_rank for table in TABLES
    }
