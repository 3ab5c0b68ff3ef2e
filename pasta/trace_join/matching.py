"""Which launch of one run is which of another: by process, stream, order, name and size."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from pasta.trace import Trace
from pasta.trace_join.alignment import Integers, align, doubtful
from pasta.trace_join.pairing import pair_in_order

PROCESS = ["rank", "pid"]
STREAM = ["device", "context", "stream"]
_SIZES = [f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"]
_CODED = ["name", *_SIZES]
_MOST_COMBINATIONS = 1 << 22
_NUMBERS = (*PROCESS, *STREAM, "memory_context", "memory_stream")
_PAIRED_STREAMS = {name: pl.Int32 if name in ("rank", "device") else pl.Int64 for name in _NUMBERS}

Process = tuple[int, int]
"""Rank and pid."""


@dataclass
class Matching:
    """What of two runs is the same.

    Attributes:
        timeline: launches of the timeline run: `rank`, `pid`, `device`, `context`, `stream`, `ts`,
            `launch_id`, `correlation` and a `code` of name and size, by process and time.
        memory: those of the memory run.
        processes: process of the memory run -> pid of the same process in the timeline run.
        streams: paired streams: `rank`, `pid`, `device`, `context`, `stream` of the timeline run,
            `memory_context`, `memory_stream`.
        rows: matched launches, as rows of `timeline`.
        memory_rows: the same launches as rows of `memory`.
        doubtful: process of the timeline run -> matched launches that could as well be a neighbour
            of the same name and size.
    """

    timeline: pl.DataFrame
    memory: pl.DataFrame
    processes: dict[Process, int]
    streams: pl.DataFrame
    rows: Integers
    memory_rows: Integers
    doubtful: dict[Process, int]


@dataclass(frozen=True)
class _Stream:
    """The launches of one stream, in order: their rows in the run's frame, and their codes."""

    key: tuple[int, int]
    rows: Integers
    codes: Integers


@dataclass
class _Found:
    """What has been matched so far."""

    streams: list[tuple[int, int, int, int, int, int, int]] = field(default_factory=list)
    rows: list[Integers] = field(default_factory=lambda: [np.zeros(0, dtype=np.int64)])
    memory_rows: list[Integers] = field(default_factory=lambda: [np.zeros(0, dtype=np.int64)])
    doubtful: dict[Process, int] = field(default_factory=dict)


def match(timeline: Trace, memory: Trace) -> Matching:
    """Match the launches of a memory run with those of a timeline run of the same program.

    Processes are paired by rank and order of their start, streams by order of their first launch
    in each process and device, launches of a stream by their order, name, grid and block. What only
    one run has is left out on each of these levels and does not shift the rest.
    """
    ours, theirs = _coded(_launches(timeline), _launches(memory))
    processes = _paired_processes(
        _in_start_order(timeline, ours), _in_start_order(memory, theirs), ours, theirs
    )
    streams, memory_streams = _by_device(ours), _by_device(theirs)
    found = _Found()
    for (rank, memory_pid), pid in sorted(processes.items()):
        for device in sorted(d for r, p, d in streams if (r, p) == (rank, pid)):
            theirs_there = memory_streams.get((rank, memory_pid, device), [])
            _match_streams((rank, pid, device), streams[rank, pid, device], theirs_there, found)
    return Matching(
        ours,
        theirs,
        processes,
        pl.DataFrame(found.streams, schema=_PAIRED_STREAMS, orient="row"),
        np.concatenate(found.rows),
        np.concatenate(found.memory_rows),
        found.doubtful,
    )


def _match_streams(
    where: tuple[int, int, int], ours: list[_Stream], theirs: list[_Stream], found: _Found
) -> None:
    """Pair the streams of a device in one process, and match their launches."""
    members = [[stream.codes for stream in side] for side in (ours, theirs)]
    for place, other_place in _pairs(*members):
        stream, other = ours[place], theirs[other_place]
        rows, other_rows = align(stream.codes, other.codes)
        found.streams.append((*where, *stream.key, *other.key))
        found.rows.append(stream.rows[rows])
        found.memory_rows.append(other.rows[other_rows])
        unsure = doubtful(stream.codes, other.codes, rows, other_rows)
        found.doubtful[where[:2]] = found.doubtful.get(where[:2], 0) + unsure


def _launches(trace: Trace) -> pl.DataFrame:
    """Return the launches that have an id of their own, by process and time."""
    own_id = (pl.col("launch_id") > 0) & (pl.len().over(*PROCESS, "launch_id") == 1)
    return (
        trace.scan("kernel")
        .select(*PROCESS, *STREAM, "ts", "launch_id", "correlation", *_CODED)
        .filter(own_id, pl.col("ts").is_not_null())
        .with_columns(pl.col(*STREAM, "correlation").fill_null(0))
        .sort(*PROCESS, "ts", "launch_id")
        .collect()
    )


