"""A made-up program, run twice: once for a timeline, once for its memory, never quite the same.

Each launch of the program has a number of its own, which neither run tells the other: it stands in
`registers` of the timeline's kernels and in `reads` of the memory run's touches.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pyarrow as pa

from pasta.schema import arrow_schema
from pasta.trace import Trace
from pasta.trace_writer import TraceWriter

TIMELINE_START, MEMORY_START = 5_000_000_000, 9_000_000_000


@dataclass(frozen=True)
class Launch:
    """One launch of the program."""

    number: int
    rank: int
    process: int
    device: int
    stream: int
    name: str
    grid: int


@dataclass
class Program:
    """Launches in the order in which each process makes them."""

    launches: list[Launch] = field(default_factory=list)

    def of(self, *where: int) -> list[Launch]:
        """The launches of a rank, process, device and stream, or of a part of these."""
        return [
            launch
            for launch in self.launches
            if (launch.rank, launch.process, launch.device, launch.stream)[: len(where)] == where
        ]


def program(
    chance: random.Random,
    *,
    ranks: int = 1,
    processes: int = 1,
    devices: int = 1,
    streams: int = 1,
    launches: int = 50,
    names: int = 5,
) -> Program:
    """A program of random launches; each stream has a kernel that it begins with."""
    made = Program()
    for rank in range(ranks):
        for process in range(processes):
            places = [(device, stream) for device in range(devices) for stream in range(streams)]
            chosen = places + [chance.choice(places) for _ in range(launches)]
            for number, (device, stream) in enumerate(chosen):
                first = number < len(places)
                name = f"first {stream}" if first else f"kernel {chance.randrange(names)}"
                place = (rank, process, device, stream)
                made.launches.append(
                    Launch(len(made.launches) + 1, *place, name, 1 + chance.randrange(3))
                )
    return made


def lacking(chance: random.Random, whole: Program, share: float) -> Program:
    """The same program without some of its launches, but with the first of each stream."""
    return Program(
        [
            launch
            for launch in whole.launches
            if launch.name.startswith("first") or chance.random() >= share
        ]
    )


def longest_common(left: list[object], right: list[object]) -> int:
    """The length of the longest common subsequence, by the textbook's table."""
    row = [0] * (len(right) + 1)
    for x in left:
        above, row = row, [0]
        for place, y in enumerate(right):
            row.append(above[place] + 1 if x == y else max(above[place + 1], row[place]))
    return row[-1]


def written(path: Path, ranks: int, **tables: list[dict[str, object]]) -> Trace:
    """A trace of rows that name their rank."""
    writer = TraceWriter(path, {"command": "made up", "collectors": [{"name": path.name}]})
    for rank in range(ranks):
        part = writer.part(rank if ranks > 1 else None)
        for table, rows in tables.items():
            own = [row for row in rows if row["rank"] == rank]
            part.append(table, pa.Table.from_pylist(own, schema=arrow_schema(table)))
        part.finish()
    writer.finish(ended="exit 0", ranks=list(range(ranks)))
    return Trace.open(path)


def join_losses(trace: Trace) -> dict[str, int]:
    """What joining lost, by the first words of the reason."""
    rows = trace.losses().filter(pl.col("collector") == "join").select("reason", "count").rows()
    return {reason.partition(":")[0]: count for reason, count in rows}


def timeline_pid(launch: Launch) -> int:
    return 100 + launch.process


def memory_pid(launch: Launch) -> int:
    return 3000 - 10 * launch.process  # later processes have lower pids


