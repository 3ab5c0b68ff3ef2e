"""What it costs to join a timeline run and a memory run of one program.

    python benchmarks/join_runs.py [--launches N] [--accesses N] [--lacking SHARE]

The program makes the same 1,500 launches of 80 kernels on two streams again and again. Each run
lacks some launches at random. The memory run has three touches and an allocation for each launch.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pasta.trace import Trace
from pasta.trace_join import join_traces
from pasta.trace_writer import TraceWriter

STEP, KERNELS, SPACING = 1500, 80, 10_000
BATCH = 1 << 20
NAMES = [f"void elementwise_kernel<{k}, Functor<float>>(int, float*)" for k in range(KERNELS)]


def main() -> None:
    """Write two runs, join them, and print time, memory and rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--launches", type=int, default=1_000_000)
    parser.add_argument("--accesses", type=int, default=0)
    parser.add_argument("--lacking", type=float, default=0.001)
    given = parser.parse_args()
    chance = np.random.default_rng(0)
    codes = np.resize(chance.integers(0, KERNELS, STEP), given.launches)
    ours, theirs = (
        codes[chance.random(given.launches) >= given.lacking] for _ in ("timeline", "memory")
    )
    with tempfile.TemporaryDirectory() as folder:
        timeline, memory, out = (Path(folder) / name for name in ("timeline", "memory", "joined"))
        write(timeline, kernel=[kernels(ours, 1, 2000)])
        write(memory, kernel=[kernels(theirs, 2, None)], **touched(theirs, given.accesses))
        began = time.perf_counter()
        joined = join_traces(Trace.open(timeline), Trace.open(memory), out)
        seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{seconds:.1f} s, at most {peak:,} MiB (with writing the runs), rows {joined.rows}")
    print(*joined.shares, sep="\n")


def write(path: Path, **tables: Any) -> None:
    """Write a trace of one process."""
    writer = TraceWriter(path, {})
    part = writer.part()
    for table, batches in tables.items():
        for rows in batches:
            part.append(table, rows)
    part.finish()
    writer.finish()


def kernels(codes: Any, pid: int, dur: int | None) -> pa.Table:
    """Return a kernel for each code, one after the other."""
    count = len(codes)
    number = np.arange(1, count + 1)
    texts = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), NAMES)
    same = {"rank": 0, "pid": pid, "device": 0, "context": pid, "block_x": 32}
    varying = {"ts": number * SPACING * pid, "stream": codes % 7 // 6 + 10 * pid}
    ids = {"launch_id": number, "correlation": number, "grid_x": codes % 5}
    columns = {**columns_of(same, count), **varying, **ids, "name": texts.cast(pa.string())}
    return pa.table({**columns, "dur": pa.array([dur] * count, pa.int64())})


def touched(codes: Any, accesses: int) -> Any:
    """Return touches, allocations and accesses of the memory run, in batches."""
    count = len(codes)
    number = np.arange(1, count + 1)
    same = {"rank": 0, "pid": 2, "device": 0, "space": "tensor"}
    touch = {"launch_id": number, "span_id": 0 * number, "unique_bytes": 512 + codes}
    times = {"ts": 2 * SPACING * number - 5, "address": 512 * number, "tid": 0 * number + 2}
    objects = [{**columns_of(same, count), "object_id": codes + place} for place in (1, 2, 3)]
    allocated = {"event": ["allocate"] * count, "bytes": 512 + codes, "object_id": number}
    return {
        "touch": [pa.table({**each, **touch}) for each in objects],
        "memory": [pa.table({**columns_of(same, count), **times, **allocated})],
        "access": (
            access_rows(first, min(BATCH, accesses - first), count / accesses)
            for first in range(0, accesses, BATCH)
        ),
    }


def access_rows(first: int, count: int, launches: float) -> pa.Table:
    """Return accesses of warps, spread over all launches."""
    number = np.arange(first, first + count)
    launch = (number * launches).astype(np.int64) + 1
    request = {"request": number // 32, "lane": number % 32, "warp": number // 32 % 8}
    place = {"address": (1 << 40) + 4 * number, "pc": number % 640, "block": number // 256 % 1000}
    same = columns_of({"rank": 0, "pid": 2, "device": 0, "bytes": 4, "op": 0, "space": 0}, count)
    return pa.table({**same, "launch_id": launch, **request, **place})


def columns_of(values: dict[str, Any], count: int) -> dict[str, Any]:
    """Return columns that have one value throughout."""
    return {name: [value] * count for name, value in values.items()}


if __name__ == "__main__":
    main()
