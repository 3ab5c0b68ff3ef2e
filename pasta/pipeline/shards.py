"""The rows of a graph's inputs cut into shards: by trace, rank, file, row group and time.

A shard says which rows of which files it has; whoever runs it reads them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from pasta.pipeline.graph import Graph, empty_input, with_trace_column
from pasta.pipeline.pruning import TIME, Bounds, chosen_ranks, rank_conditions, time_bounds
from pasta.pipeline.run import Source, chosen_sources
from pasta.pipeline.time_slices import TimeSlice, equal_slices
from pasta.trace import scan_files

_ALWAYS: Bounds = (float("-inf"), float("inf"))

_KNOWN_FILES = 1 << 14
"""Files of which is kept what their footers tell."""


@dataclass(frozen=True)
class Piece:
    """Rows of one file.

    Attributes:
        trace: the name of its trace.
        file: the file.
        offset: its first row.
        rows: how many.
        whole: whether these are all rows of the file.
    """

    trace: str
    file: Path
    offset: int
    rows: int
    whole: bool


@dataclass(frozen=True)
class Shard:
    """A part of the rows of each input; of an input that it does not name, none.

    Attributes:
        pieces: input -> its rows.
        times: what of the intervals among them it has; `None`: all.
    """

    pieces: Mapping[str, Sequence[Piece]]
    times: TimeSlice | None = None

    @property
    def rows(self) -> int:
        """How many rows it has, over all inputs."""
        return sum(piece.rows for pieces in self.pieces.values() for piece in pieces)

    def tables(self, graph: Graph) -> dict[str, pl.LazyFrame]:
        """Return the rows of each input of `graph`."""
        return {
            name: _scan(self.pieces.get(name, ()), spec.table)
            for name, spec in graph.inputs.items()
        }


@dataclass(frozen=True)
class _File:
    """What the footer of a file tells.

    Attributes:
        trace: the name and the folder of its trace, and its folder in there, as text.
        groups: rows of each row group.
        ranks: smallest and largest rank; `None` where unknown.
        times: smallest and largest `ts` of each row group; all numbers where unknown.
        longest: largest `dur`; infinite where unknown.
    """

    trace: str
    folder: tuple[str, str]
    file: Path
    groups: tuple[int, ...]
    ranks: tuple[int, int] | None
    times: tuple[Bounds, ...]
    longest: float

    @property
    def rows(self) -> int:
        """Rows of the file."""
        return sum(self.groups)


class ShardedInputs:
    """The files of a graph's inputs, ready to be cut into shards.

    Args:
        graph: whose inputs.
        sources: the traces that it reads.
        names: the inputs that matter.
    """

    def __init__(self, graph: Graph, sources: Sequence[Source], names: Iterable[str]) -> None:
        self._sources = list(sources)
        known: dict[tuple[str, Path], _File] = {}
        self._files: dict[str, list[_File]] = {}
        conditions = rank_conditions(graph)
        self._bounds = time_bounds(graph)
        for name in names:
            spec = graph.inputs[name]
            self._files[name] = []
            for source in chosen_sources(spec, sources):
                ranks = chosen_ranks(source.trace, conditions.get(name))
                for file in source.trace.files(spec.table, ranks):
                    key = (source.name, file)
                    if key not in known:
                        known[key] = _described(source, file)
                    if known[key].rows:
                        self._files[name].append(known[key])

    def whole(self) -> Shard:
        """Return all rows as one shard."""
        return Shard(
            {name: [_whole(file) for file in files] for name, files in self._files.items()}
        )

    def by_rows(self, rows: int, leave_out: Collection[str] = ()) -> list[Shard]:
        """Cut each input into shards of about `rows` rows, in their order; no row group is cut.

        Row groups of times that no filter leaves are in none of them, nor are the inputs to `leave_out`.
        """
        return [
            Shard({name: pieces})
            for name, files in self._files.items()
            if name not in leave_out
            for pieces in _bundles(files, rows, self._bounds[name])
        ]

    def by_rank(self, rows: int) -> list[Shard]:
        """Cut into shards of whole ranks, several of them where they have few rows.

        Shards follow each other in the order of the inputs. Folders of a trace that share a rank
        stay together, with those between them.
        """
        shards: list[Shard] = []
        bundle: dict[str, list[Piece]] = {}
        for folders in self._rank_folders():
            added = {
                name: [_whole(file) for file in files if file.folder in folders]
                for name, files in self._files.items()
            }
            size = Shard(bundle).rows
            if size and size + Shard(added).rows > rows:
                shards.append(Shard(bundle))
                bundle = {}
            for name, pieces in added.items():
                bundle[name] = [*bundle.get(name, ()), *pieces]
        return [*shards, Shard(bundle)] if Shard(bundle).rows else shards

    def by_time(self, rows: int, timed: Collection[str], *, by_rank: bool) -> list[Shard]:
        """Cut into slices of time in which about `rows` intervals of the inputs `timed` begin.

        With `by_rank` they are slices of whole ranks, of which several are in one where they have
        few rows. Other inputs are in every slice, whole. Where no times are known, nothing is cut.
        """
        shards = self.by_rank(rows) if by_rank else [self.whole()]
        return [part for shard in shards for part in self._slices(shard, rows, timed)]

    def _slices(self, shard: Shard, rows: int, timed: Collection[str]) -> list[Shard]:
        held = {piece.file for name in timed for piece in shard.pieces.get(name, ())}
        files = {file.file: file for name in timed for file in self._files[name]}
        groups = [
            (first, last, size)
            for path in held
            for (first, last), size in zip(files[path].times, files[path].groups, strict=True)
        ]
        longest = max((files[path].longest for path in held), default=0)
        if sum(size for _, _, size in groups) <= rows:
            return [shard]
        slices = equal_slices(groups, longest, rows)
        return [replace(shard, times=times) for times in slices] or [shard]

    @property
    def names(self) -> set[str]:
        """The inputs that matter."""
        return set(self._files)

    def few(self, most: int) -> set[str]:
        """Return the inputs that have up to `most` rows each, if one of the others has more."""
        found = {name for name in self._files if self.rows([name]) <= most}
        return found if len(found) < len(self._files) else set()

    def rows(self, names: Iterable[str]) -> int:
        """Return how many rows the inputs `names` have together."""
        return sum(file.rows for name in names for file in self._files[name])

    @property
    def ranks(self) -> int:
        """In how many parts that share no rank the inputs can be cut."""
        return len(self._rank_folders())

    def _rank_folders(self) -> list[set[tuple[str, str]]]:
        """Return the folders that have to stay together, in the order of the inputs."""
        ranks: dict[tuple[str, str], list[tuple[int, int] | None]] = {}
        for files in self._files.values():
            for file in files:
                ranks.setdefault(file.folder, []).append(file.ranks)
        order = {str(source.trace.path): place for place, source in enumerate(self._sources)}
        folders = sorted(ranks, key=lambda folder: (order[folder[0]], folder[1]))
        return [
            group
            for _, of_trace in groupby(folders, key=lambda folder: folder[0])
            for group in _grouped([(folder, _span(ranks[folder])) for folder in of_trace])
        ]


def _described(source: Source, file: Path) -> _File:
    status = file.stat()
    version = (status.st_ino, status.st_size, status.st_mtime_ns)
    return _read_footer(source.name, str(source.trace.path), file, version)


@lru_cache(_KNOWN_FILES)
def _read_footer(trace: str, path: str, file: Path, _version: tuple[int, ...]) -> _File:
    """Return what a file's footer tells, which is read once for all tools of a report."""
    footer = pq.read_metadata(file)
    groups = tuple(footer.row_group(place).num_rows for place in range(footer.num_row_groups))
    folder = (path, str(file.parent.parent))
    times = tuple(span or _ALWAYS for span in _extremes(footer, TIME))
    return _File(trace, folder, file, groups, _ranks(footer), times, _longest(footer))