def timeline_run(path: Path, made: Program, **more: list[dict[str, object]] | None) -> Trace:
    """Kernels with durations, the calls that launched them, and a span around every fifth.

    Args:
        path: the trace's folder.
        made: what is run.
        more: rows of tables beside; `None`: without that table.
    """
    tables: dict[str, list[dict[str, object]]] = {"kernel": [], "call": [], "span": []}
    ids: dict[tuple[int, int], int] = {}
    for launch in made.launches:
        where = {"rank": launch.rank, "pid": timeline_pid(launch)}
        place = (launch.rank, launch.process)
        ids[place] = number = ids.get(place, 0) + 1
        begin = TIMELINE_START + 1000 * number
        tables["kernel"].append(
            where
            | _kernel(launch, number, begin + 500, 300)
            | {"context": 1, "stream": 7 + launch.stream, "registers": launch.number}
        )
        call = {"tid": where["pid"], "ts": begin, "dur": 10, "correlation": number}
        tables["call"].append(where | call | {"name": "cudaLaunchKernel", "stack_id": 0})
        if number % 5 == 0:
            span = {"tid": where["pid"], "ts": begin - 100, "dur": 200, "span_id": number}
            tables["span"].append(
                where | span | {"level": "operator", "name": f"op {launch.name}", "parent_id": 0}
            )
    tables["process"] = _processes(made, timeline_pid, TIMELINE_START)
    return written(path, _ranks(made), **_with(tables, more))


def memory_run(path: Path, made: Program, **more: list[dict[str, object]]) -> Trace:
    """Launches with what they touched; before each a tensor is allocated, after it released."""
    tables: dict[str, list[dict[str, object]]] = {
        name: [] for name in ("kernel", "call", "touch", "memory", "access", "event")
    }
    ids: dict[tuple[int, int], int] = {}
    for launch in made.launches:
        where = {"rank": launch.rank, "pid": memory_pid(launch)}
        place = (launch.rank, launch.process)
        ids[place] = number = ids.get(place, 0) + 1
        begin = MEMORY_START + 7000 * number
        stream = {"context": 900, "stream": 40 - launch.stream, "correlation": number}
        tables["kernel"].append(where | _kernel(launch, number, begin, None) | stream)
        call = {"tid": where["pid"], "ts": begin, "dur": 10, "correlation": number}
        tables["call"].append(where | call | {"name": "cuLaunchKernel", "stack_id": 0})
        of_launch = where | {"device": launch.device, "launch_id": number}
        touch = of_launch | {"span_id": 0, "reads": launch.number, "granularity": 512}
        tables["touch"].append(touch | {"space": "global", "object_id": 0})
        tensor = {"space": "tensor", "object_id": number, "unique_bytes": 512}
        tables["touch"].append(touch | tensor)
        tables["access"].append(of_launch | {"request": launch.number, "lane": 3, "address": 64})
        tables["event"].append(of_launch | {"kind": "barrier", "count": launch.number})
        for event, ts in (("allocate", begin - 100), ("release", begin + 100)):
            row = {"tid": where["pid"], "device": launch.device, "ts": ts, "event": event}
            of = {"space": "tensor", "object_id": number, "address": 512 * number, "stack_id": 0}
            tables["memory"].append(where | row | of | {"bytes": 1000 + launch.number})
    tables["process"] = _processes(made, memory_pid, MEMORY_START)
    return written(path, _ranks(made), **_with(tables, more))


def _with(tables, more) -> dict[str, list[dict[str, object]]]:
    """The tables with more rows, or without those that are to be absent."""
    for name, rows in more.items():
        tables[name] = [] if rows is None else tables.get(name, []) + rows
    return tables


def _ranks(made: Program) -> int:
    return 1 + max(launch.rank for launch in made.launches)


def _kernel(launch: Launch, number: int, ts: int, dur: int | None) -> dict[str, object]:
    sizes = {"grid_x": launch.grid, "grid_y": 1, "grid_z": 1, "block_x": 32}
    identity = {"launch_id": number, "device": launch.device, "ts": ts, "dur": dur}
    rest = {"block_y": 1, "block_z": 1, "correlation": number, "name": launch.name}
    return identity | sizes | rest | {"external_id": 0, "graph_id": 0, "graph_node_id": 0}


def _processes(made: Program, pid, start: int) -> list[dict[str, object]]:
    found = {
        (launch.rank, launch.process): {
            "rank": launch.rank,
            "pid": pid(launch),
            "started": start + launch.process,
            "stack_id": 0,
            "command": f"process {launch.process}",
        }
        for launch in made.launches
    }
    return list(found.values())