def _coded(ours: pl.DataFrame, theirs: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return both with `code`, a number for each combination of name and size, in their place."""
    keys = pl.concat([ours.select(_CODED), theirs.select(_CODED)]).unique(maintain_order=True)
    keys = keys.with_row_index("code").with_columns(pl.col("code").cast(pl.Int64))

    def coded(rows: pl.DataFrame) -> pl.DataFrame:
        joined = rows.join(keys, on=_CODED, how="left", nulls_equal=True, maintain_order="left")
        return joined.drop(_CODED)

    return coded(ours), coded(theirs)


def _by_device(launches: pl.DataFrame) -> dict[tuple[int, int, int], list[_Stream]]:
    """Return the streams of each rank, pid and device in order of their first launch.

    Launches are ordered by the calls that caused them, where all are known, since a stream may
    wait for another before it begins; else by time.
    """
    called = pl.col("correlation").cast(pl.Int64)
    order = pl.when((called > 0).all().over(PROCESS)).then(called).otherwise("ts")
    grouped = (
        launches.with_row_index("row")
        .with_columns(pl.col("row").cast(pl.Int64), order=order)
        .group_by(*PROCESS, *STREAM, maintain_order=True)
        .agg("row", "code", first=pl.col("order").min())
        .sort("first", maintain_order=True)
    )
    found: dict[tuple[int, int, int], list[_Stream]] = {}
    keys = grouped.select(*PROCESS, *STREAM).rows()
    for (rank, pid, device, *key), rows, codes in zip(
        keys, grouped["row"], grouped["code"], strict=True
    ):
        stream = _Stream((key[0], key[1]), rows.to_numpy(), codes.to_numpy())
        found.setdefault((rank, pid, device), []).append(stream)
    return found


def _in_start_order(trace: Trace, launches: pl.DataFrame) -> pl.DataFrame:
    """Return `rank` and `pid` of each process by rank and start; without it, by first launch."""
    known = [
        launches.group_by(PROCESS).agg(started=pl.col("ts").min(), recorded=pl.lit(value=False))
    ]
    if trace.files("process"):
        rows = trace.scan("process").group_by(PROCESS).agg(pl.col("started").min())
        known.append(rows.with_columns(recorded=pl.col("started").is_not_null()).collect())
    return (
        pl.concat(known)
        .sort("recorded", descending=True)
        .unique(PROCESS, keep="first", maintain_order=True)
        .sort("rank", "started", "pid", nulls_last=True)
        .select(PROCESS)
    )


def _paired_processes(
    ours: pl.DataFrame, theirs: pl.DataFrame, launches: pl.DataFrame, memory_launches: pl.DataFrame
) -> dict[Process, int]:
    """Return process of the memory run -> pid in the timeline run.

    First those that launched the same. Of the others, those that launched something are paired in
    order where both runs have as many of them, and so are those that launched nothing.
    """
    codes = [_codes_by_process(side) for side in (launches, memory_launches)]
    paired: dict[Process, int] = {}
    for rank in theirs["rank"].unique(maintain_order=True):
        sides = [side.filter(pl.col("rank") == rank).rows() for side in (ours, theirs)]
        busy, idle = (
            [
                [p for p in side if (p in found) == busy]
                for side, found in zip(sides, codes, strict=True)
            ]
            for busy in (True, False)
        )
        members = [[found[p] for p in side] for side, found in zip(busy, codes, strict=True)]
        pairs = [(busy[0][place], busy[1][other]) for place, other in _pairs(*members)]
        taken = [set(side) for side in zip(*pairs, strict=True)] or [set(), set()]
        rest = [
            [p for p in side if p not in known] for side, known in zip(busy, taken, strict=True)
        ]
        for both in (rest, idle):
            if len(both[0]) == len(both[1]):
                pairs += zip(*both, strict=True)
        paired |= {other: pid for (_, pid), other in pairs}
    return paired


def _codes_by_process(launches: pl.DataFrame) -> dict[Process, Integers]:
    grouped = launches.group_by(PROCESS, maintain_order=True).agg("code")
    pairs = zip(grouped.select(PROCESS).rows(), grouped["code"], strict=True)
    return {process: codes.to_numpy() for process, codes in pairs}


def _pairs(ours: list[Integers], theirs: list[Integers]) -> list[tuple[int, int]]:
    """Return the pairs of members of both sides, each given by the codes of its launches.

    Very many are paired by their place alone.
    """
    shape = len(ours), len(theirs)
    if shape[0] * shape[1] > _MOST_COMBINATIONS:
        return [(place, place) for place in range(min(shape))]
    shared = (
        _counted(ours)
        .join(_counted(theirs), on="code", suffix="_other")
        .group_by("member", "member_other")
        .agg(pl.min_horizontal("len", "len_other").sum().cast(pl.Int64))
    )
    member, other, count = (shared[name].to_numpy() for name in ("member", "member_other", "len"))
    common = np.zeros(shape, dtype=np.int64)
    common[member, other] = count
    return pair_in_order(common)


def _counted(codes: list[Integers]) -> pl.DataFrame:
    """Return how often each member, numbered from 0, launched each `code`."""
    numbers = np.repeat(np.arange(len(codes)), [len(each) for each in codes])
    together = np.concatenate([np.zeros(0, dtype=np.int64), *codes])
    return pl.DataFrame({"member": numbers, "code": together}).group_by("member", "code").len()