def _ranks(footer: pq.FileMetaData) -> tuple[int, int] | None:
    """Return the smallest and largest rank in a file, from its statistics."""
    groups = _extremes(footer, "rank")
    known = [span for span in groups if span is not None]
    if not known or len(known) < len(groups):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def _longest(footer: pq.FileMetaData) -> float:
    """Return the largest duration in a file, from its statistics; infinite where one lacks them."""
    longest: float = 0
    for statistics in _statistics(footer, "dur"):
        if statistics is not None and statistics.has_min_max:
            longest = max(longest, int(statistics.max))  # type: ignore[arg-type]
        elif statistics is None or statistics.num_values != 0:
            longest = float("inf")
    return longest


def _statistics(footer: pq.FileMetaData, column: str) -> Iterator[pq.Statistics | None]:
    """Yield what each row group tells of a column, where it tells anything."""
    schema = footer.schema
    named = (place for place, name in enumerate(schema.names) if name == column)
    number = next((place for place in named if schema.column(place).path == column), None)
    for place in range(footer.num_row_groups):
        yield None if number is None else footer.row_group(place).column(number).statistics


def _extremes(footer: pq.FileMetaData, column: str) -> list[tuple[int, int] | None]:
    """Return the least and the largest value of a column in each row group, where it has no null."""
    found: list[tuple[int, int] | None] = []
    for statistics in _statistics(footer, column):
        if statistics is None or not statistics.has_min_max or statistics.null_count != 0:
            found.append(None)
        else:
            found.append((int(statistics.min), int(statistics.max)))  # type: ignore[arg-type]
    return found


def _span(ranks: Sequence[tuple[int, int] | None]) -> tuple[float, float]:
    """Return an interval that holds all ranks of a folder; all numbers where one is unknown."""
    known = [span for span in ranks if span is not None]
    if len(known) < len(ranks):
        return float("-inf"), float("inf")
    return min(low for low, _ in known), max(high for _, high in known)


def _grouped(
    folders: Sequence[tuple[tuple[str, str], tuple[float, float]]],
) -> Iterator[set[tuple[str, str]]]:
    """Yield runs of folders such that no two runs share a rank."""
    groups: list[tuple[set[tuple[str, str]], float, float]] = []
    for folder, (low, high) in folders:
        group, lowest, highest = {folder}, low, high
        shared = [place for place, (_, a, b) in enumerate(groups) if a <= highest and lowest <= b]
        for names, a, b in groups[shared[0] :] if shared else ():
            group, lowest, highest = group | names, min(lowest, a), max(highest, b)
        groups = [*(groups[: shared[0]] if shared else groups), (group, lowest, highest)]
    yield from (group for group, _, _ in groups)


def _bundles(files: Sequence[_File], rows: int, bounds: Bounds) -> Iterator[list[Piece]]:
    """Yield consecutive pieces of about `rows` rows together."""
    bundle: list[Piece] = []
    for file in files:
        for piece in _pieces(file, rows, bounds):
            if bundle and sum(held.rows for held in bundle) + piece.rows > rows:
                yield bundle
                bundle = []
            bundle.append(piece)
    if bundle:
        yield bundle


def _pieces(file: _File, rows: int, bounds: Bounds) -> Iterator[Piece]:
    """Yield consecutive row groups of times within `bounds`, together of about `rows` rows."""
    begin = end = 0
    for size, (first, last) in zip(file.groups, file.times, strict=True):
        matters = first <= bounds[1] and bounds[0] <= last
        if end > begin and (not matters or end + size - begin > rows):
            yield _piece(file, begin, end)
            begin = end
        end += size
        if not matters:
            begin = end
    if end > begin:
        yield _piece(file, begin, end)


def _piece(file: _File, begin: int, end: int) -> Piece:
    return Piece(file.trace, file.file, begin, end - begin, whole=end - begin == file.rows)


def _whole(file: _File) -> Piece:
    return Piece(file.trace, file.file, 0, file.rows, whole=True)


def _scan(pieces: Sequence[Piece], table: str) -> pl.LazyFrame:
    """Return the rows of `pieces`; whole files of one trace are one scan."""
    parts = []
    for (trace, whole), run in groupby(pieces, key=lambda piece: (piece.trace, piece.whole)):
        if whole:
            scans = [scan_files([piece.file for piece in run], table)]
        else:
            scans = [scan_files([p.file], table).slice(p.offset, p.rows) for p in run]
        parts += [with_trace_column(rows, trace) for rows in scans]
    return pl.concat(parts) if parts else empty_input(table)
